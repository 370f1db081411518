"""Site files: what they say, and the one line that a mistake gets."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from penstock.config.site_file import Link, SiteFile, load, schema
from penstock.config.yaml_lines import parse
from penstock.errors import PenstockError

ROOT = Path(__file__).parents[2]
TEXT = """\
site: west
sites: [west, north]
transport: {folder: ../bus}
interval: 1 s
window: 8 s
budget: 0.5
queries:
  avg: {sources: 3, importance: 2}
fragments:
  avg-part:
    query: avg
    inputs:
      cpu: {format: rate, options: {rowsPerSecond: 5}}
      far: {from: avg-far, site: north, schema: 'a bigint'}
    sql: SELECT 1 AS one FROM cpu
  avg-root:
    query: avg
    inputs:
      part: {from: avg-part, site: west, schema: 'one int'}
    sql: SELECT * FROM part
    to: {format: memory}
"""
KAFKA = TEXT.replace("{folder: ../bus}", "{kafka: 'localhost:9092', client: {security.protocol: SSL, retries: 3}}")


def made(tmp_path: Path, text: str) -> SiteFile:
    path = tmp_path / "sub" / "site.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return load(path)


def test_the_importance_of_a_query_was_called_weight(tmp_path: Path) -> None:
    assert made(tmp_path, TEXT.replace("importance: 2", "weight: 2")).queries == made(tmp_path, TEXT).queries
    with pytest.raises(PenstockError, match="weight = 2 is not usable: give importance alone"):
        made(tmp_path, TEXT.replace("importance: 2", "importance: 2, weight: 2"))


def test_a_file_says_what_a_site_needs_to_know(tmp_path: Path) -> None:
    file = made(tmp_path, TEXT)

    assert (file.site, file.peers, file.interval_s, file.window_s, file.budget) == ("west", ("north",), 1.0, 8.0, 0.5)
    assert file.transport.folder is not None
    assert file.transport.folder.resolve() == (tmp_path / "bus").resolve()
    assert file.folder == tmp_path / "sub" / "out" / "west"
    assert file.links_in == (Link("north", "avg-far"), Link("west", "avg-part"))
    assert file.links_out == (Link("west", "avg-part"),)
    assert {name: one.source for name, one in file.planned.items()} == {
        "avg-part.cpu": True,
        "avg-part.far": False,
        "avg-root.part": False,
    }
    assert (file.queries["avg"].sources, file.queries["avg"].importance) == (3, 2.0)


def test_options_of_kafka_pass_through_and_are_not_shown(tmp_path: Path) -> None:
    file = made(tmp_path, KAFKA.replace("retries: 3", "sasl.password: hush"))

    assert file.transport.client == {"security.protocol": "SSL", "sasl.password": "hush"}
    assert file.transport.prefix == "penstock"
    assert "hush" not in repr(file)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("site: west\n", "site: ../west\n", "line 1, site = '../west' is not usable: give a name of up to 60"),
        ("site: west\n", "", "line 1, site is missing: give a name of up to 60"),
        ("[west, north]", "[north]", "line 2, sites = ['north'] is not usable: give a list with this site, west"),
        ("[west, north]", "[west, ..]", "line 2, sites[1] = '..' is not usable: give a name"),
        ("[west, north]", "[west, west]", "line 2, sites = 'west' is not usable: give each site once"),
        ("{folder: ../bus}", "{}", "line 3, transport = {} is not usable: give either folder or kafka"),
        ("{folder: ../bus}", "{folder: a, kafka: b}", "give either folder or kafka"),
        ("{folder: ../bus}", "{folder: 'dbfs:/bus'}", "give the path of a folder of a file system that is mounted"),
        ("{folder: ../bus}", "{folder: ~/bus}", "give the path of a folder of a file system that is mounted here"),
        (
            "{folder: ../bus}",
            "{folder: a, prefix: b}",
            "transport.prefix = 'b' is not usable: give it with kafka",
        ),
        ("budget: 0.5", "budget: 0", "line 6, budget = 0 is not usable: give a share of time above 0, up to 1"),
        ("budget: 0.5", "capacity: -1", "line 6, capacity = -1 is not usable: give rows a second"),
        ("budget: 0.5", "policy: fair", "line 6, policy = 'fair' is not usable: give one of balance, random"),
        ("budget: 0.5", "bugdet: 0.5", "bugdet = 0.5 is not usable: give a key among"),
        (
            "window: 8 s",
            "window: 500 ms",
            "window = '500 ms' is not usable: give a window of an interval",
        ),
        ("sources: 3", "sources: 0", "line 8, queries.avg.sources = 0 is not usable: give how many sources"),
        (
            "  avg: {sources: 3, importance: 2}",
            "  avg: {sources: 3}\n  b: {sources: 1}",
            "queries.b has no fragment here",
        ),
        ("    query: avg\n    inputs:\n      cpu", "    query: agv\n    inputs:\n      cpu", "avg comes nearest"),
        ("{format: rate, options: {rowsPerSecond: 5}}", "{schema: a int}", "give either format, for a source, or from"),
        ("{from: avg-far, site: north, ", "{from: avg-far, ", "inputs.far.site is missing: give the site of that"),
        (
            "{from: avg-far, site: north, ",
            "{from: avg-far, site: nort, ",
            "one of west, north; north comes nearest",
        ),
        ("{from: avg-far, ", "{from: ../../etc, ", "inputs.far.from = '../../etc' is not usable: give a name"),
        (", schema: 'a bigint'", "", "inputs.far.schema is missing: give its columns as in SQL"),
        ("{from: avg-part, site: west", "{from: avg-root, site: west", "give a fragment of this site without a sink"),
        ("{format: memory}", "{format: parquet}", "to.options.path is missing: give it to write parquet"),
        ("    sql: SELECT 1 AS one FROM cpu\n", "", "fragments.avg-part.sql is missing: give a query in Spark SQL"),
        ("      cpu: {format", "      c-pu: {format", "give a name as SQL has it"),
        (
            "{from: avg-far, site: north",
            "{from: avg-part, site: west",
            "avg-part feeds itself, from avg-part to avg-part",
        ),
        (
            "      far: {from",
            "      CPU: {from",
            "inputs = 'CPU' is not usable: give names that differ from cpu by more",
        ),
        (
            "  avg-root:\n",
            "  AVG-part:\n",
            "fragments = 'AVG-part' is not usable: give names that differ from avg-part",
        ),
        ("rate, options", "rate, site: north, options", "inputs.cpu.site = 'north' is not usable: give it with from"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_field(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in TEXT
    with pytest.raises(PenstockError) as error:
        made(tmp_path, TEXT.replace(old, new, 1))
    message = str(error.value)
    assert message.startswith(str(tmp_path / "sub" / "site.yaml"))
    assert told in message
    assert "\n" not in message


def test_a_file_that_is_not_there_is_told_as_a_site_file(tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match=r"^site file = '.*none.yaml' is not usable: give the path of a YAML file"):
        load(tmp_path / "none.yaml")


def test_paths_are_beside_the_file_unless_they_are_absolute(tmp_path: Path) -> None:
    for path, found in {
        "out/avg": f"{tmp_path}/sub/out/avg",
        "/srv/avg": "/srv/avg",
        "s3a://bucket/avg": "s3a://bucket/avg",
    }.items():
        file = made(tmp_path, TEXT.replace("{format: memory}", f"{{format: parquet, options: {{path: '{path}'}}}}"))
        sink = file.fragments["avg-root"].sink
        assert sink is not None
        assert sink.options["path"] == found


def test_two_roots_do_not_write_to_one_folder(tmp_path: Path) -> None:
    root = TEXT[TEXT.index("  avg-root:") :].replace("{format: memory}", "{format: json, options: {path: here}}")
    both = (
        TEXT[: TEXT.index("  avg-root:")]
        + root
        + root.replace("avg-root", "max-root").replace("query: avg", "query: max")
    )
    both = both.replace("importance: 2}", "importance: 2}\n  max: {sources: 1}")
    with pytest.raises(PenstockError, match="give a folder of its own; fragment avg-root has this one"):
        made(tmp_path, both)


def test_more_sources_here_than_the_query_has_are_refused(tmp_path: Path) -> None:
    more = TEXT.replace("sources: 3", "sources: 1").replace(
        "      far: {from: avg-far, site: north, schema: 'a bigint'}", "      net: {format: rate}"
    )
    with pytest.raises(PenstockError, match=r"queries.avg.sources = 1 is not usable: give at least 2"):
        made(tmp_path, more)


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    kept = json.loads((ROOT / "docs" / "site.schema.json").read_text())
    assert kept == schema(), "run scripts/site_schema.py"


def test_the_text_and_the_example_files_fit_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    files = list((ROOT / "examples" / "federation").glob("*.yaml"))
    assert files
    for text in (TEXT, KAFKA, *(path.read_text() for path in files)):
        validator.validate(parse("site.yaml", text).data)
    assert not validator.is_valid(parse("site.yaml", TEXT.replace("site: west\n", "site: ../west\n")).data)
