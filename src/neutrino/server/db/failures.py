"""Classification of database errors: what a failed statement means for the transaction and for the connection. Pure.

- `CONFLICT`: the database rolled the transaction back (deadlock, certification failure of Galera, serialization failure):
  the write is repeated at once.
- `UNAVAILABLE`: this node executes nothing (lost, shutting down, read-only, not in the primary component): another
  connection is tried until the failover is over.
- `NOT_WRITABLE`: the disk of the database is full, read-only or fails, which another attempt does not change: 503.
- `TOO_LARGE`: a value does not fit its column: 400.
- `OTHER`: a defect of this server: 500.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

import sqlalchemy as sa


class Failure(Enum):
    CONFLICT = "conflict"
    UNAVAILABLE = "unavailable"
    NOT_WRITABLE = "not writable"
    TOO_LARGE = "too large"
    OTHER = "other"


MYSQL_CONFLICTS: Final = frozenset(
    {
        1213,  # deadlock; on Galera also a write that another node certified first
        1205,  # lock wait timeout
        1020,  # the row has changed since the snapshot: innodb_snapshot_isolation, on since MariaDB 11.6.2
        1317,  # interrupted: Galera aborts a local statement for a write of another node
        1412,  # the table was altered since the snapshot
    }
)
MYSQL_UNAVAILABLE: Final = frozenset(
    {
        1040,  # too many connections
        1047,  # Galera: the node is not in the primary component, or is joining
        1053,  # shutdown in progress
        1129,  # the host is blocked after many connection errors
        1130,  # not allowed: a node that is joining has no users yet
        1180,  # an error during COMMIT: Galera lost the primary component
        1290,  # read_only
        1792,  # read-only transaction
        1836,  # read-only mode
        1927,  # the connection was killed
        2002,  # cannot connect, by socket
        2003,  # cannot connect
        2006,  # gone away
        2013,  # lost, or no answer within the read timeout
        2014,  # out of sync, after an interrupted answer
        2055,  # lost, with a system error
        3100,  # an error in a replication hook
        4031,  # disconnected for inactivity
    }
)
FULL: Final = "its disk is full"
READ_ONLY: Final = "it is read-only"
FAILING: Final = "its disk fails"
NOT_WRITABLE: Final[
    Mapping[int | str, str]
] = {  # reasons, by error number of MySQL, SQLSTATE of PostgreSQL, and result code of SQLite
    1021: FULL,
    1114: FULL,  # the table space
    "53100": FULL,
    "58030": FAILING,
    "sqlite 13": FULL,
    "sqlite 8": READ_ONLY,
    "sqlite 10": FAILING,
}
POSTGRES_CONFLICTS: Final = frozenset({"40001", "40P01", "55P03"})  # serialization, deadlock, lock not available
# Read-only: a standby, or a primary that was demoted. Classes: 08 connection, 53 resources, 57P shutdown and start-up.
POSTGRES_UNAVAILABLE: Final = frozenset({"25006", "57P01", "57P02", "57P03", "57P04", "57P05"})


def classify(error: sa.exc.DBAPIError) -> Failure:
    if isinstance(error, sa.exc.DataError):
        return Failure.TOO_LARGE
    if isinstance(error, sa.exc.IntegrityError):
        return Failure.OTHER  # `retrying` repeats these by their class
    if not_writable(error) is not None:
        return Failure.NOT_WRITABLE
    number, state = mysql_number(error), getattr(error.orig, "sqlstate", None)
    # By number first: PyMySQL's errors have an SQLSTATE too, but it is HY000 for all of these except deadlocks.
    if number is not None:
        if number in MYSQL_CONFLICTS:
            return Failure.CONFLICT
        lost = number in MYSQL_UNAVAILABLE or error.connection_invalidated
        return Failure.UNAVAILABLE if lost else Failure.OTHER
    if type(error.orig).__module__.startswith("psycopg"):
        return _postgres(error, state)
    if "database is locked" in str(error.orig) or "database table is locked" in str(error.orig):
        return Failure.CONFLICT
    return Failure.UNAVAILABLE if error.connection_invalidated else Failure.OTHER


def not_writable(error: sa.exc.DBAPIError) -> str | None:
    """Why the database cannot be written; None if that is not the error."""
    code = getattr(error.orig, "sqlite_errorcode", None)  # with details in the upper bits
    if code is not None:
        return NOT_WRITABLE.get(f"sqlite {code & 0xFF}")
    return NOT_WRITABLE.get(mysql_number(error) or getattr(error.orig, "sqlstate", None) or "")


def _postgres(error: sa.exc.DBAPIError, state: Any) -> Failure:
    if state is None:  # not from the server: it could not connect, or lost the connection
        lost = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) or error.connection_invalidated
        return Failure.UNAVAILABLE if lost else Failure.OTHER
    if state in POSTGRES_CONFLICTS:
        return Failure.CONFLICT
    if state in POSTGRES_UNAVAILABLE or state[:2] in {"08", "53"}:
        return Failure.UNAVAILABLE
    return Failure.UNAVAILABLE if error.connection_invalidated else Failure.OTHER


def mysql_number(error: sa.exc.DBAPIError) -> int | None:
    """The error number of MySQL or MariaDB, which PyMySQL passes as the first argument; else None."""
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else None
