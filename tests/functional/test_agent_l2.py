"""The agent as a process, on a real server, a real feed and a real Open vSwitch: from a plugged device to ACTIVE."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.model.agents import RESOURCE_VERSIONS
from tests.support.agent import Agent, run_command, wait_for_status
from tests.support.neutrino import Caller, Neutrino
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({"feed": {"run": True}}) as running:
        yield running


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as running:
        running.vsctl("add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=dummy")
        yield running


@pytest.fixture(scope="module")
def agent(server: Neutrino, switch: OpenVSwitch) -> Iterator[Agent]:
    with Agent(server, switch, "h1") as running:
        yield running


@pytest.fixture
def api(server: Neutrino, agent: Agent) -> Iterator[Caller]:
    caller = Caller(server.url)
    yield caller
    caller.close()


@pytest.fixture
def network(api: Caller) -> Iterator[dict[str, Any]]:
    made = api.create("network", name="blue")
    api.create("subnet", network_id=made["id"], ip_version=4, cidr="10.0.0.0/24")
    yield made
    for port in api("GET", f"/v2.0/ports?network_id={made['id']}").json()["ports"]:
        api("DELETE", f"/v2.0/ports/{port['id']}")
    assert api("DELETE", f"/v2.0/networks/{made['id']}").status_code == 204


def plug(switch: OpenVSwitch, port_id: str) -> str:
    name = f"tap{port_id[:11]}"
    switch.vsctl(
        *("add-port", "br-int", name, "--", "set", "interface", name, "type=dummy", f"external_ids:iface-id={port_id}")
    )
    return name


def unplug(switch: OpenVSwitch, port_id: str) -> None:
    switch.vsctl("del-port", "br-int", f"tap{port_id[:11]}")


def bound(api: Caller, network: dict[str, Any]) -> str:
    port_id: str = api.create("port", network_id=network["id"], **{"binding:host_id": "h1"})["id"]
    return port_id


def flows(switch: OpenVSwitch, bridge: str = "br-int") -> set[str]:
    output = switch.call(
        *("ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", f"unix:{switch.directory}/{bridge}.mgmt")
    )
    return {line.strip() for line in output.splitlines() if "actions" in line}


def settled(agent: Agent, switch: OpenVSwitch) -> set[str]:
    """The flows once earlier changes are applied."""
    assert agent.look("verify").returncode == 0
    return flows(switch)


def test_a_plugged_port_becomes_active_and_an_unplugged_one_down(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch, agent: Agent
) -> None:
    port_id = bound(api, network)
    name = plug(switch, port_id)
    wait_for_status(api, port_id, "ACTIVE")
    assert switch.vsctl("get", "port", name, "tag") == "1"
    unplug(switch, port_id)
    wait_for_status(api, port_id, "DOWN")
    rounds = [line for line in agent.log.splitlines() if "ports wired" in line]
    assert any("1 ports wired (1 added, 0 updated, 0 removed)" in line for line in rounds)
    assert any("0 ports wired (0 added, 0 updated, 1 removed)" in line for line in rounds)


def test_a_device_may_be_there_before_its_port_is_bound(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch
) -> None:
    port_id = api.create("port", network_id=network["id"])["id"]
    name = plug(switch, port_id)
    wait_until(lambda: switch.vsctl("get", "port", name, "tag") == "4095", timeout=60, what="dead", failed=lambda: None)
    api("PUT", f"/v2.0/ports/{port_id}", {"port": {"binding:host_id": "h1"}})
    wait_for_status(api, port_id, "ACTIVE")
    unplug(switch, port_id)


def test_admin_state_down_stops_a_port_and_up_wires_it_again(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch
) -> None:
    port_id = bound(api, network)
    name = plug(switch, port_id)
    wait_for_status(api, port_id, "ACTIVE")
    api("PUT", f"/v2.0/ports/{port_id}", {"port": {"admin_state_up": False}})
    wait_for_status(api, port_id, "DOWN")
    wait_until(lambda: switch.vsctl("get", "port", name, "tag") == "4095", timeout=60, what="dead", failed=lambda: None)
    api("PUT", f"/v2.0/ports/{port_id}", {"port": {"admin_state_up": True}})
    wait_for_status(api, port_id, "ACTIVE")
    unplug(switch, port_id)


def test_verify_sees_no_drift_and_sees_a_flow_that_was_deleted(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch, agent: Agent
) -> None:
    port_id = bound(api, network)
    plug(switch, port_id)
    wait_for_status(api, port_id, "ACTIVE")
    good = agent.look("verify")
    assert (good.returncode, good.stdout) == (0, "verify: no differences\n"), good.stderr
    assert "nothing to change" in agent.look("--dry-run").stdout
    agent.end()
    switch.call("ovs-ofctl", "-O", "OpenFlow14", "del-flows", f"unix:{switch.directory}/br-int.mgmt", "table=25")
    bad = agent.look("verify", "--wait", "0")
    assert bad.returncode == 1
    assert "br-int + " in bad.stdout
    agent.start()
    assert agent.look("verify").returncode == 0
    unplug(switch, port_id)


def test_flows_deleted_by_hand_are_restored_and_reported(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch, agent: Agent
) -> None:
    before = settled(agent, switch)
    switch.call("ovs-ofctl", "-O", "OpenFlow14", "del-flows", f"unix:{switch.directory}/br-int.mgmt", "table=60")
    wait_until(lambda: flows(switch) == before, timeout=60, what="the flows", failed=lambda: None)

    def reported() -> bool:
        (seen,) = api("GET", "/v2.0/agents?host=h1").json()["agents"]
        return "br-int" in seen["configurations"].get("last_repair", {})

    wait_until(reported, timeout=60, what="a report of it", failed=lambda: None)


def test_changes_during_downtime_are_applied_at_the_next_start(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch, agent: Agent
) -> None:
    staying, going, gone = (bound(api, network) for _ in range(3))
    for port_id in (staying, going, gone):
        plug(switch, port_id)
        wait_for_status(api, port_id, "ACTIVE")
    agent.end(signal.SIGKILL)
    unplug(switch, gone)
    api("DELETE", f"/v2.0/ports/{going}")
    coming = bound(api, network)
    plug(switch, coming)
    agent.start()
    wait_for_status(api, coming, "ACTIVE")
    wait_for_status(api, gone, "DOWN")
    wait_for_status(api, staying, "ACTIVE")
    tag = switch.vsctl("get", "port", f"tap{going[:11]}", "tag")
    assert tag == "4095"
    for port_id in (staying, going, coming):
        unplug(switch, port_id)


def test_a_restarted_switch_is_wired_again(
    api: Caller, network: dict[str, Any], switch: OpenVSwitch, agent: Agent
) -> None:
    port_id = bound(api, network)
    plug(switch, port_id)
    wait_for_status(api, port_id, "ACTIVE")
    before = settled(agent, switch)
    switch.stop_switch()
    switch.start_switch()

    def wired_again() -> bool:
        with contextlib.suppress(RuntimeError):  # the bridge is not there yet
            return flows(switch) == before
        return False

    wait_until(wired_again, timeout=60, what="the flows", failed=lambda: None)
    unplug(switch, port_id)


def test_a_remote_ipv6_port_affects_no_other_on_a_datapath_without_nd_replies(
    api: Caller, network: dict[str, Any], server: Neutrino, switch: OpenVSwitch, agent: Agent
) -> None:
    """Also where the agent has not read the datapath's features: then the flow is rejected, and the rest applied."""

    def problems() -> dict[str, str]:
        (seen,) = api("GET", "/v2.0/agents?host=h1").json()["agents"]
        found: dict[str, str] = seen["configurations"]["problems"]
        return found

    api.create("subnet", network_id=network["id"], ip_version=6, cidr="fd00:10::/64", enable_dhcp=False)
    here = bound(api, network)
    plug(switch, here)
    wait_for_status(api, here, "ACTIVE")
    with OpenVSwitch() as other:
        other.vsctl("add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=dummy")
        switch.appctl("dpif/set-dp-features", "br-int", "nd_ext", "false")
        with Agent(server, other, "h2", {"ovs": {"local_ip": "192.0.2.2"}}):
            there = api.create("port", network_id=network["id"], **{"binding:host_id": "h2"})["id"]
            plug(other, there)
            wait_for_status(api, there, "ACTIVE")
            wait_until(lambda: "rejected" in agent.log, timeout=60, what="a rejected flow", failed=lambda: None)
            later = bound(api, network)
            plug(switch, later)
            wait_for_status(api, later, "ACTIVE")
            answering = [line for line in flows(switch, "br-tun") if "table=21" in line and "arp_tpa" in line]
            assert len(answering) == 1
            wait_until(lambda: problems() == {}, timeout=60, what="the problem to be over", failed=lambda: None)
            assert agent.look("verify").returncode == 0
            api("DELETE", f"/v2.0/ports/{there}")
    switch.appctl("dpif/set-dp-features", "br-int", "nd_ext", "true")
    agent.end()
    agent.start()
    for port_id in (here, later):
        unplug(switch, port_id)


