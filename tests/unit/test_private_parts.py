"""No private part of a library is used: an update of a library must install without a review of ours.

A name that begins with one underscore is a library's if it is imported from a module that is not ours, is an attribute of
such a module, or is an attribute that our code does not define: that of another object in the same module, that of `self`
anywhere. A subclass must not replace a private attribute that it inherits from a library either.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "neutrino"
# Documented in spite of the underscore: of SQLAlchemy's rows and named tuples, of ctypes' structures, of `os`.
PUBLIC = frozenset({"_asdict", "_fields", "_make", "_replace", "_fields_", "_exit"})
BY_NAME = frozenset({"getattr", "setattr", "hasattr", "delattr"})


@cache
def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def is_private(name: str) -> bool:
    return name.startswith("_") and name != "_" and not name.endswith("__") and name not in PUBLIC


def defined(tree: ast.AST) -> frozenset[str]:
    """The private names of functions, classes, variables, and attributes of `self` or `cls`."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
    return frozenset(filter(is_private, found))


@cache
def all_defined() -> frozenset[str]:
    return frozenset().union(*map(defined, trees().values()))


def is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] == "neutrino"


def libraries(tree: ast.Module) -> frozenset[str]:
    """The names by which a module knows libraries and what it imports from them."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(each.asname or each.name).partition(".")[0] for each in node.names if not is_ours(each.name)}
        elif isinstance(node, ast.ImportFrom) and not is_ours(node.module):
            found |= {each.asname or each.name for each in node.names}
    return frozenset(found)


def first_name(node: ast.expr) -> str:
    """The name that a chain of attributes begins with; empty if it begins with something else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def private_parts(tree: ast.Module) -> Iterator[str]:
    """Each use of a private part of a library, with its line."""
    imported, own = libraries(tree), defined(tree)
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [each.name for each in node.names if not is_ours(each.name)]
            case ast.ImportFrom() if not is_ours(node.module):
                names = [f"{node.module}.{each.name}" for each in node.names]
            case ast.Attribute(attr=name) if is_private(name):
                is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                known = all_defined() if is_own else own
                names = [name] if name not in known or first_name(node) in imported else []
            case ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_]):
                names = [name] if function in BY_NAME and name not in own else []
        for name in names:
            if any(map(is_private, name.split("."))):
                yield f"{node.lineno}: {name}"


def replaced(path: str, tree: ast.Module) -> Iterator[str]:
    """Private attributes of a library's class that a subclass of ours replaces or uses."""
    imported = libraries(tree)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(first_name(base) in imported for base in node.bases):
            uses = (each for each in ast.walk(node) if isinstance(each, ast.Attribute))
            names = defined(node) | {each.attr for each in uses if is_private(each.attr)}
            if names:
                module = import_module(f"neutrino.{path.removesuffix('.py').replace('/', '.')}")
                for name in inherited(getattr(module, node.name), names):
                    yield f"{node.lineno}: {node.name}.{name}"


def inherited(kind: type, names: frozenset[str]) -> set[str]:
    """Those of the names that a class has from a library's."""
    return {name for base in kind.__mro__ if not is_ours(base.__module__) for name in names & vars(base).keys()}


def test_no_private_part_of_a_library_is_used() -> None:
    assert [f"{path}:{use}" for path, tree in trees().items() for use in private_parts(tree)] == []
    assert [f"{path}:{use}" for path, tree in trees().items() for use in replaced(path, tree)] == []


@pytest.mark.parametrize(
    "source",
    [
        "from oslo_policy import _checks",
        "from oslo_policy._checks import Check",
        "import psycopg._queries",
        "import argparse\nargparse._SubParsersAction",
        "from oslo_config import cfg\ncfg.ConfigOpts._all_opt_infos",
        "def read(conf):\n    return conf._namespace",
        "class A:\n    def read(self):\n        return self.conf._namespace",
        "class A:\n    def read(self):\n        return self._a_name_that_nothing_defines",
        "def read(conf):\n    return getattr(conf, '_namespace')",
    ],
)
def test_private_parts_are_recognised(source: str) -> None:
    assert len(list(private_parts(ast.parse(source)))) == 1


def test_a_replaced_attribute_is_recognised() -> None:
    class Thread(threading.Thread):
        __module__ = "neutrino.example"

        def _bootstrap(self) -> None: ...

        def _ours(self) -> None: ...

    assert inherited(Thread, frozenset({"_bootstrap", "_ours"})) == {"_bootstrap"}


@pytest.mark.parametrize(
    "source",
    [
        "from __future__ import annotations",
        "import os\nos._exit(1)",
        "values = row._asdict()",
        "class A:\n    def __init__(self, other):\n        self._size = other._size",
    ],
)
def test_what_is_public_or_ours(source: str) -> None:
    assert list(private_parts(ast.parse(source))) == []
