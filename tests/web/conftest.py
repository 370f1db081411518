"""What tests of the page share: a browser."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.components import debian_browser

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    program, environment = debian_browser()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=str(program),
            env={**os.environ, **environment},
            args=[
                "--no-sandbox",  # whoever tests may be root, in a container
                # No screen: nothing is gained by drawing in a process of its own, nor by one more for each site.
                "--disable-gpu",
                "--in-process-gpu",
                "--renderer-process-limit=1",
            ],
        )
        yield browser
        browser.close()
