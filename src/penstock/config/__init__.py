"""Files that a user writes: networks, sites and guards as YAML. An error names the file, the line and the field."""
