"""What the server does with private parts of SQLAlchemy, and nothing else: no other module uses them.

Statements that the driver executes directly (`compiled.py`) need what SQLAlchemy does around an execution.

Private names may change with any release: `PRIVATE` lists those in use, and tests/unit/test_driver_internals.py fails if
the installed SQLAlchemy lacks one, or is not the version that they were checked with.
"""

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from sqlalchemy.engine import Connection, Engine, Result
from sqlalchemy.engine.result import ResultMetaData

CHECKED_WITH: Final = "2.1.8"
PRIVATE: Final = {
    "sqlalchemy.sql.compiler.SQLCompiler": ("_bind_processors",),
    "sqlalchemy.engine.Connection": ("_handle_dbapi_exception",),
    "sqlalchemy.engine.Engine": ("_connection_cls", "_has_events"),
    "sqlalchemy.engine.CursorResult": ("_metadata",),
}


def bind_processors(compiled: Any) -> Mapping[str, Any]:
    """The functions that convert parameters of a compiled statement for the driver, by name."""
    found: Mapping[str, Any] = compiled._bind_processors
    return found


def raise_driver_error(connection: Connection, error: BaseException, text: str, cursor: Any) -> NoReturn:
    """Raise an error of the driver as SQLAlchemy's; a lost connection is invalidated."""
    connection._handle_dbapi_exception(error, text, None, cursor, None)


def has_listeners(engine: Engine) -> bool:
    """Whether the engine has listeners of events: they expect all statements."""
    return engine._has_events


def set_connection_class(engine: Engine, connection: type[Connection]) -> None:
    engine._connection_cls = connection


def columns_of(result: Result[Any]) -> ResultMetaData:
    """The columns of a result, for results of the same statement."""
    return result._metadata
