"""The five faults of docs/operator-guide.md: each is caused, and the tools print the cause that the guide has."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.lab.errors import wait_until
from tests.support.lab import address, group, network, open_group, pings, port
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.launcher import PROGRAM
from tests.support.routing_lab import attach, detach
from tests.support.shared_labs import lab_of_kind

GUIDE = Path(__file__).parents[2] / "docs" / "operator-guide.md"
AGENT_DOWN_SECONDS = 20  # a host that is asked before is not known to be down


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    server, agent = f"[DEFAULT]\nagent_down_time = {AGENT_DOWN_SECONDS}\n", "[agent]\nreport_interval = 1\n"
    with lab_of_kind(LabKind(hosts=2, roles=("l2", "l3"), server=server, agent=agent)) as made:
        blue, green = network(made, "blue", ("10.0.0.0/24",)), network(made, "green", ("10.1.0.0/24",))
        router = made.api.create("router", name="r1")
        for each in (blue, green):
            attach(made, router, made.api.list("subnet", network_id=each["id"])[0])
        open_to_all = open_group(made)
        for name, net, host in (("web", blue, "h1"), ("db", blue, "h2"), ("far", green, "h2")):
            made.vm(name, network=net["id"], host=host, security_groups=[open_to_all])
        wait_until(lambda: pings(made, "web", address(made, "db")), 30, "web does not reach db")
        yield made


def fault(number: int) -> str:
    """The guide's text on a fault."""
    found = re.search(
        rf"^\*\*{number}\. .*?(?=^\*\*{number + 1}\. |^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    assert found
    return found[0]


def tool(lab: Lab, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [PROGRAM, *words, "--endpoint", lab.settings.url], capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def trace(lab: Lab, *words: str) -> tuple[int, str]:
    return tool(lab, "trace", *words)


def doctor(lab: Lab, host: str, *words: str) -> tuple[int, str]:
    files = [word for path in lab.agent_config_files(host) for word in ("--config-file", str(path))]
    done = lab.run(host, [str(PROGRAM), "doctor", *files, *words], check=False)
    return done.returncode, done.stdout


def expect(number: int, result: tuple[int, str], *texts: str, status: int = 1) -> None:
    """The tool ends with this status and has these texts in its output; the guide has them too."""
    found, out = result
    assert found == status, out
    for text in texts:
        assert text in out
        assert text in fault(number)


def test_one_a_security_group_without_a_rule(lab: Lab) -> None:
    wait_until(
        lambda: trace(lab, "web", "--to", "db", "--protocol", "tcp", "--port", "5432")[0] == 0,
        60,
        "web does not reach db",
    )
    db, empty = port(lab, "db"), group(lab, "empty")
    lab.api.update("port", db["id"], security_groups=[empty])
    try:
        words = ("web", "--to", "db", "--protocol", "tcp", "--port", "5432")
        wait_until(lambda: trace(lab, *words)[0] == 1, 60, "the packet is not dropped")
        expect(
            1,
            trace(lab, *words),
            "verdict: dropped (security-group-ingress)",
            "No ingress rule of security group empty allows TCP port 5432",
        )
    finally:
        lab.api.update("port", db["id"], security_groups=db["security_groups"])
    wait_until(lambda: pings(lab, "web", address(lab, "db"), seconds=1), 30, "web does not reach db")


def test_two_a_port_that_is_switched_off(lab: Lab) -> None:
    db = port(lab, "db")
    lab.api.update("port", db["id"], admin_state_up=False)
    try:
        wait_until(lambda: not pings(lab, "web", address(lab, "db"), seconds=1), 30, "db is still connected")
        expect(2, trace(lab, "web", "--to", "db"), "verdict: dropped (port-admin-down)", "is administratively down")
        status, out = tool(lab, "history", "port", db["id"])
        assert status == 0
        assert re.search(r"updated +req-", out)
    finally:
        lab.api.update("port", db["id"], admin_state_up=True)
    wait_until(lambda: pings(lab, "web", address(lab, "db"), seconds=1), 30, "web does not reach db")


def test_three_a_subnet_is_removed_from_the_router(lab: Lab) -> None:
    router = lab.api.find("router", "r1")
    subnet = lab.api.list("subnet", network_id=lab.api.find("network", "green")["id"])[0]
    wait_until(lambda: trace(lab, "web", "--to", "far")[0] == 0, 60, "web does not reach far")
    detach(lab, router, subnet)
    try:
        wait_until(lambda: trace(lab, "web", "--to", "far")[0] == 1, 60, "the packet is not dropped")
        expect(3, trace(lab, "web", "--to", "far"), "verdict: dropped (no-route)")
    finally:
        attach(lab, router, subnet)


def test_four_the_agent_of_a_host_is_stopped(lab: Lab) -> None:
    wait_until(lambda: tool(lab, "status")[0] == 0, 60, "status shows a problem")
    lab.stop_agent("h2")
    try:
        unknown = 3
        expect(
            4, trace(lab, "web", "--to", "db"), "verdict: unknown (host-timeout)", "has not answered", status=unknown
        )
        assert pings(lab, "web", address(lab, "db")), "traffic continues"
        expect(4, doctor(lab, "h2", "--only", "agent"), "no agent runs")
        wait_until(lambda: tool(lab, "status")[0] == 1, 10 * AGENT_DOWN_SECONDS, "status shows no problem")
        expect(4, tool(lab, "status"), "no report for")
        assert "on h2" in tool(lab, "status")[1]
    finally:
        lab.start_agent("h2")


def test_five_flows_are_deleted_behind_the_agents_back(lab: Lab) -> None:
    table = re.search(r"ovs-ofctl del-flows br-int (table=\d+)", fault(5))
    assert table
    lab.stop_agent("h2")
    try:
        lab.run("h2", ["ovs-ofctl", "-O", "OpenFlow13", "del-flows", "br-int", table[1]])
        wait_until(lambda: not pings(lab, "web", address(lab, "db"), seconds=1), 30, "db is still connected")
        expect(5, doctor(lab, "h2", "--only", "drift"), "drift")
    finally:
        lab.start_agent("h2")
    wait_until(lambda: pings(lab, "web", address(lab, "db"), seconds=1), 30, "the agent has not repaired the flows")
