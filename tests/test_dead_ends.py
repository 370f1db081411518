"""Everything in the package is reached from its public names or its commands, not from tests and docs alone."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src"

#: What users import.
SURFACE = (
    "penstock",
    "penstock.answers",
    "penstock.baselines",
    "penstock.core.row.latency_goals",  # choices of `LoadAware(check=...)`
    "penstock.grouping",
    "penstock.logs",
    "penstock.machines",
    "penstock.sic",
    "penstock.testing",
)
#: What Python and Spark find by name, what users implement, and what a script of this repository calls.
STARTED = (
    "penstock.__main__.main",
    "penstock._OldNames.find_spec",
    "penstock.config.network_file.schema",
    "penstock.core.control.policies.RowPolicy",
    "pyspark_penstock",
)
#: Row by row, what compiled loops of the simulator are held equal to by tests; Spark is to run them in a later release.
REFERENCES = (
    "penstock.core.grouping.baselines.FullKnowledge",
    "penstock.core.grouping.baselines.JoinShortestQueue",
    "penstock.core.grouping.baselines.RoundRobin",
    "penstock.core.grouping.baselines.SilentInstance",
    "penstock.core.grouping.osg.OsgInstance",
    "penstock.core.grouping.osg.OsgScheduler",
    "penstock.core.grouping.osg.OsgScheduler.cumulated_s",
    "penstock.core.grouping.ready_time.AcknowledgingInstance",
    "penstock.core.grouping.ready_time.ReadyTimeScheduler",
    "penstock.sim.las.queueing.simulate",
    "penstock.sim.osg.queueing.simulate",
)
#: Not reached yet: drops that follow measured delays are wired in a later release.
LATER = ("penstock.core.network.delay_shedding.DynamicShedder",)
#: Bases of a class whose methods nobody but the package calls.
PLAIN = {"ABC", "Enum", "Exception", "Generic", "NamedTuple", "Protocol", "TypedDict"}


Names = dict[str, set[str]]


@dataclass
class Piece:
    """A module, a definition in it, a name that it imports, or a method, with the names that its own source uses."""

    owner: str = ""
    uses: set[str] = field(default_factory=set)  #: whole names
    words: set[str] = field(default_factory=set)  #: what stands after a dot, and the words of texts
    named: set[str] = field(default_factory=set)  #: modules that are loaded by their names
    method: bool = False
    called_from_outside: bool = False
    imported: bool = False

    def note(self, nodes: Iterable[ast.AST], names: Names) -> None:
        """What some source uses, but for docstrings."""
        for node in nodes:
            match node:
                case ast.Expr(value=ast.Constant()):
                    continue
                case ast.Name(id=name) if name in names:
                    self.uses |= names[name]
                case ast.Attribute(attr=name, value=ast.Name(id=module)) if module in names:
                    self.uses |= {f"{home}.{name}" for home in names[module]}
                    self.words.add(name)
                case ast.Attribute(attr=name):
                    self.words.add(name)
                case ast.Constant(value=str(text)):
                    self.words.update(re.findall(r"\w+", text))
                    self.named |= {text} if text.startswith("penstock.") else set()
            self.note(ast.iter_child_nodes(node), names)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def defined(node: ast.AST) -> list[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]


def imports(tree: ast.AST) -> Names:
    """The names that a module and its functions import, and what they stand for."""
    found: Names = {}
    for node in ast.walk(tree):
        for one in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            home = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            found.setdefault(one.asname or one.name, set()).add(f"{home}{one.name}")
    return found


def split(module: str, name: str, node: ast.stmt, names: Names) -> Iterator[tuple[str, Piece]]:
    """A definition; of a class, its methods too."""
    piece, whole = Piece(module), f"{module}.{name}"
    yield whole, piece
    if not isinstance(node, ast.ClassDef):
        piece.note([node], names)
        return
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    outside = {base for base in bases if not any(home.startswith("penstock") for home in names.get(base, ()))} - PLAIN
    piece.note([*node.bases, *node.keywords, *node.decorator_list], names)
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("__"):
            method = Piece(whole, method=True, called_from_outside=bool(outside))
            method.note([inner], names)
            yield f"{whole}.{inner.name}", method
        else:
            piece.note([inner], names)


@cache
def pieces() -> dict[str, Piece]:
    found: dict[str, Piece] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module, tree = module_of(path), ast.parse(path.read_text())
        elsewhere = imports(tree)
        names = {name: {f"{module}.{name}"} for node in tree.body for name in defined(node)} | elsewhere
        found |= {f"{module}.{name}": Piece(module, homes, imported=True) for name, homes in elsewhere.items()}
        found[module] = Piece(module.rpartition(".")[0])
        for node in tree.body:
            own = [name for name in defined(node) if not name.startswith("__")]
            for name in own:
                found.update(split(module, name, node, names))
            if not own and not isinstance(node, ast.ImportFrom):
                found[module].note([node], names)
    return found


def surface() -> Iterator[str]:
    for module in SURFACE:
        yield module
        home = import_module(module)
        for name in getattr(home, "__all__", None) or vars(home):
            thing = getattr(home, name)
            for part in getattr(thing, "__mro__", (thing,)):
                if (getattr(part, "__module__", None) or "").startswith("penstock"):
                    yield f"{part.__module__}.{part.__qualname__}"


def commands() -> Iterator[str]:
    """Functions that a decorator registers."""
    for path in (SOURCE / "penstock/cli").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            registered = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
            if any(".command(" in one or ".callback(" in one for one in registered):
                yield f"{module_of(path)}.{node.name}"


def documented() -> set[str]:
    """Methods that users read of: words after a dot in documentation and examples, but for the generated reference."""
    pages = [page for page in (REPOSITORY / "docs").glob("*.md") if page.name != "reference.md"]
    pages += [REPOSITORY / "README.md", *(REPOSITORY / "examples").rglob("*.py")]
    return {name for page in pages for name in re.findall(r"\.(\w+)", page.read_text())}


def reached(roots: Iterable[str]) -> set[str]:
    """Everything that the roots use, that this uses, and so on; methods by their bare names."""
    known, public, told = pieces(), set(surface()), documented()
    found, words, named, waiting = set[str](), set[str](), set[str](), list(roots)
    while waiting:
        while waiting:
            name = waiting.pop()
            if name in known and name not in found:
                found.add(name)
                words |= known[name].words
                named |= known[name].named
                waiting += [known[name].owner, *known[name].uses, *known[name].named]
        for name, piece in known.items():
            if name not in found and piece.owner in found and (piece.method or piece.owner in named):
                own = name.rpartition(".")[2]
                if piece.called_from_outside or own in words or (piece.owner in public and own in told):
                    waiting.append(name)
    return found


def test_what_is_listed_as_unreached_is_there_and_unreached() -> None:
    found = reached([*surface(), *commands(), *STARTED])
    assert [name for name in (*REFERENCES, *LATER) if name not in pieces() or name in found] == []


def test_every_field_of_a_class_is_read() -> None:
    read, fields = set[str](), list[tuple[str, str]]()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    read.add(name)
                case ast.MatchClass(cls=ast.Name(id=name), kwd_attrs=names):
                    read |= {name, *names}  # by place, all of its fields
                case ast.Constant(value=str(text)):
                    read.add(text)
                case ast.ClassDef(name=owner, bases=bases, body=body) if path.stem != "delay_shedding":
                    if "NamedTuple" not in map(ast.unparse, bases):  # its fields are read by place
                        fields += [(owner, one.target.id) for one in body if isinstance(one, ast.AnnAssign)]
    unread = [(owner, name) for owner, name in fields if not name.startswith("_") and not {owner, name} & read]
    assert unread == []


def test_everything_is_reached() -> None:
    everything = {name for name, piece in pieces().items() if not piece.imported}
    assert sorted(everything - reached([*surface(), *commands(), *STARTED, *REFERENCES, *LATER])) == []
