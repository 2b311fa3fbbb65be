"""Statements compiled once: text and parameters as the driver takes them.

SQLAlchemy keeps compiled statements too, but looks each up by its structure, and makes a cursor and a result for each
execution: more work than the driver's own. Where no result is needed, or it comes later, this does without.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

MAX_STATEMENTS = 1000


class Text(NamedTuple):
    """A statement for the driver; the parameters have its style."""

    text: str
    names: tuple[str, ...]  # of the parameters, in the order of SQLAlchemy's
    constants: Mapping[str, Any]  # values of the statement itself, and defaults of columns
    processors: tuple[tuple[str, Any], ...]  # functions that convert a parameter for the driver
    is_positional: bool

    def parameters(self, given: Mapping[str, Any]) -> Any:
        values = {**self.constants, **given}
        for name, process in self.processors:
            values[name] = process(values[name])
        if self.is_positional:
            return tuple([values[name] for name in self.names])
        return {name: values[name] for name in self.names}


class Statements:
    """Compiled statements of one dialect, by the statement and the names of its parameters.

    Only for statements that live as long as the process, such as those of modules and views: they are found by identity.
    """

    def __init__(self, dialect: sa.Dialect) -> None:
        self._dialect = dialect
        self._texts: dict[tuple[sa.Executable, tuple[str, ...]], Text | None] = {}

    def get(self, statement: sa.Executable, names: Iterable[str]) -> Text | None:
        """None if the text depends on the values, as with a list of them, or a default is computed."""
        key = (statement, tuple(names))
        if key not in self._texts:
            if len(self._texts) >= MAX_STATEMENTS:  # statements made for one execution only: not worth more memory
                self._texts.clear()
            self._texts[key] = self._compile(statement, key[1])
        return self._texts[key]

    def _compile(self, statement: Any, names: tuple[str, ...]) -> Text | None:
        compiled = statement.compile(dialect=self._dialect, column_keys=list(names))
        prefetched = [*compiled.insert_prefetch, *compiled.update_prefetch]
        if compiled.post_compile_params or compiled.literal_execute_params or compiled.escaped_bind_names:
            return None
        if compiled.effective_returning or any(not column.default.is_scalar for column in prefetched):
            return None
        constants = {name: value for name, value in compiled.params.items() if name not in names}
        constants |= {column.key: column.default.arg for column in prefetched}
        ordered = tuple(compiled.positiontup if compiled.positional else compiled.params)
        processors = tuple(compiled._bind_processors.items())
        return Text(str(compiled), ordered, constants, processors, compiled.positional)
