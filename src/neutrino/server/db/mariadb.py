"""PyMySQL: several statements in one packet (CLIENT_MULTI_STATEMENTS); the server ends at the first that fails."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import pymysql
import sqlalchemy as sa
from pymysql.connections import Connection
from sqlalchemy.engine.interfaces import DBAPICursor

from neutrino.server.db.batch import COMMIT, Fetched, SentText, Statement

_PACKET_BYTES: Final = 1_000_000  # below max_allowed_packet, 16 MB by default, with room for the last statement
_STALE: Final = 31999  # error number of ours: MariaDB's own end far below


class CommittedConnection(Connection):  # type: ignore[misc]
    """A connection that sends no COMMIT if `is_committed` is set: a batch has sent one.

    Unlike psycopg, the driver does not look at the state.
    """

    is_committed = False

    def commit(self) -> None:
        if not self.is_committed:
            super().commit()
        self.is_committed = False

    def rollback(self) -> None:
        self.is_committed = False  # else the next transaction would not be committed
        super().rollback()


class Packets:
    """Statements without a result are one compound statement, which the server answers once and not for each of them."""

    begin: str | None = None  # autocommit is off: the first statement begins a transaction

    def send(self, cursor: DBAPICursor, before: Sequence[Statement], last: Statement) -> None:
        texts = self._texts(cursor, before)
        _run(cursor, [*([_block(texts)] if texts else ()), *_with_parameters(cursor, last)])

    def commit(self, cursor: DBAPICursor, before: Sequence[Statement], reads: Sequence[SentText]) -> Fetched | None:
        block = _block([*self._texts(cursor, before), COMMIT])
        # Autocommit is off: the reads begin a transaction, which must not stay open.
        after = [*(cursor.mogrify(*read) for read in reads), COMMIT] if reads else []
        cursor.execute(";".join([block, *after]))
        fetched: Fetched = []
        try:
            while cursor.nextset():
                fetched.append(cursor.fetchall())
        except pymysql.MySQLError:  # it is committed; a failed read has left its transaction open, for `rollback`
            cursor.connection.rollback()
            cursor.connection.is_committed = True
            return None
        cursor.connection.is_committed = True
        return fetched[: len(reads)]

    def _texts(self, cursor: DBAPICursor, before: Sequence[Statement]) -> list[str]:
        """The statements of the last packet; earlier ones are sent here, if they are too long for one."""
        texts: list[str] = []
        size = 0
        for statement in before:
            several = _with_parameters(cursor, statement)
            length = sum(map(len, several))
            if size + length > _PACKET_BYTES and texts:
                _run(cursor, [_block(texts)])
                texts, size = [], 0
            texts += several
            size += length
            if statement.rows is not None:
                texts.append(_check(statement.rows))
        return texts

    def fetch(self, cursor: DBAPICursor, texts: Sequence[SentText]) -> Fetched:
        cursor.execute(";".join(cursor.mogrify(*one) for one in texts))
        fetched = [cursor.fetchall()]
        while cursor.nextset():  # raises the error of a statement that failed
            fetched.append(cursor.fetchall())
        return fetched

    def is_stale(self, error: sa.exc.DBAPIError) -> bool:
        return bool(error.orig is not None and error.orig.args and error.orig.args[0] == _STALE)


def _run(cursor: DBAPICursor, texts: Sequence[str]) -> None:
    """Execute these in one packet; afterwards the cursor has the result of the last one."""
    cursor.execute(";".join(texts))
    while cursor.nextset():  # raises the error of the statement that failed
        pass


def _with_parameters(cursor: DBAPICursor, statement: Statement) -> list[str]:
    """The text with its parameters, as the driver writes them: it has no others to send. Several, if it has no VALUES."""
    insert, values, row = statement.text.partition(" VALUES ")
    if not values or not statement.many:
        return [cursor.mogrify(statement.text, one) for one in statement.parameters]
    return [insert + values + ",".join(cursor.mogrify(row, one) for one in statement.parameters)]


@cache
def _check(rows: int) -> str:
    """A statement of a block that fails unless the one before it has changed so many rows."""
    signal = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {_STALE:d}, MESSAGE_TEXT = 'stale'"
    return f"IF ROW_COUNT() <> {rows:d} THEN {signal}; END IF"


def _block(texts: Sequence[str]) -> str:
    return f"BEGIN NOT ATOMIC {';'.join(texts)}; END"
