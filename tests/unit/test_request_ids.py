"""Request ids: from the change log through the fan-out and a host's state to the work queue and the log lines."""

from __future__ import annotations

import asyncio
import json
import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
from oslo_config import cfg
from oslo_context import context
from oslo_log import formatters, log

from neutrino import request_ids
from neutrino.agent.runtime.queue import WorkQueue
from neutrino.feed.messages import Cursor, Gone, Put, Synced, Welcome, encode_one, read_from_server, with_request_id
from neutrino.feed.state import State
from neutrino.logs import ContextRecord
from neutrino.model.state import Network, Port
from neutrino.server.features import sources
from neutrino.server.feed.fanout import Fanout, Item
from neutrino.server.feed.records import NetworkRecord, PortRecord


class HostEnd:
    """The server's queue for a host and the host's state, without a socket in between."""

    def __init__(self, fanout: Fanout, host: str) -> None:
        self.state = State()
        self.state.apply(Welcome(cursor=Cursor("db", 0)))
        self.pending = fanout.connect(host, {})

    def receive(self, fanout: Fanout) -> None:
        is_last = False
        while not is_last:
            data, is_last = fanout.next_frame(self.pending)
            for message in read_from_server(data):
                self.state.apply(message)

    def requests(self) -> dict[tuple[str, str], str]:
        """Of the changes that no role has taken yet."""
        return {(change.kind, change.id): change.request_id for change in iter(self.state.take, None)}


def network_record(key: str) -> NetworkRecord:
    return NetworkRecord(Network(id=key))


def bound_port(key: str, network_id: str, host: str, revision: int = 1) -> PortRecord:
    port = Port(id=key, revision=revision, network_id=network_id, mac_address="fa:16:3e:00:00:01", host=host)
    return PortRecord(key, network_id, {host: port}, None, frozenset(), frozenset(), None)


def test_the_encoding_of_an_object_stays_shared() -> None:
    item = Item("network", Network(id="n1"))
    shared = item.encoded()
    (message,) = read_from_server(b"[%b]" % with_request_id(shared, 'req-"1'))
    assert message.request_id == 'req-"1'
    assert message.digest == item.digest
    assert item.encoded() is shared
    assert b"request_id" not in shared


def test_a_change_carries_its_request_once() -> None:
    fanout = Fanout(sources().kinds)
    host = HostEnd(fanout, "h1")
    host.receive(fanout)
    fanout.apply({"network": {"n1": network_record("n1")}, "port": {"p1": bound_port("p1", "n1", "h1")}},
                 {("port", "p1"): "req-1"})  # fmt: skip
    host.receive(fanout)
    taken = host.requests()
    # The network was read with the port, and its batch has one request.
    assert taken["port", "p1"] == "req-1"
    assert taken["network", "n1"] == "req-1"
    assert not host.pending.requests
    fanout.apply({"port": {"p1": None}})  # by the server itself
    host.receive(fanout)
    assert set(host.requests().values()) == {""}


def test_the_newest_of_several_requests() -> None:
    fanout = Fanout(sources().kinds)
    host = HostEnd(fanout, "h1")
    fanout.apply({"network": {"n1": network_record("n1"), "n2": network_record("n2")}})
    fanout.apply({"port": {"p1": bound_port("p1", "n1", "h1", revision=1)}}, {("port", "p1"): "req-1"})
    fanout.apply({"port": {"p1": bound_port("p1", "n1", "h1", revision=2), "p2": bound_port("p2", "n2", "h1")}},
                 {("port", "p1"): "req-2", ("port", "p2"): "req-3"})  # fmt: skip
    host.receive(fanout)
    taken = host.requests()
    assert (taken["port", "p1"], taken["port", "p2"]) == ("req-2", "req-3")


def test_deletions_before_synced_keep_their_request() -> None:
    state = State()
    state.apply(Welcome(cursor=Cursor("db", 1)))
    state.apply(Put(kind="network", object=encode_one(Network(id="n1")), request_id="req-1"))  # type: ignore[arg-type]
    change = state.take()
    assert change is not None
    assert change.request_id == "req-1"
    state.apply(Gone(kind="network", id="n1", request_id="req-2"))
    assert state.take() is None
    state.apply(Synced(position=2))
    change = state.take()
    assert change is not None
    assert (change.new, change.request_id) == (None, "req-2")


def test_the_queue_hands_the_request_to_the_worker_and_keeps_it_for_retries() -> None:
    async def scenario() -> list[tuple[str, str]]:
        queue: WorkQueue[str] = WorkQueue(first_delay=0.001)
        taken: list[tuple[str, str]] = []

        async def work(times: int) -> None:
            for _ in range(times):
                key = await queue.get()
                taken.append((key, request_ids.get()))
                if key == "a" and len(taken) == 1:
                    queue.failed(key)
                else:
                    queue.done(key)

        for request_id, key in (("req-1", "a"), ("req-2", "a"), ("", "a"), ("", "b")):
            request_ids.CURRENT.set(request_id)
            queue.put(key)
        async with asyncio.timeout(30):
            await asyncio.create_task(work(3))
        return taken

    # The newest of those that were put; an event without a request does not remove it.
    assert asyncio.run(scenario()) == [("a", "req-2"), ("b", ""), ("a", "req-2")]


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    log.register_options(made)
    made([])
    return made


def record(request_id: str) -> logging.LogRecord:
    token = request_ids.CURRENT.set(request_id)
    caller = request_ids.CALLER.set({"user": "u1", "project": "p1"})
    try:
        return ContextRecord("neutrino.test", logging.INFO, __file__, 1, "port %s is wired", ("p1",), None)
    finally:
        request_ids.CURRENT.reset(token)
        request_ids.CALLER.reset(caller)


def test_log_lines_show_the_request_and_its_caller(conf: cfg.ConfigOpts) -> None:
    text = formatters.ContextFormatter(config=conf)
    assert "[ req-1 u1 p1 - - - -] port p1 is wired" in text.format(record("req-1"))
    assert "[-] port p1 is wired" in text.format(record(""))


def test_log_lines_ignore_what_libraries_leave_in_the_thread(conf: cfg.ConfigOpts) -> None:
    def lines() -> list[str]:
        context.RequestContext(user_id="another")  # kept for the thread
        return [
            form.format(record("")) for form in (formatters.ContextFormatter(config=conf), formatters.JSONFormatter())
        ]

    with ThreadPoolExecutor(1) as thread:
        text, encoded = thread.submit(lines).result()
    assert "[-] port p1 is wired" in text
    assert json.loads(encoded)["context"] == {}


def test_json_lines_show_the_request_and_its_caller() -> None:
    shown = json.loads(formatters.JSONFormatter().format(record("req-1")))
    assert shown["context"] == {"request_id": "req-1", "user": "u1", "project": "p1"}
    assert shown["message"] == "port p1 is wired"
    assert json.loads(formatters.JSONFormatter().format(record("")))["context"] == {}
