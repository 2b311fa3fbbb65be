"""An agent that is started on a host, or with a database, that is not its own changes nothing; on a real Open vSwitch."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.model.agents import HELD
from tests.support.agent import UP, Agent, add_host, run_command, wait_for_status
from tests.support.neutrino import Caller, Neutrino, Settings, configuration
from tests.support.neutron_flows import BRIDGES, COOKIE, neutron_flows
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until

NOTHING = "this agent changes nothing on this host"
FEED = {"feed": {"run": True}}


def local_ip(number: int) -> dict[str, object]:
    """Of each host another: a second one with the same is refused."""
    return {"local_ip": f"192.0.2.{number}"}


class GuardedAgent(Agent):
    """Ready when it works, or has logged that it does not."""

    def start(self) -> None:
        for path in self.directory.glob("*.log"):
            path.unlink()
        command: list[str | Path] = [self.server.program, "agent", "--config-file", self.config]
        self.spawn(command, ready=lambda: UP in self.log or NOTHING in self.log)

    def configure(self, settings: Settings) -> None:
        for section, values in settings.items():
            self.settings[section] = {**self.settings.get(section, {}), **values}
        self.config.write_text(configuration(self.settings))

    def reload(self, settings: Settings) -> None:
        self.configure(settings)
        self.process.send_signal(signal.SIGHUP)

    @property
    def problems(self) -> dict[str, str]:
        """As the server has them."""
        caller = Caller(self.server.url)
        try:
            agents = caller("GET", f"/v2.0/agents?host={self.host}").json()["agents"]
        finally:
            caller.close()
        return {name: text for each in agents for name, text in each["configurations"].get("problems", {}).items()}

    def wait_held(self, cause: str) -> None:
        wait_until(lambda: f"{HELD}, {cause}" in self.problems, timeout=60, what=cause, failed=lambda: None)

    def wait_working(self) -> None:
        wait_until(lambda: UP in self.log and self.is_alive(), timeout=60, what="a working agent", failed=lambda: None)


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino(FEED) as running:
        yield running


@pytest.fixture
def api(server: Neutrino) -> Iterator[Caller]:
    caller = Caller(server.url)
    yield caller
    caller.close()


@pytest.fixture
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as running:
        make_bridges(running)
        yield running


def make_bridges(switch: OpenVSwitch) -> None:
    for bridge in BRIDGES:
        switch.vsctl("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=dummy", "fail_mode=secure")


def flows(switch: OpenVSwitch, bridge: str) -> set[str]:
    address = f"unix:{switch.directory}/{bridge}.mgmt"
    output = switch.call("ovs-ofctl", "-O", "OpenFlow14", "--no-stats", "dump-flows", address)
    return {line.strip() for line in output.splitlines() if "actions" in line}


def add_flows(switch: OpenVSwitch, bridge: str, *lines: str) -> None:
    address = f"unix:{switch.directory}/{bridge}.mgmt"
    for line in lines:
        switch.call("ovs-ofctl", "-O", "OpenFlow14", "add-flow", address, line)


def leave_neutron(switch: OpenVSwitch, ofport: int = 1) -> None:
    for bridge in BRIDGES:
        add_flows(switch, bridge, *(flow.text() for flow in neutron_flows(bridge, ofport)))


def plug(switch: OpenVSwitch, port_id: str, tag: int = 0) -> str:
    name = f"tap{port_id[:11]}"
    switch.vsctl(
        *("add-port", "br-int", name, *([f"tag={tag}"] if tag else [])),
        *("--", "set", "interface", name, "type=dummy", f"external_ids:iface-id={port_id}"),
    )
    return name


def everything(switch: OpenVSwitch) -> tuple[object, ...]:
    """All flows and the configuration of all bridges, ports and interfaces."""
    rows = ("list-br", "--columns=name,tag,external_ids,other_config,interfaces list port", "list bridge")
    tables = [switch.vsctl(*row.split()) for row in rows]
    return (*tables, *(flows(switch, bridge) for bridge in BRIDGES))


def network_with_ports(api: Caller, host: str, number: int) -> tuple[dict[str, Any], list[str]]:
    network = api.create("network", name=host)
    api.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", enable_dhcp=False)
    made = [api.create("port", network_id=network["id"], **{"binding:host_id": host})["id"] for _ in range(number)]
    return network, made


def test_a_host_with_neutrons_flows_is_left_as_it_is_until_the_option_takes_it_over(
    server: Neutrino, switch: OpenVSwitch, api: Caller
) -> None:
    network, _ = network_with_ports(api, "h-neutron", 0)
    port_id = api.create("port", network_id=network["id"])["id"]
    name = plug(switch, port_id, tag=1)
    leave_neutron(switch, int(switch.vsctl("get", "interface", name, "ofport")))
    before = everything(switch)
    roles = "l2,dhcp,l3,metadata"
    with GuardedAgent(server, switch, "h-neutron", {"DEFAULT": {"roles": roles}, "ovs": local_ip(1)}) as agent:
        agent.wait_held("foreign_flows")
        text = agent.problems[f"{HELD}, foreign_flows"]
        for part in ("br-int has 21", "br-tun has 10", "br-phys has 2", "[agent] start_despite = foreign_flows"):
            assert part in text
        assert everything(switch) == before
        shown = run_command(server, ["status", "--endpoint", server.url])
        assert "h-neutron" in shown.stdout
        assert "start_despite" in shown.stdout
        plan = agent.look("--dry-run").stdout
        assert "# l2: would change" in plan
        assert "start_despite = foreign_flows" in plan
        assert "br-int - " not in plan
        assert "changes nothing" in agent.look("verify", "--wait", "0").stderr
        assert everything(switch) == before

        agent.configure({"agent": {"start_despite": "foreign_flows"}})
        assert f"br-int - cookie={COOKIE:#x}" in agent.look("--dry-run").stdout
        assert everything(switch) == before
        agent.process.send_signal(signal.SIGHUP)
        agent.wait_working()
        assert "proceeding, as [agent] start_despite names foreign_flows: flows that are not" in agent.log
        api("PUT", f"/v2.0/ports/{port_id}", {"port": {"binding:host_id": "h-neutron"}})
        wait_for_status(api, port_id, "ACTIVE")
        for bridge in BRIDGES:
            assert not [line for line in flows(switch, bridge) if f"{COOKIE:#x}" in line], "a flow of Neutron is left"
        assert not [line for line in flows(switch, "br-int") if "tp_dst=22" in line]
        wait_until(lambda: agent.problems == {}, timeout=60, what="no problems", failed=lambda: None)

        agent.end()
        agent.start()
        agent.wait_working()
        assert "[agent] start_despite = foreign_flows is not needed" in agent.log
        agent.configure({"agent": {"start_despite": ""}})
        agent.end()
        agent.start()
        agent.wait_working()
        assert NOTHING not in agent.log, "an agent on its own host"
        assert agent.look("verify").returncode == 0


def test_an_agent_goes_on_by_itself_when_foreign_flows_are_gone(server: Neutrino, switch: OpenVSwitch) -> None:
    leave_neutron(switch)
    add_flows(switch, "br-phys", "cookie=0x77,priority=9,arp,actions=NORMAL", "priority=8,arp,actions=NORMAL")
    with GuardedAgent(server, switch, "h-gone", {"ovs": {"kept_cookies": "0x77", **local_ip(2)}}) as agent:
        agent.wait_held("foreign_flows")
        for bridge in BRIDGES:
            address = f"unix:{switch.directory}/{bridge}.mgmt"
            switch.call("ovs-ofctl", "-O", "OpenFlow14", "del-flows", address, f"cookie={COOKIE:#x}/-1")
        agent.wait_working()
        assert [line for line in flows(switch, "br-phys") if "cookie=0x77" in line], "listed in kept_cookies"
        assert [line for line in flows(switch, "br-phys") if "priority=8,arp" in line], (
            "the operator's, without a cookie"
        )


def convert(agent: GuardedAgent, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(agent.server, ["takeover", "host", *arguments, "--config-file", str(agent.config)])


def test_takeover_host_converts_it_and_gives_it_back(server: Neutrino, switch: OpenVSwitch, api: Caller) -> None:
    leave_neutron(switch)
    before = {bridge: flows(switch, bridge) for bridge in BRIDGES}
    with GuardedAgent(server, switch, "h-taken", {"ovs": local_ip(5)}) as agent:
        agent.wait_held("foreign_flows")
        shown = convert(agent, "--dry-run")
        assert shown.returncode == 0, shown.stderr
        assert f"br-int - cookie={COOKIE:#x}" in shown.stdout
        assert convert(agent, "--back").returncode == 1, "it was not converted"
        assert {bridge: flows(switch, bridge) for bridge in BRIDGES} == before

        done = convert(agent)
        assert done.returncode == 0, done.stderr
        assert "converted in" in done.stdout
        agent.wait_working()
        for bridge in BRIDGES:
            assert not [line for line in flows(switch, bridge) if f"{COOKIE:#x}" in line], "a flow of Neutron is left"
        assert "converted already" in convert(agent).stderr
        agent.end()
        agent.start()
        agent.wait_working()
        assert NOTHING not in agent.log

        back = convert(agent, "--back")
        assert back.returncode == 0, back.stderr
        assert "start Neutron's agents again" in back.stdout
        assert {bridge: flows(switch, bridge) for bridge in BRIDGES} == before
        agent.wait_held("foreign_flows")
        assert convert(agent).returncode == 0, "once more"


@pytest.mark.parametrize("phase", ["converting", "returning"])
def test_an_agent_that_was_killed_completes_what_it_has_begun(
    server: Neutrino, switch: OpenVSwitch, phase: str
) -> None:
    leave_neutron(switch)
    before = {bridge: flows(switch, bridge) for bridge in BRIDGES}
    with GuardedAgent(server, switch, f"h-{phase}", {"ovs": local_ip(6 if phase == "converting" else 7)}) as agent:
        agent.wait_held("foreign_flows")
        assert convert(agent).returncode == 0
        agent.end()
        (agent.directory / "state" / "takeover" / "phase").write_text(f"{phase}\n")
        agent.start()
        if phase == "returning":
            agent.wait_held("foreign_flows")
            assert {bridge: flows(switch, bridge) for bridge in BRIDGES} == before
        else:
            wait_until(lambda: "conversion: converted in" in agent.log, timeout=60, what="it", failed=lambda: None)


def test_the_server_of_another_database_changes_nothing(server: Neutrino, switch: OpenVSwitch, api: Caller) -> None:
    """An empty one: every port would be unwired."""
    with GuardedAgent(server, switch, "h-other", {"ovs": local_ip(3)}) as agent, Neutrino(FEED) as empty:
        agent.wait_working()
        _, ports = network_with_ports(api, "h-other", 3)
        names = [plug(switch, port_id) for port_id in ports]
        for port_id in ports:
            wait_for_status(api, port_id, "ACTIVE")
        assert agent.look("verify").returncode == 0
        before = everything(switch)
        agent.end()

        own = {key: agent.settings["feed"][key] for key in ("server", "credential_file")}
        credential = agent.write("other-credential", add_host(empty, "h-other"))
        there = {"server": f"unix:{empty.directory}/feed.sock", "credential_file": credential}
        agent.configure({"feed": there})
        agent.server = empty
        agent.start()
        agent.wait_held("other_database")
        assert "knows 0 of the 3 ports" in agent.problems[f"{HELD}, unknown_ports"]
        assert "start_despite = other_database" in agent.look("--dry-run").stdout
        assert everything(switch) == before

        agent.reload({"agent": {"start_despite": "other_database"}})
        wait_until(lambda: list(agent.problems) == [f"{HELD}, unknown_ports"], timeout=60, what="", failed=lambda: None)
        assert everything(switch) == before
        agent.end()

        agent.configure({"feed": own, "agent": {"start_despite": ""}})
        agent.server = server
        agent.start()
        agent.wait_working()
        assert NOTHING not in agent.log
        assert agent.look("verify").returncode == 0
        assert everything(switch) == before
        assert all(switch.vsctl("get", "port", name, "tag") == "1" for name in names)


def test_unknown_ports_are_left_until_the_server_knows_them(server: Neutrino, switch: OpenVSwitch, api: Caller) -> None:
    """As when an agent is started before the database has been imported; there are no flows after a reboot."""
    network, _ = network_with_ports(api, "h-unknown", 0)
    made = [api.create("port", network_id=network["id"])["id"] for _ in range(4)]  # bound to no host
    names = [plug(switch, port_id, tag=7) for port_id in made]
    before = everything(switch)
    with GuardedAgent(server, switch, "h-unknown", {"ovs": local_ip(4)}) as agent:
        agent.wait_held("unknown_ports")
        assert "knows 0 of the 4 ports" in agent.problems[f"{HELD}, unknown_ports"]
        assert everything(switch) == before
        for port_id in made[:3]:
            api("PUT", f"/v2.0/ports/{port_id}", {"port": {"binding:host_id": "h-unknown"}})
        for port_id in made[:3]:
            wait_for_status(api, port_id, "ACTIVE")
        wait_until(lambda: agent.problems == {}, timeout=60, what="no problems", failed=lambda: None)
        wait_until(
            lambda: switch.vsctl("get", "port", names[3], "tag") == "4095", timeout=60, what="one", failed=lambda: None
        )
