"""`neutrino agent teardown`: a host with everything on it becomes the host that it was before its agent's first start."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from neutrino.lab.errors import wait_until
from neutrino.model.roles import USUAL
from tests.support.lab import open_group
from tests.support.lab_cleanup import host_state
from tests.support.lab_control import Lab
from tests.support.lab_dhcp import pid
from tests.support.lab_kinds import LabKind
from tests.support.routing_lab import (
    SOON,
    external_network,
    floating_ip,
    make_router,
    tenant_network,
    wait_until_reachable,
)

LAB = LabKind(hosts=1, roles=USUAL)  # of its own: bridges that are created again have other numbers of ports
HOST = "h1"
MINE = "qrouter-7e1ab6d2-0000-4000-8000-000000000001"  # named as a router's, and an operator's
OPERATORS = f"""set -e
ip netns add {MINE}
ip link add wg0 netns {MINE} type veth peer name wg1 netns {MINE}
ovs-vsctl add-br br-mine -- set bridge br-mine datapath_type=netdev
ovs-ofctl add-flow br-mine cookie=0x17,priority=7,actions=drop
"""


@pytest.fixture(scope="module")
def guest(lab: Lab) -> Iterator[str]:
    """An instance with DHCP, metadata, a distributed router with SNAT, a floating IP and a bandwidth limit."""
    try:
        lab.run(HOST, ["sh", "-c", OPERATORS])
        open_group(lab)
        blue = tenant_network(lab, "blue", 5, six=False)
        out = external_network(lab)
        make_router(lab, out, blue, distributed=True)
        vm = lab.vm("blue", network="blue", host=HOST, security_groups=["open"])
        floating_ip(lab, out, vm.port_id)
        wait_until_reachable(lab, "blue", "10.0.5.1")
        wait_until(lambda: any(name.startswith("fip-") for name in namespaces(lab)), SOON, "no floating IP is served")
        yield "blue"
    finally:
        lab.run(HOST, ["sh", "-c", f"ip netns delete {MINE}; ovs-vsctl del-br br-mine"])


def namespaces(lab: Lab) -> set[str]:
    return {line.split()[0] for line in lab.run(HOST, ["ip", "netns"]).stdout.splitlines()}


def served(lab: Lab) -> set[str]:
    return {name for name in namespaces(lab) if name.startswith(("qdhcp-", "qrouter-", "snat-", "fip-"))} - {MINE}


def teardown(lab: Lab, *options: str) -> CompletedProcess[str]:
    return lab.run(HOST, [*lab.agent_command(HOST, "teardown"), *options], check=False)


def bridges(lab: Lab) -> set[str]:
    return set(lab.run(HOST, ["ovs-vsctl", "list-br"]).stdout.split())


def flows(lab: Lab, bridge: str) -> list[str]:
    lines = lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", bridge]).stdout.splitlines()
    return [line.strip() for line in lines if "actions=" in line]


def state_files(lab: Lab) -> set[str]:
    return set(lab.run(HOST, ["sh", "-c", f"ls {state_path(lab)}"]).stdout.split())


def state_path(lab: Lab) -> str:
    found = re.search(r"^state_path *= *(\S+)", (lab.paths.host(HOST) / "agent.conf").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def daemons(lab: Lab) -> set[str]:
    """The names of processes that carry the mark of this host's agent: other labs of the machine are seen too."""
    look = f"grep -lzx NEUTRINO_OWNER={state_path(lab)} /proc/[0-9]*/environ 2>/dev/null"
    names = f"for one in $({look}); do tr '\\0' '\\n' <$one | sed -n 's/^NEUTRINO_PROCESS=//p'; done"
    return {name.split()[0] for name in lab.run(HOST, ["sh", "-c", names]).stdout.splitlines()}


