"""Statements compiled once: text and parameters as the driver takes them.

SQLAlchemy keeps compiled statements too, but looks each up by its structure, and makes a context and a result for each
execution: twice the work of the driver. Statements that live as long as the process do without.

PyMySQL decodes the description of every column of every result, in Python: more work than all else of a read. So wide rows
of MariaDB come as one column, a JSON array of the values.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import DBAPICursor

from neutrino.model.objects import Values
from neutrino.server.db.sql import DriverParameters, Row

_WIDE = 6  # columns
_decode = msgspec.json.Decoder(list[Any]).decode
_Processors = tuple[tuple[Any, Callable[[Any], Any]], ...]  # functions that convert a value, with its name or position


@dataclass(slots=True, frozen=True, eq=False)
class Text:
    """A statement for the driver; the parameters have its style."""

    text: str
    names: tuple[str, ...]  # of the parameters, in the order of SQLAlchemy's
    constants: Values  # values of the statement itself, and defaults of columns
    for_driver: _Processors
    for_result: _Processors
    is_positional: bool
    is_packed: bool  # each row is a JSON array

    def parameters(self, given: Values) -> DriverParameters:
        values = {**self.constants, **given}
        for name, process in self.for_driver:
            values[name] = process(values[name])
        if self.is_positional:
            return tuple([values[name] for name in self.names])
        return {name: values[name] for name in self.names}

    def rows(self, fetched: Iterable[Row]) -> list[Row]:
        """Rows of the driver with the values that SQLAlchemy would give, such as booleans."""
        if not self.for_result and not self.is_packed:
            return list(fetched)
        rows = []
        for row in fetched:
            values = _decode(row[0]) if self.is_packed else list(row)
            for position, process in self.for_result:
                values[position] = process(values[position])
            rows.append(tuple(values))
        return rows


_Texts = WeakKeyDictionary[sa.Executable, dict[tuple[str, ...], Text | None]]


@cache
def _texts_of(dialect: str, driver: str, version: tuple[Any, ...] | None) -> _Texts:
    return WeakKeyDictionary()


class Statements:
    """Compiled statements for an engine that has connected, by the statement and the names of its parameters.

    For statements that are kept elsewhere, such as those of modules and views: they are found by identity, and forgotten
    with the statement. All engines of databases of one kind and version share them: those of one database for reads and
    for writes, and a process that opens one database after the other, as tests do.
    """

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._texts: _Texts | None = None

    def get(self, statement: sa.Executable, names: Iterable[str]) -> Text | None:
        """None if the text depends on the values, as with a list of them, or a value is computed with each execution."""
        if self._texts is None:  # not before: the dialect learns the version when it connects
            dialect = self._dialect
            self._texts = _texts_of(dialect.name, dialect.driver, dialect.server_version_info)
        texts, key = self._texts.setdefault(statement, {}), tuple(names)
        if key not in texts:
            texts[key] = self._compile(statement, key)
        return texts[key]

    def _compile(self, statement: Any, names: tuple[str, ...]) -> Text | None:
        dialect = self._dialect
        columns = list(statement.selected_columns) if isinstance(statement, sa.SelectBase) else []
        is_packed = dialect.driver == "pymysql" and isinstance(statement, sa.Select) and len(columns) >= _WIDE
        if is_packed:
            statement = statement.with_only_columns(sa.func.json_array(*columns), maintain_column_froms=True)
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        prefetched = [*compiled.insert_prefetch, *compiled.update_prefetch]
        if compiled.post_compile_params or compiled.literal_execute_params or compiled.escaped_bind_names:
            return None
        if compiled.effective_returning or any(not column.default.is_scalar for column in prefetched):
            return None
        if any(bind.callable is not None for bind in compiled.binds.values()):
            return None
        constants = {name: value for name, value in compiled.params.items() if name not in names}
        constants |= {column.key: column.default.arg for column in prefetched}
        # `binds` also has the anonymous names of values of the statement, which are no parameters.
        binds = {
            name: bind.type.dialect_impl(dialect).bind_processor(dialect)
            for name, bind in compiled.binds.items()
            if name in compiled.params
        }
        results = [
            _unpacked(column.type) if is_packed else column.type.dialect_impl(dialect).result_processor(dialect, None)
            for column in columns
        ]
        return Text(
            text=str(compiled),
            names=tuple(compiled.positiontup if compiled.positional else compiled.params),
            constants=constants,
            for_driver=tuple((name, process) for name, process in binds.items() if process is not None),
            for_result=tuple((i, process) for i, process in enumerate(results) if process is not None),
            is_positional=compiled.positional,
            is_packed=is_packed,
        )


def _unpacked(type_: sa.types.TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """Converts a value of a JSON array by the type of its column. MariaDB has "0" there for EXISTS, and 0 for a column."""
    if isinstance(type_, sa.Boolean):
        return lambda value: None if value is None else value in (True, "1")
    if isinstance(type_, sa.Integer):
        return lambda value: None if value is None else int(value)
    return None


@contextmanager
def driver_cursor(connection: Connection, text: str) -> Iterator[DBAPICursor]:
    """A cursor of the driver. Its errors are raised as SQLAlchemy's, with this text, and a lost connection is noticed."""
    driver, dialect = connection.connection, connection.dialect
    error_class: type[Exception] = dialect.loaded_dbapi.Error
    cursor = driver.cursor()
    try:
        yield cursor
    except error_class as error:
        is_lost = dialect.is_disconnect(error, driver, cursor)  # type: ignore[arg-type]
        if is_lost:
            connection.engine.dispose(close=False)  # the pool's other connections are lost as well
        raise sa.exc.DBAPIError.instance(
            text, None, error, error_class, hide_parameters=True, connection_invalidated=is_lost, dialect=dialect
        ) from error
    finally:
        cursor.close()
