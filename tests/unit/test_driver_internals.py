"""Private parts of the database drivers and of SQLAlchemy: each is declared, used in one module, and there.

After an update of a driver: compare the driver's code with that module, run the tests of the databases, and set its
`CHECKED_WITH`.
"""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from neutrino.server import db
from neutrino.server.db import psycopg_internals, pymysql_internals, sqlalchemy_internals

INTERNALS = {"psycopg": psycopg_internals, "PyMySQL": pymysql_internals, "SQLAlchemy": sqlalchemy_internals}
LIBRARIES = pytest.mark.parametrize("library, module", INTERNALS.items(), ids=INTERNALS)


def private_names(source: str) -> set[str]:
    """Attributes that begin with an underscore, without those that the source has on `self` alone."""
    return {name for owner, name in _attributes(source) if owner != "self"}


def own_names(source: str) -> set[str]:
    return {name for owner, name in _attributes(source) if owner == "self"}


def _attributes(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("_"):
            yield node.value.id if isinstance(node.value, ast.Name) else "", node.attr


def has(owner: type | ModuleType, name: str) -> bool:
    """Whether a module or a class has an attribute: its own, annotated, or one that methods of the class use."""
    if hasattr(owner, name) or isinstance(owner, ModuleType):
        return hasattr(owner, name)
    if any(name in getattr(cls, "__annotations__", {}) for cls in owner.__mro__):
        return True
    return any(re.search(rf"self\.{name}\b", source_of(cls)) for cls in owner.__mro__)


def source_of(cls: type) -> str:
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError):  # psycopg gives its classes the name of another module; `object` has no source
        return ""


@LIBRARIES
def test_the_installed_version_is_the_one_that_was_checked(library: str, module: ModuleType) -> None:
    installed = importlib.metadata.version(library)
    assert installed == module.CHECKED_WITH, (
        f"{module.__name__} uses private parts of {library} and was checked with {module.CHECKED_WITH}; {installed} is "
        f"installed. Compare what PRIVATE lists with the code of {installed}, run tests/api, and set CHECKED_WITH."
    )


@LIBRARIES
def test_the_installed_version_has_the_private_parts_in_use(library: str, module: ModuleType) -> None:
    for path, names in module.PRIVATE.items():
        owner = pkgutil.resolve_name(path)
        missing = [name for name in names if not has(owner, name)]
        assert not missing, f"{path} of {library} has no {', '.join(missing)} any more, which {module.__name__} uses"


@LIBRARIES
def test_every_private_part_in_use_is_declared(library: str, module: ModuleType) -> None:
    declared = {name for names in module.PRIVATE.values() for name in names}
    assert private_names(inspect.getsource(module)) - declared == set()


def test_no_other_module_of_the_database_uses_private_parts() -> None:
    internals = {Path(str(module.__file__)) for module in INTERNALS.values()}
    found = {
        path.name: names
        for path in Path(db.__path__[0]).glob("*.py")
        if path not in internals
        and (names := private_names(text := path.read_text()) - own_names(text))  # of other objects of the same class
    }
    assert found == {}


def test_a_missing_part_is_found() -> None:
    class Driver:
        def __init__(self) -> None:
            self._state = 1

    assert has(Driver, "_state")
    assert not has(Driver, "_gone")
    assert private_names("a._b\nself._c\na.__dict__") == {"_b"}


def test_a_connection_of_mariadb_that_is_rolled_back_commits_the_next_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    connection = pymysql_internals.QuickConnection(defer_connect=True)
    for name in ("commit", "rollback"):
        monkeypatch.setattr(pymysql_internals.Connection, name, lambda self, name=name: sent.append(name))
    connection.is_committed = True  # by a batch; what follows it failed
    connection.rollback()
    connection.commit()
    assert sent == ["rollback", "commit"]
    connection.is_committed = True
    connection.commit()
    connection.commit()
    assert sent == ["rollback", "commit", "commit"]