def test_the_bridge_of_a_physical_network_is_secure_and_stays_so(switch: OpenVSwitch, agent: Agent) -> None:
    def is_well() -> bool:
        return switch.vsctl("get", "bridge", "br-phys", "fail_mode") == "secure" and flows(switch, "br-phys") == before

    before = flows(switch, "br-phys")
    assert before
    wait_until(is_well, timeout=60, what="fail mode secure", failed=lambda: None)
    switch.vsctl("del-fail-mode", "br-phys")  # the switch deletes all flows with it
    wait_until(is_well, timeout=60, what="fail mode secure again", failed=lambda: None)
    assert agent.look("verify").returncode == 0


def test_flows_of_others_on_a_physical_bridge_are_not_lost_to_its_fail_mode(server: Neutrino) -> None:
    with OpenVSwitch() as other:
        other.vsctl("add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=dummy")
        address = f"unix:{other.directory}/br-phys.mgmt"
        other.call("ovs-ofctl", "-O", "OpenFlow14", "add-flow", address, "cookie=0x77,priority=9,actions=NORMAL")
        with Agent(server, other, "h-fail-mode", {"ovs": {"kept_cookies": "0x77"}}) as agent:
            assert agent.look("verify").returncode == 0
            assert other.vsctl("get", "bridge", "br-phys", "fail_mode") == "[]"
            assert any("cookie=0x77" in line for line in flows(other, "br-phys"))
            assert "bridge br-phys is not in fail mode secure and has flows" in agent.log
            other.stop_switch()
            other.start_switch()  # without any flows

            def is_secure() -> bool:
                return other.vsctl("get", "bridge", "br-phys", "fail_mode") == "secure"

            wait_until(is_secure, timeout=60, what="fail mode secure after a restart", failed=lambda: None)
            wait_until(lambda: agent.look("verify").returncode == 0, timeout=30, what="flows", failed=lambda: None)


