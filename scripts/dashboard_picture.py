"""Takes the picture of the dashboard for its page in the documentation: a simulated query in Debian's Chromium."""

import os
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.components import debian_browser  # noqa: E402 - found by the line above

from penstock.sim.kept_run import sample  # noqa: E402
from penstock.web.app import Page  # noqa: E402
from penstock.web.board import Board  # noqa: E402

SIZE = {"width": 1200, "height": 1000}


def main() -> None:
    """Write docs/img/dashboard.png, or the file that is named."""
    file = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "docs" / "img" / "dashboard.png"
    program, environment = debian_browser()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        sample(Path("jobs"))
        with Page(Board([Path("jobs")]), port=0).beside() as address, sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=str(program), env={**os.environ, **environment}, args=["--no-sandbox"]
            )
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.goto(address.url)
            page.get_by_role("tab", name="guarded", exact=True).click()
            page.get_by_role("region", name="Costs").wait_for()
            page.screenshot(path=file)
            browser.close()


if __name__ == "__main__":
    main()
