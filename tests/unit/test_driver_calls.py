"""Calls of drivers written for Neutron that hang: the threads that they leave behind are bounded."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from neutrino.server.ml2.neutron_drivers.calls import MAX_GIVEN_UP, Hanging, run_bounded
from neutrino.server.ml2.neutron_drivers.runtime import Call
from tests.support.waiting import eventually


def test_a_driver_that_hangs_gets_no_more_threads_until_some_return() -> None:
    server: Any = None
    call, free = Call(server, "hung", "update_port_postcommit", "p"), threading.Event()
    before = threading.active_count()
    try:
        for _ in range(MAX_GIVEN_UP):
            with pytest.raises(Hanging, match="has not returned after"):
                run_bounded(call, 0.001, free.wait)
        with pytest.raises(Hanging, match=f"is not made: {MAX_GIVEN_UP} calls"):
            run_bounded(call, 0.001, free.wait)
        assert threading.active_count() - before <= MAX_GIVEN_UP
        other = Call(server, "other", "update_port_postcommit", "p")
        assert run_bounded(other, 30.0, lambda: 7) == 7, "of another driver"
    finally:
        free.set()

    def answered() -> bool:
        try:
            return bool(run_bounded(call, 30.0, lambda: 8) == 8)
        except Hanging:
            return False

    eventually(answered, 10)
