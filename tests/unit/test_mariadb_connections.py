"""Connections of MariaDB whose COMMIT a batch has sent."""

from __future__ import annotations

import pymysql
import pytest

from neutrino.server.db.mariadb import CommittedConnection


def test_a_connection_that_is_rolled_back_commits_the_next_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    connection = CommittedConnection(defer_connect=True)
    for name in ("commit", "rollback"):
        monkeypatch.setattr(pymysql.connections.Connection, name, lambda self, name=name: sent.append(name))
    connection.is_committed = True  # by a batch; what follows it failed
    connection.rollback()
    connection.commit()
    assert sent == ["rollback", "commit"]
    connection.is_committed = True
    connection.commit()
    connection.commit()
    assert sent == ["rollback", "commit", "commit"]
