"""Races between two requests, made deterministic: one runs to its end between the read and the write of the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from neutrino.server.main import Server


def before_next_write(server: Server, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Run `action` once, when the next write has read and decided, and before its transaction begins."""
    operations = server.core.operations
    write = operations.write

    def interrupted(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(operations, "write", write)
        action()
        return write(*args, **options)

    monkeypatch.setattr(operations, "write", interrupted)


def before_next_transaction(server: Server, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """The same for writes without mechanism drivers, which open their transaction themselves.

    Transactions of other threads do not count: a server that has just started sweeps.
    """
    begin, thread = server.db.transaction, threading.get_ident()

    def interrupted() -> Any:
        if threading.get_ident() != thread:
            return begin()
        monkeypatch.setattr(server.db, "transaction", begin)
        action()
        return begin()

    monkeypatch.setattr(server.db, "transaction", interrupted)
