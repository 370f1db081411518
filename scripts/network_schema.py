"""Writes the JSON schema of network files to docs/network.schema.json, where a test looks for it."""

import json
from pathlib import Path

from penstock.config.network_file import schema

(Path(__file__).parents[1] / "docs" / "network.schema.json").write_text(json.dumps(schema(), indent=2) + "\n")