def test_the_api_shows_the_versions_of_resources_that_the_agent_applies(api: Caller, agent: Agent) -> None:
    (shown,) = api("GET", "/v2.0/agents?host=h1").json()["agents"]
    assert shown["resource_versions"] == RESOURCE_VERSIONS
    assert api("GET", f"/v2.0/agents/{shown['id']}").json()["agent"]["resource_versions"] == RESOURCE_VERSIONS


def test_a_restarted_agent_reports_its_position_at_once(api: Caller, agent: Agent) -> None:
    """Its first report has an old position; without a second one at once, the next would follow after half a minute."""
    (before,) = api("GET", "/v2.0/agents?host=h1").json()["agents"]
    agent.end()
    agent.start()

    def is_up_to_date() -> bool:
        (now,) = api("GET", "/v2.0/agents?host=h1").json()["agents"]
        return now["started_at"] > before["started_at"] and now["configurations"].get("feed_behind") == 0

    wait_until(is_up_to_date, timeout=60, what="a report", failed=lambda: None)


def test_sigterm_ends_the_agent_and_leaves_the_flows(switch: OpenVSwitch, agent: Agent) -> None:
    before = settled(agent, switch)
    assert before
    assert agent.end() == 0
    assert flows(switch) == before
    agent.start()


def test_a_rotated_credential_needs_no_restart(server: Neutrino, switch: OpenVSwitch, agent: Agent) -> None:
    """It is read at the next attempt, which is made at once after SIGHUP."""
    agent.end()
    text = agent.config.read_text()
    agent.config.write_text(text.replace("longest_delay = 0.2", "longest_delay = 3600"))
    agent.start()

    def rotate() -> str:
        done = run_command(server, ["host", "rotate", "h1", "--config-file", str(server.config)])
        assert done.returncode == 0, done.stderr
        return done.stdout

    def connections() -> int:
        return agent.log.count("neutrino.feed.client [-] connected to ")

    before = connections()
    new = rotate()
    text_of_refusal = f"(this is not the host's credential) with [feed] credential_file={agent.directory}/credential"
    wait_until(lambda: text_of_refusal in agent.log, timeout=60, what="the refusal", failed=lambda: None)
    (agent.directory / "credential").write_text(new)
    agent.process.send_signal(signal.SIGHUP)
    wait_until(lambda: connections() > before, timeout=60, what="a connection", failed=lambda: None)
    agent.end()
    agent.config.write_text(text)
    agent.start()


