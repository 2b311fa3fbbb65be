"""Bare-metal nodes as agents: read from Ironic's API (a stand-in on HTTP), reported, and forgotten."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from neutrino.features.baremetal.ironic import NodePort, Unavailable, ports_from_conf, read_ports
from neutrino.features.baremetal.nodes import NodeReporter, states
from neutrino.server.main import Server
from tests.api.agents import set_clock, switch
from tests.api.client import Api

FIRST, SECOND = "4d1b5a3e-2d43-4c4e-9d0f-5b5a0c9a7a51", "9a6e1ad7-33c1-4a33-b1a7-5f4b3f6f3a10"
PAGE = 2


class Ironic:
    """A list of ports, in pages; `broken` answers something else."""

    def __init__(self) -> None:
        self.ports: list[dict[str, Any]] = []
        self.broken: object = None
        self.versions: set[str | None] = set()
        ironic = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ironic.versions.add(self.headers.get("X-OpenStack-Ironic-API-Version"))
                begin = int(self.path.partition("marker=")[2] or 0)
                page: object = {"ports": ironic.ports[begin : begin + PAGE]}
                if begin + PAGE < len(ironic.ports):
                    # As Ironic behind a proxy sees itself.
                    page = {**page, "next": f"http://inside.example.org:6385/v1/ports?marker={begin + PAGE}"}  # type: ignore[dict-item]
                body = json.dumps(page if ironic.broken is None else ironic.broken).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def add(self, node: str, physical_network: str | None) -> None:
        self.ports.append({"uuid": "u", "node_uuid": node, "physical_network": physical_network})


@pytest.fixture
def ironic() -> Iterator[Ironic]:
    made = Ironic()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    with made.server:
        try:
            yield made
        finally:
            made.server.shutdown()
            thread.join()


@pytest.fixture
def server(another_server: Callable[..., Server], ironic: Ironic) -> Server:
    made: Server = another_server(
        {"ironic": {"report_nodes": "true", "auth_type": "none", "endpoint": ironic.url, "report_interval": "30"}}
    )
    return made


def reporter(server: Server) -> NodeReporter:
    return NodeReporter(server.db, server.registry, ports_from_conf(server.conf), 30)


def nodes(admin: Api) -> dict[str, Any]:
    found = admin.get("/agents", {"agent_type": "Baremetal Node"}).body["agents"]
    return {agent["host"]: agent for agent in found}


@pytest.mark.every_database
def test_nodes_are_agents_with_the_physical_networks_of_their_ports(admin: Api, server: Server, ironic: Ironic) -> None:
    switch(server, "h1")
    for physical_network in ("physnet1", "physnet2", None):
        ironic.add(FIRST, physical_network)
    ironic.add(SECOND, None)
    assert reporter(server).report()
    found = nodes(admin)
    assert found.keys() == {FIRST, SECOND}
    assert found[FIRST]["configurations"]["bridge_mappings"] == {"physnet1": "yes", "physnet2": "yes"}
    assert found[SECOND]["configurations"]["bridge_mappings"] == {}
    assert (found[FIRST]["binary"], found[FIRST]["alive"]) == ("ironic-neutron-agent", True)
    assert ironic.versions == {"1.34"}
    assert not reporter(server).report(), "another process has reported a moment ago"
    set_clock(server, 25)
    ironic.ports = [port for port in ironic.ports if port["node_uuid"] == SECOND]
    assert reporter(server).report()
    assert nodes(admin).keys() == {SECOND}, "Ironic has no ports of the other one any more"
    assert [agent["host"] for agent in admin.get("/agents").body["agents"] if agent["host"] == "h1"], "not others"


@pytest.mark.parametrize("answer", [{"error": "x"}, [], {"ports": [{"node_uuid": 7}]}, {"ports": "none"}])
def test_an_answer_that_is_not_ironics_changes_nothing(
    admin: Api, server: Server, ironic: Ironic, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    ironic.add(FIRST, "physnet1")
    assert reporter(server).report()
    set_clock(server, 25)
    ironic.broken = answer
    one = reporter(server)
    with caplog.at_level(logging.WARNING):
        assert not one.report()
        assert not one.report()
    assert caplog.text.count("bare-metal nodes are not reported until Ironic answers") == 1
    assert nodes(admin).keys() == {FIRST}
    ironic.broken = None
    assert one.report()


def test_nodes_are_no_hosts_of_the_status(admin: Api, server: Server, ironic: Ironic) -> None:
    ironic.add(FIRST, "physnet1")
    assert reporter(server).report()
    status = admin.get("/status").expect(200).body
    assert FIRST not in json.dumps(status)


def test_pages_that_never_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neutrino.features.baremetal.ironic.MOST_PAGES", 3)
    with pytest.raises(Unavailable, match="more than 3 pages"):
        list(read_ports(lambda path: {"ports": [], "next": "http://x/v1/ports?marker=1"}))


def test_no_ports_are_no_nodes() -> None:
    assert states([]) == []
    assert [one.host for one in states([NodePort("b", None), NodePort("a", "p"), NodePort("b", "p")])] == ["a", "b"]
