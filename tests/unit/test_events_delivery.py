"""The delivery queue: a slow or dead service never blocks the caller of `put`."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from itertools import islice

import pytest

from neutrino.server.events.delivery import DeliveryOptions, DeliveryQueue, Undelivered, backoff

PATIENCE = 10.0


class Sink:
    """Delivers into a list, and can be held."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.hold = threading.Event()
        self.busy = threading.Event()

    def deliver(self, batch: Sequence[int]) -> Undelivered[int] | None:
        self.busy.set()
        assert self.hold.wait(PATIENCE)
        self.batches.append(list(batch))
        return None


def held_with_one_in_flight(limit: int) -> tuple[Sink, DeliveryQueue[int]]:
    sink = Sink()
    queue: DeliveryQueue[int] = DeliveryQueue("test", sink.deliver, DeliveryOptions(limit, 100))
    queue.put(0)
    assert sink.busy.wait(PATIENCE)
    return sink, queue


def test_a_full_queue_drops_the_oldest_and_logs_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    sink, queue = held_with_one_in_flight(limit=3)
    for number in range(1, 8):
        queue.put(number)
    sink.hold.set()
    assert queue.close(PATIENCE) == 0
    assert sink.batches == [[0], [5, 6, 7]]
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "full" in messages[0]
    assert "dropped 4 items" in messages[1]


def test_a_close_that_times_out_returns_the_number_of_items_left() -> None:
    sink, queue = held_with_one_in_flight(limit=3)
    queue.put(1)
    assert queue.close(0.0) == 2
    sink.hold.set()


def test_a_closed_queue_drops_items() -> None:
    sink = Sink()
    queue: DeliveryQueue[int] = DeliveryQueue("test", sink.deliver, DeliveryOptions(3, 1))
    assert queue.close(PATIENCE) == 0
    queue.put(1)
    assert queue.close(PATIENCE) == 0
    assert sink.batches == []


def test_no_thread_before_the_first_item() -> None:
    before = threading.active_count()
    queue: DeliveryQueue[int] = DeliveryQueue("test", lambda batch: None, DeliveryOptions(3, 1))
    assert threading.active_count() == before
    queue.close(PATIENCE)


def test_a_delivery_that_raises_loses_its_batch_and_no_other() -> None:
    delivered: list[int] = []
    first_failed = threading.Event()

    def deliver(batch: Sequence[int]) -> Undelivered[int] | None:
        if not first_failed.is_set():
            first_failed.set()
            raise RuntimeError("a defect")
        delivered.extend(batch)
        return None

    queue: DeliveryQueue[int] = DeliveryQueue("test", deliver, DeliveryOptions(10, 10))
    queue.put(1)
    assert first_failed.wait(PATIENCE)
    queue.put(2)
    queue.close(PATIENCE)
    assert delivered == [2]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_delivers_its_own_items_only() -> None:
    read_end, write_end = os.pipe()
    go = threading.Event()
    busy = threading.Event()
    delivered: list[int] = []

    def deliver(batch: Sequence[int]) -> Undelivered[int] | None:
        busy.set()
        if os.getpid() == parent:
            assert go.wait(PATIENCE)
            delivered.extend(batch)
        else:
            os.write(write_end, bytes(batch))
        return None

    parent = os.getpid()
    queue: DeliveryQueue[int] = DeliveryQueue("test", deliver, DeliveryOptions(10, 10))
    queue.put(1)
    assert busy.wait(PATIENCE)
    queue.put(2)
    child = os.fork()
    if child == 0:
        queue.put(3)
        queue.close(PATIENCE)
        os._exit(0)
    os.close(write_end)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.read(read_end, 100) == bytes([3])
    os.close(read_end)
    go.set()
    queue.close(PATIENCE)
    assert delivered == [1, 2]


def test_back_off_doubles_up_to_the_ceiling() -> None:
    waits = list(islice(backoff(1.0, 8.0), 6))
    for wait, bound in zip(waits, [1.0, 2.0, 4.0, 8.0, 8.0, 8.0], strict=True):
        assert bound / 2 <= wait <= bound
