"""Writes the JSON schema of site files to docs/site.schema.json, where a test looks for it."""

import json
from pathlib import Path

from penstock.config.site_file import schema

(Path(__file__).parents[1] / "docs" / "site.schema.json").write_text(json.dumps(schema(), indent=2) + "\n")
