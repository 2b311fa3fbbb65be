"""Shadow mode: an agent that is held beside Neutron's flows compares by itself, and its server shows what differs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.model.agents import OVS, TAKEOVER
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from tests.functional.test_agent_guards import (
    FEED,
    GuardedAgent,
    everything,
    leave_neutron,
    local_ip,
    make_bridges,
    network_with_ports,
    plug,
)
from tests.support.agent import Agent, run_command
from tests.support.metrics import scrape
from tests.support.neutrino import Caller, Neutrino, Settings
from tests.support.openvswitch import OpenVSwitch
from tests.support.ports import free_port
from tests.support.process import wait_until

AT = "2026-11-18T10:00:00Z"
HOST = "s1"


@pytest.fixture
def server() -> Iterator[Neutrino]:
    with Neutrino(FEED) as running:
        yield running


@pytest.fixture
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as running:
        make_bridges(running)
        yield running


def status(server: Neutrino, *options: str) -> str:
    return run_command(server, ["takeover", "status", *options, "--config-file", str(server.config)]).stdout


def reported(api: Caller) -> Object:
    agents = api("GET", f"/v2.0/agents?host={HOST}").json()["agents"]
    found = [agent["configurations"].get(TAKEOVER, {}) for agent in agents if agent["agent_type"] == OVS]
    return found[0] if found else {}


def bound_port(server: Neutrino, api: Caller, settings: Settings) -> str:
    """A port of the host, as an import brings it: on a switch without flows the agent works, so it can be bound."""
    with OpenVSwitch() as empty:
        make_bridges(empty)
        with Agent(server, empty, HOST, settings):
            _, (port_id,) = network_with_ports(api, HOST, 1)
    run_command(server, ["host", "remove", HOST, "--config-file", str(server.config)])  # the next agent adds it again
    return port_id


def connect_bridges(switch: OpenVSwitch) -> None:
    """As Neutron's agent does: packets for instances come from the tunnel bridge."""
    for bridge, name, peer in (("br-int", "patch-tun", "patch-int"), ("br-tun", "patch-int", "patch-tun")):
        switch.vsctl("add-port", bridge, name, "--", "set", "interface", name, "type=patch", f"options:peer={peer}")


def test_differences_are_shown_before_the_conversion(server: Neutrino, switch: OpenVSwitch) -> None:
    api = Caller(server.url)
    address = f"127.0.0.1:{free_port()}"
    settings: Settings = {
        "ovs": local_ip(31),
        "agent": {"takeover_check_interval": 0.5, "report_interval": 1},
        "metrics": {"bind": address},
    }
    port_id = bound_port(server, api, settings)
    connect_bridges(switch)
    device = plug(switch, port_id, tag=1)
    leave_neutron(switch, int(switch.vsctl("get", "interface", device, "ofport")))
    before = everything(switch)
    db = Database(server.database)
    row = {"id": "1", "source": "neutron@db", "release": "2026.1", "started_at": AT, "finished_at": AT, "final": True}
    with db.transaction() as tx:
        tx.insert(t.takeovers, [{**row, "counts": "{}"}])
    with GuardedAgent(server, switch, HOST, settings) as agent:
        agent.wait_held("foreign_flows")
        wait_until(lambda: bool(reported(api).get("differing")), timeout=90, what="a look", failed=lambda: None)
        text = status(server)
        (line,) = re.findall(rf"  {HOST}: (.*)", text)
        found = re.search(r"(\d+) packets of 1 ports, (\d+) differ; a conversion would make (\d+) changes", line)
        assert found is not None, line
        packets, differing, changes = map(int, found.groups())
        assert packets >= differing > 3
        assert changes > 20
        assert f"    {device} (port {port_id}), ingress: tcp" in text
        assert f"    and {differing - 3} more: --differences shows them" in text
        every = [line for line in status(server, "--differences").splitlines() if line.startswith(f"    {device}")]
        assert len(every) == differing
        assert len({*every}) == differing

        values = scrape(address)
        assert values.value("neutrino_agent_takeover_differences") == differing
        assert values.value("neutrino_agent_takeover_packets") == packets
        assert everything(switch) == before, "a look changes nothing"
        assert not children_of_agents(agent), "no look runs for ever"

        done = run_command(server, ["takeover", "host", "--config-file", str(agent.config)])
        assert done.returncode == 0, done.stderr
        wait_until(lambda: not reported(api), timeout=60, what="no comparison is reported", failed=lambda: None)
        assert HOST not in [line.split(":")[0].strip() for line in status(server).splitlines()]
    api.close()
    db.close()


def children_of_agents(agent: GuardedAgent) -> list[str]:
    """Looks that run now, once none was seen: they follow each other quickly here."""
    found: list[str] = []

    def none_runs() -> bool:
        found[:] = [
            path.parent.name
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if _words(path)[3:4] == ["shadow"] and str(agent.config) in _words(path)
        ]
        return not found

    wait_until(none_runs, timeout=60, what="the end of a look", failed=lambda: None)
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").split("\0")
    except OSError:
        return []
