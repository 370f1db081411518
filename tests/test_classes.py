"""No class of the package holds much state: a class that grows is taken apart into parts with names of their own.

Records, whose fields are declared in the body of the class, are not counted.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
MOST = 12


def attributes(node: ast.ClassDef) -> set[str]:
    """What methods of a class assign to `self`: settings, collaborators and state alike."""
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield f"{module}.{node.name}", node


def test_no_class_has_more_attributes_than_can_be_kept_in_mind() -> None:
    found = {name: sorted(held) for name, node in classes() if len(held := attributes(node)) > MOST}
    assert found == {}


def test_attributes_are_counted_wherever_they_are_assigned() -> None:
    text = (
        "class A:\n def f(self):\n  self.a, (self.b, c) = 1, (2, 3)\n  self.d += 1\n  self.e: int = 4\n  other.g = 5\n"
    )
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef)
    assert attributes(node) == {"a", "b", "d", "e"}
