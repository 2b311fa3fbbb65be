"""Traces of hosts that are behind or do not answer, of hybrid ports, and the command."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest

from neutrino.cli.main import main
from neutrino.lab.errors import wait_until
from neutrino.lab.lab import SERVER
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    Guest,
    Spec,
    make_group,
    make_guests,
    make_network,
    wait_until_reachable,
)
from tests.support.lab_trace import PING, SOON, Situation, check, in_groups, pings, trace_once
from tests.support.launcher import PROGRAM
from tests.support.memory import tree


@dataclasses.dataclass
class Site:
    lab: Lab
    network: Object
    a: Guest  # on h1
    far: Guest  # on h2
    hybrid: Guest  # on h3, whose firewall is iptables
    open: str
    closed: str

    def guest(self, name: str) -> Guest | None:
        return {"a": self.a, "far": self.far, "hybrid": self.hybrid}.get(name)

    def port(self, name: str) -> str:
        guest = self.guest(name)
        return guest.port_id if guest is not None else ""

    def address(self, name: str, version: int = 4) -> str:
        guest = self.guest(name)
        return guest.addresses[version] if guest is not None else name

    def vm(self, name: str) -> str:
        return name

    def object(self, name: str) -> str:
        return {"closed": self.closed}[name]


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    lab.stop_agent("h3")
    lab.start_agent("h3", {"securitygroup": {"firewall_driver": "iptables_hybrid"}})
    net = make_network(lab, "blue")
    open_, _ = make_group(lab, "open", *EVERYTHING)
    closed, _ = make_group(lab, "closed")
    a, far, hybrid = make_guests(
        lab,
        Spec("a", net, "h1", [open_]),
        Spec("far", net, "h2", [open_]),
        Spec("hybrid", net, "h3", [open_], hybrid=True),
    )
    for guest in (far, hybrid):
        wait_until_reachable(a, guest)
    return Site(lab, net, a, far, hybrid, open_, closed)


S = Situation[Site]
SITUATIONS = [
    S("a hybrid port", "a", "hybrid"),
    S("from a hybrid port", "hybrid", "far"),
    S(
        "a hybrid port without a rule",
        *("a", "hybrid", PING, "security-group-ingress"),
        names="closed",
        change=lambda site: in_groups(site.hybrid, site.closed),
    ),
]
REQUEST = S("", "a", "far").request


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_a_trace_agrees_with_real_packets(situation: S, site: Site) -> None:
    check(situation, site)


def test_a_host_that_does_not_answer(site: Site) -> None:
    """Its packets still arrive, which nobody can see from outside: the verdict is unknown, and the host is named."""
    with site.lab.suspended_agent("h2"):
        wait_until_reachable(site.a, site.far)
        found = trace_once(site.lab, **REQUEST(site))
    assert (found["verdict"], found["cause"]) == ("unknown", "host-timeout")
    assert "not answered" in found["hosts"]["h2"]["error"]
    assert found["agreement"] is not True


def test_changes_that_a_host_has_not_applied(site: Site) -> None:
    """The agent was suspended when the group was closed: what the host does now is not known, and that is shown."""
    with site.lab.suspended_agent("h2"):
        with in_groups(site.far, site.closed):
            wait_until_reachable(site.a, site.far)
            found = trace_once(site.lab, **REQUEST(site))
            assert (found["verdict"], found["cause"]) == ("dropped", "security-group-ingress")  # when it is applied
            assert found["agreement"] is None
            assert "not answered" in found["hosts"]["h2"]["error"]
        with in_groups(site.far, site.closed):
            os.kill(site.lab.agent_pid("h2") or 0, signal.SIGCONT)
            wait_until(lambda: not pings(site.lab, "a", site.far.addresses[4]), SOON, "the group is not closed")
            found = trace_once(site.lab, **REQUEST(site))
            assert (found["verdict"], found["cause"]) == ("dropped", "security-group-ingress")
    wait_until_reachable(site.a, site.far)


def test_a_dead_agent(site: Site) -> None:
    """Its host is not asked once the server counts it as dead."""
    lab = site.lab
    lab.stop_agent("h2")
    try:
        # Again until the API shows it: a report that the server had not written yet would make the agent alive again.
        wait_until(lambda: _is_dead(lab, "h2"), SOON, "the agent of h2 counts as alive")
        wait_until_reachable(site.a, site.far)
        found = trace_once(lab, **REQUEST(site))
        assert (found["verdict"], found["cause"]) == ("unknown", "host-down")
        assert "h2" in found["hosts"]
    finally:
        lab.start_agent("h2")
    wait_until(lambda: trace_once(lab, **REQUEST(site))["verdict"] == "delivered", SOON, "h2 does not answer again")


def _is_dead(lab: Lab, host: str) -> bool:
    _age_agents(lab, host)
    return not any(agent["alive"] for agent in lab.api.list("agent", host=host))


def _age_agents(lab: Lab, host: str) -> None:
    """As if the last reports of a host were older than agent_down_time."""
    with contextlib.closing(sqlite3.connect(_database(lab), timeout=30)) as connection, connection:
        connection.execute("UPDATE agents SET heartbeat_timestamp = '2020-01-01T00:00:00Z' WHERE host = ?", (host,))


def _database(lab: Lab) -> str:
    return str(next(p for p in lab.paths.server.iterdir() if p.suffix in (".sqlite", ".db", ".sqlite3")))


# --- the command --------------------------------------------------------------------------------------------------------


def test_the_command(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, str]:
        status = main(["trace", *words, "--endpoint", site.lab.settings.url])
        return status, capsys.readouterr().out

    argv = [PROGRAM, "trace", "a", "--to", "far", "--protocol", "tcp", "--port", "80"]
    found = subprocess.run(
        [*argv, "--endpoint", site.lab.settings.url], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stderr == ""
    assert "verdict: delivered" in found.stdout
    assert "[port far]" in found.stdout
    assert "\033" not in found.stdout
    status, text = run(site.a.addresses[4], "--to", site.far.addresses[4], "--flows", "--json")
    assert status == 0
    assert any("table=" in flow for step in json.loads(text)["steps"] for flow in step["flows"])
    with in_groups(site.far, site.closed):
        wait_until(lambda: run("a", "--to", "far")[0] == 1, SOON, "the packet is not dropped")
        text = run("a", "--to", "far")[1]
        assert "verdict: dropped (security-group-ingress)" in text
        assert "Add an ingress rule" in text
    assert run("nobody", "--to", "far") == (2, "")
    wait_until_reachable(site.a, site.far)
    with site.lab.suspended_agent("h2"):
        assert run("a", "--to", "far")[0] == 3


def test_a_killed_feed_process(site: Site) -> None:
    """Hosts are asked again as soon as they have connected to the next one."""
    server = site.lab.processes.pid(SERVER)
    feeds = [pid for pid in tree(server or 0) if b"feed" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert feeds
    for pid in feeds:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: trace_once(site.lab, **REQUEST(site))["verdict"] == "delivered", SOON, "no host answers")