def test_the_plan_is_shown_beside_a_running_agent_which_is_not_torn_down(lab: Lab, guest: str) -> None:
    before = host_state(lab)
    refused = teardown(lab)
    assert refused.returncode != 0
    assert daemons(lab) == {"dnsmasq", "metadata"}
    assert "another agent runs with state_path" in refused.stderr

    shown = teardown(lab, "--dry-run", "--json", "--all-ports")
    assert shown.returncode == 0, shown.stderr
    document: dict[str, Any] = json.loads(shown.stdout)
    found = {(each["kind"], each["name"]) for each in document["removals"]}
    assert {name for kind, name in found if kind == "namespace"} == served(lab)
    assert {("switch", "br-int"), ("switch", "br-tun"), ("daemon", "metadata")} <= found
    assert any(kind == "daemon" and name.startswith("dnsmasq ") for kind, name in found)
    assert document["kept"] == [{"name": f"namespace {MINE}", "reason": "nothing marks it as this agent's"}]
    assert document["refused"] == []
    assert host_state(lab) == before


def test_a_host_with_instances_is_refused(lab: Lab, guest: str) -> None:
    lab.stop_agent(HOST)
    before = host_state(lab)
    for options in ((), ("--dry-run",), ("--roles", "l2,metadata", "--keep-ports")):
        refused = teardown(lab, *options)
        assert refused.returncode == 1, refused.stdout
        assert host_state(lab) == before
    assert "of a role that is not named" in refused.stderr
    assert "--keep-ports" in teardown(lab).stderr
    assert teardown(lab, "--roles", "l4").returncode == 2
    assert teardown(lab, "--keep-ports", "--all-ports").returncode == 2


def test_one_role_alone(lab: Lab, guest: str) -> None:
    done = teardown(lab, "--roles", "metadata,bgp", "--json")
    assert [each["kind"] for each in json.loads(done.stdout)["removals"]][:1] == ["daemon"], done.stderr
    assert daemons(lab) == {"dnsmasq"}
    done = teardown(lab, "--roles", "dhcp")
    assert done.returncode == 0, done.stderr
    assert not any(name.startswith("qdhcp-") for name in namespaces(lab))
    assert {name.partition("-")[0] for name in served(lab)} == {"qrouter", "snat", "fip"}
    assert not pid(lab, HOST, lab.api.list("network", name="blue")[0]["id"])


def test_ports_of_instances_are_kept_and_served_again(lab: Lab, guest: str) -> None:
    done = teardown(lab, "--keep-ports")
    assert done.returncode == 0, done.stderr
    assert served(lab) == set()
    assert daemons(lab) == set()
    assert bridges(lab) >= {"br-int"}
    assert "br-tun" not in bridges(lab)
    assert flows(lab, "br-int") == []
    ports = lab.run(HOST, ["ovs-vsctl", "list-ports", "br-int"]).stdout.split()
    assert [name[:3] for name in ports] == ["tap"]

    lab.start_agent(HOST)
    wait_until_reachable(lab, guest, "10.0.5.1")
    assert lab.run(HOST, lab.agent_command(HOST, "verify")).returncode == 0
    lab.stop_agent(HOST)


def test_nothing_is_left(lab: Lab, guest: str) -> None:
    done = teardown(lab, "--all-ports")
    assert done.returncode == 0, done.stderr
    assert served(lab) == set()
    assert daemons(lab) == set()
    left = bridges(lab)
    assert not left & {"br-int", "br-tun"}
    for bridge in left - {"br-mine"}:
        assert flows(lab, bridge) == ["priority=0 actions=NORMAL"], bridge
        assert not any(
            name.startswith("phy-") for name in lab.run(HOST, ["ovs-vsctl", "list-ports", bridge]).stdout.split()
        )
        assert lab.run(HOST, ["ovs-vsctl", "get", "bridge", bridge, "fail_mode"]).stdout.strip() != "secure"
    assert MINE in namespaces(lab)
    assert any("0x17" in line for line in flows(lab, "br-mine"))
    assert not state_files(lab) & {"agent.lock", "format", "feed.json", "routers", "fips", "takeover"}
    devices = lab.run(HOST, ["ip", "-o", "link"]).stdout
    assert not re.search(r": (qr-|qg-|sg-|fg-|fpr-|rfp-|tap)", devices.replace("tap" + port(lab)[:11], "")), devices
    again = teardown(lab)
    assert again.returncode == 0, again.stderr
    assert "nothing to remove" in again.stdout

    lab.start_agent(HOST)
    wait_until(lambda: bool(served(lab)), SOON, "the host does not serve again")


def port(lab: Lab) -> str:
    return next(vm.port_id for vm in lab.vms.all() if vm.name == "blue")
