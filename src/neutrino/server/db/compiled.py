"""Statements compiled once: text and parameters as the driver takes them.

SQLAlchemy keeps compiled statements too, but looks each up by its structure, and makes a cursor and a result for each
execution: more work than the driver's own. Where no result is needed, or it comes later, this does without. Where the
statement is kept, the driver executes it, with the columns of the first result, which SQLAlchemy has made.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.result import IteratorResult, ResultMetaData

from neutrino.server.db import sqlalchemy_internals

S = TypeVar("S", sa.Select[Any], sa.CompoundSelect[Any])
_KEPT = "neutrino_kept"  # execution option of statements that live as long as the process


def kept(statement: S) -> S:
    """Mark a statement that lives as long as the process, and is executed with parameters: it is compiled once."""
    return statement.execution_options(**{_KEPT: True})


def is_kept(statement: sa.Executable) -> bool:
    return bool(statement.get_execution_options().get(_KEPT))


@dataclass(slots=True, eq=False)
class Text:
    """A statement for the driver; the parameters have its style."""

    text: str
    names: tuple[str, ...]  # of the parameters, in the order of SQLAlchemy's
    constants: Mapping[str, Any]  # values of the statement itself, and defaults of columns
    processors: tuple[tuple[str, Any], ...]  # functions that convert a parameter for the driver
    is_positional: bool
    columns: ResultMetaData | None = None  # of its results, once SQLAlchemy has executed it

    def parameters(self, given: Mapping[str, Any]) -> Any:
        values = {**self.constants, **given}
        for name, process in self.processors:
            values[name] = process(values[name])
        if self.is_positional:
            return tuple([values[name] for name in self.names])
        return {name: values[name] for name in self.names}


class Statements:
    """Compiled statements of one dialect, by the statement and the names of its parameters.

    For statements that are kept elsewhere, such as those of modules and views: they are found by identity, and forgotten
    with the statement.
    """

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._texts: WeakKeyDictionary[sa.Executable, dict[tuple[str, ...], Text | None]] = WeakKeyDictionary()

    def get(self, statement: sa.Executable, names: Iterable[str]) -> Text | None:
        """None if the text depends on the values, as with a list of them, or a value is computed with each execution."""
        texts, key = self._texts.setdefault(statement, {}), tuple(names)
        if key not in texts:
            texts[key] = self._compile(statement, key)
        return texts[key]

    def known(self, statement: sa.Executable, names: Iterable[str]) -> Text | None:
        """The statement if it is compiled already, and its text does not depend on the values."""
        texts = self._texts.get(statement)
        return None if texts is None else texts.get(tuple(names))

    def _compile(self, statement: Any, names: tuple[str, ...]) -> Text | None:
        compiled = statement.compile(dialect=self._dialect, column_keys=list(names))
        prefetched = [*compiled.insert_prefetch, *compiled.update_prefetch]
        if compiled.post_compile_params or compiled.literal_execute_params or compiled.escaped_bind_names:
            return None
        if compiled.effective_returning or any(not column.default.is_scalar for column in prefetched):
            return None
        if any(bind.callable is not None for bind in compiled.binds.values()):
            return None
        constants = {name: value for name, value in compiled.params.items() if name not in names}
        constants |= {column.key: column.default.arg for column in prefetched}
        ordered = tuple(compiled.positiontup if compiled.positional else compiled.params)
        processors = tuple(sqlalchemy_internals.bind_processors(compiled).items())
        return Text(str(compiled), ordered, constants, processors, compiled.positional)


@contextmanager
def driver_cursor(connection: Connection, text: str) -> Iterator[Any]:
    """A cursor of the driver. Its errors are raised as SQLAlchemy's, with this text, and a lost connection is noticed."""
    cursor = connection.connection.cursor()
    try:
        yield cursor
    except connection.dialect.loaded_dbapi.Error as error:
        sqlalchemy_internals.raise_driver_error(connection, error, text, cursor)
    finally:
        cursor.close()


class DirectConnection(Connection):
    """A connection for reads, in autocommit. The driver executes kept statements, but for their first time."""

    def execute(self, statement: Any, parameters: Any = None, **options: Any) -> Any:
        if not isinstance(parameters, dict):
            return super().execute(statement, parameters, **options)
        result = self.executed(statement, parameters)
        if result is not None:
            return result
        result = super().execute(statement, parameters, **options)
        text = self.statements.known(statement, parameters)
        if text is not None:
            text.columns = sqlalchemy_internals.columns_of(result)
        return result

    def executed(self, statement: sa.Executable, parameters: dict[str, Any]) -> sa.Result[Any] | None:
        """The result of a statement that the driver executes; None if SQLAlchemy has to."""
        if not is_kept(statement) or sqlalchemy_internals.has_listeners(self.engine) or self.invalidated:
            return None
        text = self.statements.get(statement, parameters)
        if text is None or text.columns is None:
            return None
        with driver_cursor(self, text.text) as cursor:
            cursor.execute(text.text, text.parameters(parameters))
            return IteratorResult(text.columns, iter(cursor.fetchall()))

    @property
    def statements(self) -> Statements:
        found: Statements = self.engine.statements  # type: ignore[attr-defined]
        return found


def install(engine: Engine, connection: type[DirectConnection] = DirectConnection) -> None:
    """Have an engine of reads execute kept statements directly."""
    engine.statements = Statements(engine.dialect)  # type: ignore[attr-defined]
    sqlalchemy_internals.set_connection_class(engine, connection)
