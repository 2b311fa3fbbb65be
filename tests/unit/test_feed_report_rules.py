"""Rules for reports: every field of every message, and the roles that messages need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.agent.bgp import build as bgp_build
from neutrino.agent.config import configuration
from neutrino.agent.dhcp import build as dhcp_build
from neutrino.agent.l2 import build as l2_build
from neutrino.agent.l3 import build as l3_build
from neutrino.agent.metadata import build as metadata_build
from neutrino.agent.sriov import build as sriov_build
from neutrino.agent.sriov.config import sriov_options
from neutrino.feed.messages import (
    Answer,
    ErrorMessage,
    HostMessage,
    PortDown,
    PortReady,
    PortUp,
    Report,
    Status,
    Traffic,
    encode_one,
)
from neutrino.model import agents as words
from neutrino.model import roles as role
from neutrino.model.agents import AgentState
from neutrino.model.kinds import KINDS
from neutrino.model.roles import LEAST, ROLES, parse_roles
from neutrino.model.routing import MeteredTraffic
from neutrino.server.features import sources
from neutrino.server.feed.connections.admission import FAILURE_SECONDS, FAILURES, LoginLimits, source_address
from neutrino.server.feed.reports.rules import MAX_ANSWER, MAX_ERROR, MAX_LOGGED, MAX_TEXT, one_line, refusal

PORT = "5c0fd3b1-1111-4444-8888-000000000001"
OVS = AgentState(words.OVS, "neutron-openvswitch-agent", "h1", "N/A", configurations={"tunneling_ip": "192.0.2.1"})
L3 = AgentState(words.L3, "neutron-l3-agent", "h1", "l3_agent", configurations={"agent_mode": "dvr_snat"})


def report(*states: AgentState, **more: Any) -> Report:
    return Report(serial=1, states=states, **more)


def agent(**configurations: Any) -> Report:
    return report(replace(OVS, configurations=configurations))


GOOD: list[HostMessage] = [
    report(OVS, L3, applied=7),
    report(),
    agent(
        tunneling_ip="2001:db8::1",
        tunnel_types=["gre", "vxlan", "geneve"],
        bridge_mappings={"physnet1": "br-ex"},
        problems={"p1": "it has no tap"},
        something_of_a_later_release={"x": [1]},
    ),
    agent(tunneling_ip="", tunnel_types=[], device_mappings={"physnet1": ["ens1", "ens2"]}),
    agent(tunneling_ip="127.0.0.1"),  # one machine alone
    PortUp(serial=1, port_id=PORT, revision=3),
    PortDown(serial=1, port_id=PORT, reason="no\ntap"),
    PortReady(serial=1, port_id=PORT, revision=3),
    Status(serial=1, kind="floatingip", id=PORT, status="ACTIVE"),
    Status(serial=1, kind="router", id=PORT, status="standby"),
    Status(serial=1, kind="subnet", id=PORT, status="2001:db8::/64"),
    Status(serial=1, kind="firewall_group", id=PORT, status="ACTIVE", revision=3, role="l2"),
    Status(serial=1, kind="firewall_group", id=PORT, status="ERROR", revision=3, role="l3", reason="nft\nfailed"),
    Status(serial=1, kind="firewall_group", id=PORT, status="INACTIVE"),
    ErrorMessage(serial=1, kind="port", id=PORT, text="it cannot be"),
    Answer(serial=1, id=PORT, result=msgspec.Raw(b'{"exits":[{"note":"\xc3\xa9"}]}')),
    Answer(serial=1, id=PORT, error="no switch"),
]
BAD: list[tuple[HostMessage, str]] = [
    *(
        (agent(tunneling_ip=value), "tunneling_ip")
        for value in ("x", "192.0.2.300", "h2", "fe80::1%eth0", "192.0.2.1/24")
    ),
    *((agent(tunneling_ip=value), "tunneling_ip") for value in (5, ["192.0.2.1"], {"a": 1}, True)),
    *(
        (agent(tunneling_ip=value), "not the address of one host")
        for value in ("0.0.0.0", "::", "224.0.0.1", "ff02::1")
    ),
    (agent(tunneling_ip="255.255.255.255"), "not the address of one host"),
    *((agent(tunnel_types=value), "tunnel_types") for value in ("vxlan", ["x"], [["vxlan"]], [5], {"vxlan": 1}, None)),
    *((agent(bridge_mappings=value), "bridge_mappings") for value in ([], "a:b", {"a": 5}, {"a": "b\n"}, {"": "b"})),
    (agent(bridge_mappings={f"net{n}": "br" for n in range(2000)}), "bridge_mappings"),
    (agent(bridge_mappings={"a": "b" * 300}), "bridge_mappings"),
    (agent(device_mappings={"a": [5]}), "device_mappings"),
    (agent(device_mappings={"a": "ens1\nroot"}), "device_mappings"),
    (agent(device_mappings={"a": "x" * 256}), "device_mappings"),
    (agent(device_mappings={"a": ["ens1"] * 1001}), "device_mappings"),
    (agent(integration_bridge="br\u202eint"), "integration_bridge"),  # reads as another name in a log
    (agent(problems={str(number): "" for number in range(1001)}), "problems"),
    *((agent(**{name: "yes"}), name) for name in ("l2_population", "ovs_hybrid_plug", "enable_distributed_routing")),
    *((agent(**{name: 1}), name) for name in ("dhcp_port_by_server", "dhcp_distributed", "use_gateway_ips")),
    (agent(devices=-1), "devices"),
    (agent(networks="9"), "networks"),
    (agent(agent_mode="master"), "agent_mode"),
    (agent(datapath_type=["system"]), "datapath_type"),
    (agent(ovs_capabilities={"iface_types": "dpdk"}), "ovs_capabilities"),
    (agent(problems={"p1": 5}), "problems"),
    (agent(dataplane=None), "dataplane"),
    (agent(whatever="x" * MAX_TEXT), "bytes are more"),
    (agent(**{"a\nb": 1}), "configurations"),
    (report(replace(OVS, resource_versions={"Port": "1" * MAX_TEXT})), "resource_versions"),
    (report(replace(OVS, agent_type="Linux bridge agent")), "no agent type"),
    (report(replace(OVS, host="h2")), "cannot report for h2"),
    (report(OVS, OVS), "twice"),
    (report(OVS, applied=-1), "applied"),
    (PortUp(serial=1, port_id="", revision=1), "no id"),
    (PortUp(serial=1, port_id="x" * 37, revision=1), "no id"),
    (PortUp(serial=1, port_id="a\x00b", revision=1), "no id"),
    (PortUp(serial=1, port_id=PORT, revision=-1), "number"),
    (PortUp(serial=1, port_id=PORT, revision=2**63), "number"),
    (PortDown(serial=1, port_id="\n", reason=""), "no id"),
    (PortDown(serial=1, port_id=PORT, reason="x" * (MAX_TEXT + 1)), "characters"),
    (Status(serial=1, kind="firewall_group", id=PORT, status="PENDING_UPDATE"), "is no status of a firewall_group"),
    (Status(serial=1, kind="firewall_group", id=PORT, status="ACTIVE", revision=-1), "number"),
    (Status(serial=1, kind="firewall_group", id=PORT, status="ERROR", reason="x" * (MAX_TEXT + 1)), "characters"),
    (Status(serial=1, kind="firewall_group", id=PORT, status="ACTIVE", role="dhcp"), "no role that reports"),
    (Status(serial=1, kind="router", id=PORT, status="active", role="l3"), "no role that reports"),
    (PortReady(serial=1, port_id="é"), "no id"),
    (Status(serial=1, kind="port", id=PORT, status="ACTIVE"), "no status"),
    (Status(serial=1, kind="floatingip", id=PORT, status="WORKING"), "no status"),
    (Status(serial=1, kind="router", id=PORT, status="ACTIVE"), "no status"),
    (Status(serial=1, kind="subnet", id=PORT, status="10.0.0.0/24"), "no prefix"),
    (Status(serial=1, kind="subnet", id=PORT, status="2001:db8::1/64"), "no prefix"),
    (ErrorMessage(serial=1, kind="port", id=PORT, text="x" * (MAX_TEXT + 1)), "characters"),
    (ErrorMessage(serial=1, kind="a\nb", id=PORT, text="x"), "printable"),
    (Answer(serial=1, id="x" * 37), "no id"),
    (Answer(serial=1, id=PORT, error="x" * (MAX_ERROR + 1)), "error"),
    (Answer(serial=1, id=PORT, error="a\nb"), "error"),
    (Answer(serial=1, id=PORT, result=msgspec.Raw(b'"' + b"x" * MAX_ANSWER + b'"')), "result"),
    *(
        (Answer(serial=1, id=PORT, result=msgspec.Raw(data)), "JSON")
        for data in (b"", b'"\x00"', b'"\xff"', b"{", b"[1 2]")
    ),
]


def name(value: object) -> str:
    """The same in every process of a test run, unlike the representation of raw JSON."""
    return value if isinstance(value, str) else encode_one(value).decode(errors="replace")[:60]


@pytest.mark.parametrize("message", GOOD, ids=name)
def test_valid_messages_are_accepted(message: HostMessage) -> None:
    assert refusal(message, "h1", ROLES, sources().statuses) == ""


@pytest.mark.parametrize(("message", "reason"), BAD, ids=name)
def test_invalid_messages_are_refused_with_the_reason(message: HostMessage, reason: str) -> None:
    found = refusal(message, "h1", ROLES, sources().statuses)
    assert reason in found
    assert len(found) < 600


@pytest.mark.parametrize(
    ("message", "needed"),
    [
        (report(L3), "l3"),
        (report(OVS, L3), "l3"),
        (report(replace(OVS, agent_type=words.DHCP, configurations={})), "dhcp"),
        (Status(serial=1, kind="router", id=PORT, status="active"), "l3"),
        (Status(serial=1, kind="subnet", id=PORT, status="2001:db8::/64"), "l3"),
        (PortReady(serial=1, port_id=PORT), "dhcp"),
        (Status(serial=1, kind="firewall_group", id=PORT, status="ACTIVE", role="l3"), "l3"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_reports_of_roles_that_the_credential_lacks_are_refused(message: HostMessage, needed: str) -> None:
    assert needed in refusal(message, "h1", LEAST, sources().statuses)
    assert refusal(message, "h1", ROLES, sources().statuses) == ""


COUNTER = MeteredTraffic(
    id="c", label_id="l", router_id="r", project_id="p", packets=1, bytes=2, first_update=3, last_update=4
)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"label_id": ""}, "no id"),
        ({"id": "x" * 37}, "no id"),
        ({"packets": -1}, "number"),
        ({"bytes": 2**63}, "number"),
        ({"project_id": "p" * 256}, "printable"),
    ],
)
def test_metering_counters(changed: dict[str, Any], reason: str) -> None:
    assert refusal(Traffic(counters=(COUNTER,)), "h1", [role.L3], sources().statuses) == ""
    assert "l3" in refusal(Traffic(counters=(COUNTER,)), "h1", [role.L2], sources().statuses)
    assert "twice" in refusal(Traffic(counters=(COUNTER, COUNTER)), "h1", [role.L3], sources().statuses)
    wrong = msgspec.structs.replace(COUNTER, **changed)
    assert reason in refusal(Traffic(counters=(wrong,)), "h1", [role.L3], sources().statuses)


def test_a_compute_host_receives_no_routers_and_dhcp_networks() -> None:
    assert not any(KINDS[kind].is_for(LEAST) for kind in ("router", "dhcp_network", "dhcp_port"))
    assert all(KINDS[kind].is_for(LEAST) for kind in ("port", "network", "security_group", "host", "forwarding"))
    assert KINDS["dhcp_port"].is_for(["l3"])
    assert not KINDS["dhcp_network"].is_for(["l3"])


def test_roles_are_a_closed_list() -> None:
    assert parse_roles("metadata, l2") == ("l2", "metadata")
    for text in ("", ",", "l2,admin", "L2"):
        with pytest.raises(ValueError, match="l2, dhcp, l3, metadata"):
            parse_roles(text)


# --- the limits ---------------------------------------------------------------------------------------------------------


def test_an_address_with_failed_logins_is_blocked_for_a_while() -> None:
    now = [0.0]
    limits = LoginLimits(lambda: now[0])
    for _ in range(FAILURES):
        assert not limits.is_blocked("192.0.2.1")
        limits.failed("192.0.2.1")
    assert limits.is_blocked("192.0.2.1")
    assert not limits.is_blocked("192.0.2.2")
    assert not limits.is_blocked("")
    now[0] += FAILURE_SECONDS
    assert not limits.is_blocked("192.0.2.1")
    limits.failed("192.0.2.1")
    assert limits.is_blocked("192.0.2.1")


def test_connections_without_a_credential_are_bounded() -> None:
    limits = LoginLimits(lambda: 0.0, most=2, most_all=3)
    assert [limits.enter("a") for _ in range(3)] == [True, True, False]
    assert [limits.enter("b") for _ in range(2)] == [True, False]
    assert limits.enter("")  # a socket of this machine
    limits.leave("a")
    limits.leave("")
    assert limits.enter("b")


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        (("192.0.2.1", 5), "192.0.2.1"),
        (("2001:db8::1", 5, 0, 0), "2001:db8::/64"),
        (("::ffff:192.0.2.1", 5, 0, 0), "192.0.2.1"),
        (("fe80::1%eth0", 5, 0, 3), "fe80::/64"),
        ("", ""),
        (None, ""),
    ],
)
def test_source_addresses_that_limits_apply_to(peer: object, counted: str) -> None:
    assert source_address(peer) == counted


# --- our own agents ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("datapath", ["system", "netdev", "dummy"])
@pytest.mark.parametrize("mode", ["legacy", "dvr", "dvr_snat", "dvr_no_external"])
def test_reports_of_our_own_agents_are_accepted(datapath: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(
        f"[DEFAULT]\nhost = h1\nagent_mode = {mode}\nroles = {','.join(ROLES)}\ndhcp_distributed = true\n"
        "use_gateway_ips = true\navailability_zone = zone-1\n"
        f"[ovs]\ndatapath_type = {datapath}\nlocal_ip = 192.0.2.1\nbridge_mappings = physnet1:br-ex\n"
        "[agent]\ntunnel_types = vxlan,gre,geneve\n"
    )
    conf = configuration([str(path)])
    described = [each.describe(conf) for each in (l2_build, l3_build, dhcp_build, metadata_build, bgp_build)]
    described.append(sriov_build.describe(conf, sriov_options(conf)))
    assert {role.AGENT_TYPES[each.agent_type] for each in described} == set(ROLES)
    versions = {each.agent_type: each.resource_versions for each in described}
    assert {kind: bool(found) for kind, found in versions.items()} == {
        words.OVS: True, words.NIC_SWITCH: True,  # as Neutron's
        words.L3: False, words.DHCP: False, words.METADATA: False, words.BGP: False,
    }  # fmt: skip
    assert versions[words.OVS]["QosPolicy"] == "1.10"
    shown = {"problems": {"net work\n1": "x\ny"}, "dataplane": "down: x\ny", "last_repair": {"br-int": "3 flows"}}
    described = [replace(each, configurations={**each.configurations, **shown}) for each in described]
    assert refusal(report(*described, applied=0), "h1", ROLES, sources().statuses) == ""


def test_a_text_for_the_log_is_one_printable_line_of_bounded_length() -> None:
    assert one_line("no\n2026 INFO fake\r\x1b[2J\u202e ok") == "no 2026 INFO fake [2J ok"
    assert len(one_line("x" * MAX_TEXT)) == MAX_LOGGED
