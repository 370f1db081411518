"""What the README and the documentation show is true: their Python runs, their command lines exist."""

import doctest
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from penstock.cli.main import app

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
PAGE_NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
#: The blocks of this page are the first cells of the notebook, which tests/spark/test_tour.py runs.
TUTORIAL, TOUR = ROOT / "docs" / "tutorial.md", ROOT / "examples" / "tour.ipynb"

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
SHELL_OPERATORS = {"|", "||", "&", "&&", ";", "<", ">", ">>"}


@dataclass(frozen=True)
class Block:
    language: str
    options: str
    body: str
    line: int  # where the body starts in its page, counted from 0

    @property
    def tested(self) -> bool:
        """False for ```python notest, or in docs, where MkDocs wants that form, ```python { .notest }."""
        return "notest" not in self.options


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(text):
        language, _, options = fence["info"].strip().partition(" ")
        body = re.sub(f"^{fence['indent']}", "", fence["body"], flags=re.MULTILINE)
        found.append(Block(language, options, body, text.count("\n", 0, fence.start("body"))))
    return found


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page's shell blocks, each as words, cut at the first pipe or redirection."""
    found = []
    for block in blocks(page):
        if block.language not in {"bash", "console", "sh", "shell"}:
            continue
        lines = block.body.replace("\\\n", " ").splitlines()
        if block.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        for line in lines:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            end = next((place for place, word in enumerate(words) if word in SHELL_OPERATORS), len(words))
            found.append(words[:end])
    return found


def run_examples(block: Block, page: Path, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(block.body, names, page.name, str(page), block.line)
    test.globs = names  # the parser makes a copy; later blocks must see what this one defines
    complaints: list[str] = []
    if doctest.DocTestRunner().run(test, out=complaints.append, clear_globs=False).failed:
        pytest.fail("".join(complaints), pytrace=False)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != TUTORIAL], ids=[name for name in PAGE_NAMES if "tutorial" not in name]
)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language not in {"python", "pycon"}:
            continue
        if not block.tested:
            assert block.body.startswith("# "), f"{page}:{block.line}: open with a comment that says why"
        elif block.body.lstrip().startswith(">>>"):
            run_examples(block, page, names)
        else:
            padded = "\n" * block.line + block.body  # so that a trace names the page's own line
            exec(compile(padded, page, "exec"), names)  # noqa: S102 - the page is ours; running it is the test


def test_the_tutorial_is_the_notebook_that_runs() -> None:
    shown = [block.body.rstrip("\n") for block in blocks(TUTORIAL) if block.language in {"python", "pycon"}]
    cells = json.loads(TOUR.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(shown) > 5
    assert code[: len(shown)] == shown


def test_readme_shows_python_that_runs() -> None:
    assert any(block.language == "python" and block.tested for block in blocks(README))


def test_every_number_of_the_readme_has_its_command() -> None:
    measured = README.read_text(encoding="utf-8").split("## What was measured")[1].split("\n## ")[0]
    parts = re.split(r"\n\n|\n(?=- )", measured)
    tables = [place for place, part in enumerate(parts) if part.startswith("|")]
    assert len(tables) > 4
    for place in tables:  # its rows have the command, or what stands below it has
        assert commands_in(parts[place]) or commands_in(parts[place + 1]), parts[place]
    # Above a table stands what it is of; any other number was measured, too.
    known = {place + step for place in tables for step in (-1, 0, 1)}
    for place, part in enumerate(parts):
        assert place in known or not re.search(r"\d\.\d", part) or commands_in(part), part


def commands_in(part: str) -> list[str]:
    """The commands of measurements that a part of the README names; each must exist."""
    found = re.findall(r"`(penstock (?:bench|reproduce) [^`]+|examples/[^`]+)`", part)
    for command in found:
        if command.startswith("penstock"):
            parse(shlex.split(command)[1:])
    return found


@pytest.mark.parametrize("page", PAGES, ids=PAGE_NAMES)
def test_command_lines_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in commands(page):
        while words and "=" in words[0]:  # settings of the environment before the command
            words.pop(0)
        if words and Path(words[0]).name == "penstock":
            parse(words[1:])
        elif words and words[0] == "make":
            assert {word for word in words[1:] if word.isalpha()} <= set(targets)


def test_the_page_on_networks_lists_every_option_of_its_command() -> None:
    page = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    table = page.split("## The command")[1].split("\n## ")[0]
    command = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]  # it is a group
    options = {(one.secondary_opts or one.opts)[0] for one in command.params if one.param_type_name == "option"}
    assert len(options) > 5
    assert {name for name in options - {"--help"} if f"`{name}" not in table} == set()


def test_the_trial_on_a_hosted_spark_ends_in_one_line_also_if_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark.sql")
    (trial,) = [block for block in blocks(ROOT / "docs" / "databricks.md") if block.language == "python"]

    class Refuses:
        @property
        def dataSource(self) -> None:  # noqa: N802 - as Spark calls it
            raise RuntimeError("[NOT_ALLOWED] no data sources here\nJVM stacktrace:\n\tat java.base")

    exec(compile(trial.body, "databricks.md", "exec"), {"spark": Refuses()})  # noqa: S102 - the page is ours
    assert capsys.readouterr().out == "fails at register: [NOT_ALLOWED] no data sources here\n"


def parse(arguments: list[str]) -> None:
    """Parses as `penstock` would, running nothing; an unknown command, option or value raises."""
    command, context = typer.main.get_command(app), None
    while True:
        try:
            context = command.make_context(command.name or "penstock", arguments, parent=context)
        except typer.Exit:  # --help and --version end the parsing
            return
        arguments = [*context._protected_args, *context.args]  # noqa: SLF001 - there is no public way to parse only
        if not hasattr(command, "resolve_command") or not arguments:
            return
        _, command, arguments = command.resolve_command(context, arguments)
