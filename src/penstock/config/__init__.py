"""Files that a user writes: networks, sites and guards as YAML. An error names the file, the line and the field.

`yaml_lines` reads YAML with line numbers, `fields` validates it with pydantic; `network_file`, `site_file` and
`guard_file` are the three kinds of files.
"""