def test_sighup_names_what_needs_a_restart(agent: Agent) -> None:
    text = agent.config.read_text()
    agent.config.write_text(text.replace("check_interval = 1", "check_interval = 2\nvxlan_udp_port = 4790"))
    agent.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "configuration reloaded" in agent.log, timeout=60, what="reload", failed=lambda: None)
    assert "need a restart of the agent: [agent] vxlan_udp_port" in agent.log
    agent.config.write_text(text)


def test_option_values_are_logged_at_debug_with_secrets_masked(agent: Agent) -> None:
    """At SIGHUP, and at the start; without debug they are not."""

    def has_values() -> bool:
        return "agent.check_interval" in agent.log and "metadata_proxy_shared_secret" in agent.log

    text = agent.config.read_text()
    assert not has_values()
    own = "[DEFAULT]\ndebug = true\nmetadata_proxy_shared_secret = of-the-test"
    agent.config.write_text(text.replace("[DEFAULT]", own, 1))
    agent.process.send_signal(signal.SIGHUP)
    wait_until(has_values, timeout=60, what="option values", failed=lambda: None)
    assert "of-the-test" not in agent.log
    agent.end()
    agent.start()
    assert has_values()
    assert "of-the-test" not in agent.log
    agent.config.write_text(text)
    agent.end()
    agent.start()


def test_a_second_agent_on_the_same_state_is_refused(agent: Agent) -> None:
    done = agent.look()
    assert done.returncode == 2
    assert "another agent runs" in done.stderr


@pytest.mark.parametrize(
    ("section", "options", "message"),
    [
        ("ovs", {"local_ip": ""}, "[ovs] local_ip is not set"),
        ("ovs", {"local_ip": "fd00::1"}, "of IP version 6"),
        ("ovs", {"local_ip": "here"}, "is not an IP address"),
        ("ovs", {"bridge_mappings": "physnet1"}, "is not physical_network:bridge"),
        ("ovs", {"bridge_mappings": "physnet1:br-int"}, "the agent's own bridge"),
        ("agent", {"l2_population": False, "enable_distributed_routing": True}, "needs l2_population"),
        ("agent", {"extensions": "nonesuch"}, "extension 'nonesuch' is not installed"),
        ("feed", {"server": "ws://192.0.2.9:9697"}, "without TLS"),
        ("feed", {"credential_file": "/nonexistent"}, "credential_file=/nonexistent"),
        ("securitygroup", {"permitted_ethertypes": "0x5"}, "is not an ethertype"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_by_name(
    server: Neutrino, switch: OpenVSwitch, section: str, options: dict[str, Any], message: str, request: Any
) -> None:
    agent = Agent(server, switch, f"bad-{abs(hash(request.node.name))}", {section: options})
    try:
        done = agent.look()
        assert done.returncode == 2
        assert message in done.stderr
    finally:
        agent.stop()
