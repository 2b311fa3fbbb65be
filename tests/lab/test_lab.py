"""The `neutrino lab` command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from neutrino.cli.lab import read_status
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.ovs import SWITCH
from tests.support.lab import (
    Pinging,
    address,
    connects,
    listening,
    network,
    open_group,
    pings,
    traces,
    wait_until,
)
from tests.support.lab_cleanup import clean
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.launcher import PROGRAM
from tests.support.ports import free_port

SECONDS = 60
LAB = LabKind(hosts=3, roles=("l2",))


@pytest.fixture
def lab(lab: Lab) -> Iterator[Lab]:
    """The lab of this module; each test finds it clean."""
    yield lab
    clean(lab)


class Command:
    """`neutrino lab` for one lab."""

    def __init__(self, state: Path, port: int) -> None:
        self.state = state
        self.port = port

    def argv(self, *arguments: str) -> list[str]:
        return [str(PROGRAM), "lab", "--state", str(self.state), *arguments]

    def __call__(self, *arguments: str, text: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments), input=text, capture_output=True, text=True, timeout=SECONDS, check=False, **options
        )

    def up(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self("up", "--port", str(self.port), *arguments, **options)

    def refused(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.returncode in (1, 2), done.stdout
        assert done.stderr.startswith("neutrino: ")
        assert "Traceback" not in done.stderr
        return done.stderr.removeprefix("neutrino: ").strip()


@contextlib.contextmanager
def place(directory: Path) -> Iterator[Command]:
    command = Command(directory / "lab", free_port())
    try:
        yield command
    finally:
        command("down")
        assert traces(command.state) == []


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Command]:
    """A lab of two hosts, created by the command, for tests that only use one."""
    with place(tmp_path_factory.mktemp("used")) as command:
        done = command.up("--hosts", "2")
        assert done.returncode == 0, done.stderr
        network(Lab.open(command.state), "blue")
        yield command


@pytest.fixture
def vms(command: Command) -> Iterator[Command]:
    """The same; the VMs of a test are deleted afterwards."""
    yield command
    for vm in Lab.open(command.state).vms.all():
        command("vm", "--delete", vm.name)


# --- up and down ------------------------------------------------------------------------------------------------------


def test_three_hosts_are_created_and_removed_completely(tmp_path: Path) -> None:
    with place(tmp_path) as command:
        done = command.up()
        assert done.returncode == 0, done.stderr
        for progress in ("h1, h2, h3 and the networks", "h3: Open vSwitch", f"127.0.0.1:{command.port}", "h3: agent"):
            assert progress in done.stdout
        assert "OS_CLIENT_CONFIG_FILE=" in done.stdout
        lab = Lab.open(command.state)
        network(lab, "blue")
        assert command("vm", "vm1", "--network", "blue").returncode == 0
        tap = lab.vms.get("vm1").tap
        assert _seen_outside(tap) == set(), "devices are in the lab's namespaces only"
        members = processes.read_members(command.state)
        assert len(members) > 14

        done = command("down")
        assert done.returncode == 0, done.stderr
        assert traces(command.state) == []
        assert not any(map(processes.is_alive, members))
        assert _seen_outside(tap) == set()

        again = command("down")
        assert again.returncode == 0
        assert "there is no lab" in again.stdout


def _seen_outside(tap: str) -> set[str]:
    """The lab's devices and named namespaces that are visible outside it."""
    seen = {*os.listdir("/sys/class/net"), *(os.listdir("/run/netns") if os.path.isdir("/run/netns") else ())}
    return seen & {tap, "h1-underlay", "underlay", "br-underlay", "br-ex", "br-provider", "vm-vm1"}


def test_a_failed_up_removes_what_it_created(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    broken = programs / "ovs-vswitchd"
    broken.write_text("#!/bin/sh\necho no switch today >&2\nexit 3\n")
    broken.chmod(0o755)
    with place(tmp_path) as command:
        done = command.up("--hosts", "1", env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        assert done.returncode == 1
        assert "h1" in done.stderr
        assert "no switch today" in done.stderr
        assert traces(command.state) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_down_removes_everything_of_an_up_that_was_killed(tmp_path: Path, number: signal.Signals) -> None:
    with place(tmp_path) as command:
        argv = command.argv("up", "--port", str(command.port), "--hosts", "1")
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert "networks" in process.stdout.readline()
        process.send_signal(number)
        process.communicate(timeout=SECONDS)
        assert process.returncode != 0
        if number == signal.SIGKILL:
            assert processes.read_members(command.state)
            assert command("down").returncode == 0
        assert traces(command.state) == []


def test_down_removes_a_lab_with_killed_processes_and_no_directory(tmp_path: Path) -> None:
    with place(tmp_path) as command:
        assert command.up("--hosts", "1").returncode == 0
        lab = Lab.open(command.state)
        server, holder = lab.processes.pid("server"), lab.holder("h1")
        assert server
        os.kill(server, signal.SIGKILL)
        os.kill(holder, signal.SIGKILL)
        processes.wait_for_end(holder, 10)
        status = command("status")
        assert status.returncode == 1
        assert "does not respond" in status.stdout
        assert "h1 is not running" in command.refused("exec", "h1", "--", "true")
        shutil.rmtree(command.state)
        (command.state / "h1").mkdir(
            parents=True, exist_ok=True
        )  # as a process of the lab does that writes at this moment
        assert "removed the lab" in command("down").stdout
        assert traces(command.state) == []


def test_a_second_up_is_refused(command: Command) -> None:
    other = Command(command.state, free_port())
    assert "a lab exists in" in other.refused("up", "--port", str(other.port))
    assert command("status").returncode == 0


def test_a_port_in_use_and_a_directory_in_use_are_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = Command(tmp_path / "lab", port).refused("up", "--port", str(port))
    assert f"127.0.0.1 port {port}" in refused
    assert not (tmp_path / "lab").exists()
    (tmp_path / "file").touch()
    command = Command(tmp_path, free_port())
    assert "is not empty" in command.refused("up", "--port", str(command.port))
    assert "is not the directory of a lab" in command.refused("down")
    assert (tmp_path / "file").exists()


def test_two_labs_are_isolated(command: Command, tmp_path: Path) -> None:
    with place(tmp_path) as other:
        assert other.up("--hosts", "1", "--underlay-ip-version", "6", "--mtu", "1600").returncode == 0
        mine, theirs = Lab.open(command.state), Lab.open(other.state)
        assert not processes.read_members(command.state) & processes.read_members(other.state)
        assert theirs.api.list("network") == []
        assert theirs.agents()["h1"]["configurations"]["tunneling_ip"] == "fd00:255::1"
        assert mine.agents()["h1"]["configurations"]["tunneling_ip"] == "10.255.0.1"
        assert network(theirs, "green")["mtu"] > network(mine, "green")["mtu"]
    assert command("status").returncode == 0


# --- status and exec --------------------------------------------------------------------------------------------------


def test_status_shows_hosts_vms_and_next_steps(vms: Command) -> None:
    assert vms("vm", "vm1", "--network", "blue", "--host", "h2").returncode == 0
    lab = Lab.open(vms.state)
    done = vms("status")
    assert done.returncode == 0
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert f"http://127.0.0.1:{vms.port} responds" in lines["API"]
    assert f" alive  {lab.agent_pid('h1')} " in lines["h1"]
    assert str(lab.ovs("h1").pid(SWITCH)) in lines["h1"]
    for word in ("h2", lab.vms.get("vm1").port_id, address(lab, "vm1"), "ACTIVE"):
        assert word in lines["vm1"]
    assert f"OS_CLIENT_CONFIG_FILE={lab.paths.clouds}" in done.stdout

    lab.stop_agent("h1", kill=True)
    done = vms("status")
    assert (done.returncode, "none" in done.stdout) == (1, True)
    lab.start_agent("h1")


def test_exec_passes_input_output_and_the_exit_status(command: Command, tmp_path: Path) -> None:
    done = command("exec", "h1", "--", "sh", "-c", "cat; echo wrong >&2; exit 7", text="some words")
    assert (done.returncode, done.stdout, done.stderr) == (7, "some words", "wrong\n")
    assert command("exec", "h1", "--", "no-such-program").returncode == 127
    assert command("exec", "h1", "--", "pwd", cwd=tmp_path).stdout == f"{tmp_path}\n"
    assert "no command" in command.refused("exec", "h1")
    assert "there is no vm9: this lab has h1, h2, external" in command.refused("exec", "vm9", "--", "true")
    assert "there is no ../lab" in command.refused("exec", "../lab", "--", "true")


def test_a_host_has_its_own_switch_namespaces_and_underlay(command: Command) -> None:
    def on(host: str, *argv: str) -> str:
        done = command("exec", host, "--", *argv)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert on("h1", "ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:hostname") == "h1\n"
    assert on("h2", "ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:hostname") == "h2\n"
    assert "cookie" in on("h1", "ovs-ofctl", "dump-flows", "br-int")
    # The manager that the agent sets, where Nova's os-vif connects.
    assert "br-int" in on("h1", "ovs-vsctl", "--db=tcp:127.0.0.1:6640", "list-br")
    assert {"br-int", "br-ex", "br-provider"} < set(on("h1", "ovs-vsctl", "list-br").split())
    assert all(line.startswith(("qdhcp-", "qrouter-")) for line in on("h1", "ip", "netns").splitlines())
    assert " 0% packet loss" in on("h1", "ping", "-c", "2", "-i", "0.2", "10.255.0.2")
    assert " 0% packet loss" in on("h1", "ping", "-c", "2", "-i", "0.2", "fd00:255::2")
    assert "203.0.113.1/24" in on("external", "ip", "-4", "address", "show", "dev", "eth0")


def test_down_from_inside_is_refused(command: Command) -> None:
    done = command("exec", "h1", "--", *command.argv("down"))
    assert done.returncode == 1
    assert "inside the lab" in done.stderr
    assert command("status").returncode == 0


# --- VMs --------------------------------------------------------------------------------------------------------------


def test_vms_on_two_hosts_reach_each_other_and_are_deleted_completely(vms: Command) -> None:
    lab = Lab.open(vms.state)
    open_group(lab)
    for name in ("vm1", "vm2"):  # by default on the host with the fewest
        done = vms("vm", name, "--network", "blue", "--security-group", "open")
        assert done.returncode == 0, done.stderr
        assert address(lab, name) in done.stdout
    first, second = lab.vms.get("vm1"), lab.vms.get("vm2")
    assert {first.host, second.host} == {"h1", "h2"}
    found = lab.api.show("port", first.port_id)
    assert (found["name"], found["device_owner"], found["status"]) == ("vm1", "compute:lab", "ACTIVE")
    assert found["binding:host_id"] == first.host
    for version in (4, 6):
        assert pings(lab, "vm1", address(lab, "vm2", version))
    device = lab.run("vm1", ["ip", "link", "show", "dev", "eth0"]).stdout
    assert found["mac_address"] in device
    assert "mtu 1450" in device
    assert _external_ids(lab, first.host, first.tap) == {
        "iface-id": first.port_id,
        "iface-status": "active",
        "attached-mac": found["mac_address"],
        "vm-uuid": found["device_id"],
    }

    sleeping = lab.popen("vm1", ["sleep", "infinity"])
    assert vms("vm", "--delete", "vm1").returncode == 0
    assert sleeping.wait(timeout=10) == -signal.SIGKILL
    sleeping.communicate()
    assert lab.api.list("port", name="vm1") == []
    assert "vm-vm1" not in lab.run(first.host, ["ip", "netns"]).stdout
    assert first.tap not in lab.run(first.host, ["ip", "link"]).stdout
    assert first.tap not in lab.run(first.host, ["ovs-vsctl", "list-ports", "br-int"]).stdout
    assert "there is no VM vm1" in vms.refused("vm", "--delete", "vm1")


def _external_ids(lab: Lab, host: str, device: str) -> dict[str, str]:
    text = lab.run(host, ["ovs-vsctl", "get", "Interface", device, "external_ids"]).stdout
    pairs = (pair.partition("=") for pair in text.strip("{}\n").split(", "))
    return {name: value.strip('"') for name, _, value in pairs}


def test_an_existing_port_stays_and_is_unbound(vms: Command) -> None:
    lab = Lab.open(vms.state)
    made = lab.api.create("port", network_id=lab.api.find("network", "blue")["id"], name="kept")
    assert vms("vm", "vm1", "--port", "kept", "--host", "h1", "--no-dhcp").returncode == 0
    assert "in use by compute:lab" in vms.refused("vm", "vm2", "--port", made["id"])
    assert vms("vm", "--delete", "vm1").returncode == 0
    kept = lab.api.show("port", made["id"])
    assert (kept["device_id"], kept["device_owner"], kept["binding:host_id"]) == ("", "", "")
    lab.api.delete("port", made["id"])


def test_a_hybrid_port_has_a_bridge_of_its_own(vms: Command) -> None:
    lab = Lab.open(vms.state)
    assert vms("vm", "vm1", "--network", "blue", "--host", "h1", "--hybrid").returncode == 0
    vm = lab.vms.get("vm1")
    assert vm.switch_device.startswith("qvo")
    assert _external_ids(lab, "h1", vm.switch_device)["iface-id"] == vm.port_id
    assert {vm.tap, vm.bridge_device} == set(_bridged(lab, "h1", vm.bridge))
    assert vms("vm", "--delete", "vm1").returncode == 0
    assert vm.port_id[:11] not in lab.run("h1", ["ip", "link"]).stdout


def _bridged(lab: Lab, host: str, bridge: str) -> Sequence[str]:
    lines = lab.run(host, ["ip", "-brief", "link", "show", "master", bridge]).stdout.splitlines()
    return [line.split("@")[0].split()[0] for line in lines]


def test_the_words_of_vm(vms: Command) -> None:
    assert vms("vm", "create", "vm1", "--network", "blue", "--address", "10.0.0.77").stdout.startswith("vm1 on ")
    assert "10.0.0.77" in vms("vm", "list").stdout
    found = json.loads(vms("status", "--json").stdout)
    (vm,) = (vm for vm in found["vms"] if vm["name"] == "vm1")
    assert (vm["addresses"], vm["status"], found["healthy"]) == (["10.0.0.77"], "ACTIVE", True)
    assert vms("vm", "exec", "vm1", "--", "ip", "-brief", "address").stdout.count("10.0.0.77") == 1
    assert vms("vm", "delete", "vm1").stdout == "vm1 is deleted\n"
    assert vms("vm", "list").stdout == ""


def test_faults_on_purpose(vms: Command) -> None:
    """Each is caused by a command, and mended by one; what was broken is seen by another program."""
    lab = Lab.open(vms.state)

    def host(name: str) -> dict[str, Any]:
        (found,) = (host for host in json.loads(vms("status", "--json").stdout)["hosts"] if host["name"] == name)
        return found

    agent = host("h2")["agent"]
    assert vms("agent", "stop", "h2").stdout == "the agent of h2 has ended\n"
    assert (host("h2")["agent"], vms("status", "--json").returncode) == (None, 1)
    assert vms("agent", "stop", "h2").stdout == "the agent of h2 did not run\n"
    assert "is alive after" in vms("agent", "start", "h2").stdout
    assert vms("agent", "start", "h2").stdout == "the agent of h2 runs already\n"
    assert "is alive after" in vms("agent", "restart", "h2", "--kill").stdout
    assert host("h2")["agent"] not in (None, agent)

    assert "is cut" in vms("link", "h1", "down").stdout
    assert "NO-CARRIER" in vms("exec", "h1", "--", "ip", "link", "show", "underlay").stdout
    assert "NO-CARRIER" not in vms("exec", "h1", "--", "ip", "link", "show", "provider").stdout
    assert "is restored" in vms("link", "h1", "up").stdout
    assert "NO-CARRIER" not in vms("exec", "h1", "--", "ip", "link", "show", "underlay").stdout
    assert "there is no host h9" in vms.refused("link", "h9", "down")

    assert vms("server", "stop").stdout == "the server has ended\n"
    assert not lab.api.responds()
    assert vms("server", "stop").stdout == "the server did not run\n"
    assert "responds after" in vms("server", "start").stdout
    assert lab.api.responds()

    assert re.match(r"h2 is dead: [1-9]\d* processes are killed", vms("host", "kill", "h2").stdout)
    dead = host("h2")
    assert (dead["agent"], dead["ovs_vswitchd"], dead["ovsdb_server"]) == (None, None, None)
    assert "NO-CARRIER" in vms("exec", "h2", "--", "ip", "link", "show", "underlay").stdout
    assert "its agent is alive after" in vms("host", "start", "h2").stdout
    assert None not in host("h2").values()
    assert vms("status").returncode == 0


def test_invalid_arguments_are_rejected(vms: Command) -> None:
    assert vms.refused("vm", "vm1", "--network", "red") == "there is no network red"
    assert vms.refused("vm", "vm1", "--network", "blue", "--host", "h9") == ("there is no host h9: this lab has h1, h2")
    assert "either --network or --port" in vms.refused("vm", "vm1")
    assert "there is no security group nobody" in vms.refused(
        "vm", "vm1", "--network", "blue", "--security-group", "nobody"
    )
    assert "invalid VM name" in vms.refused("vm", "a/b", "--network", "blue")
    assert vms("vm", "vm1", "--network", "blue").returncode == 0
    assert "VM vm1 exists already" in vms.refused("vm", "vm1", "--network", "blue")
    lab = Lab.open(vms.state)
    assert len(lab.api.list("port", name="vm1")) == 1


def test_a_failed_binding_is_reported_and_nothing_is_left(vms: Command) -> None:
    lab = Lab.open(vms.state)
    made = network(lab, "far", **{"provider:network_type": "flat", "provider:physical_network": "elsewhere"})
    assert "cannot be bound to h1" in vms.refused("vm", "vm1", "--network", "far", "--host", "h1")
    assert {each["device_owner"] for each in lab.api.list("port", network_id=made["id"])} <= {"network:dhcp"}
    assert lab.vms.all() == []
    lab.api.delete("network", made["id"])


# --- the lab of the tests ----------------------------------------------------------------------------------------------


def _two_vms(lab: Lab) -> str:
    """vm1 on h1 and vm2 on h2; the address of vm2."""
    network(lab, "blue")
    open_group(lab)
    for number in (1, 2):
        lab.vm(f"vm{number}", network="blue", host=f"h{number}", security_groups=["open"])
    return address(lab, "vm2")


def test_agent_switch_and_server_can_be_stopped_and_started(lab: Lab) -> None:
    target = _two_vms(lab)

    before = lab.agent_pid("h1")
    lab.stop_agent("h1")
    assert lab.agent_pid("h1") is None
    lab.start_agent("h1")
    assert lab.agent_pid("h1") not in (None, before)

    for kill, database in ((True, True), (False, False)):
        lab.stop_ovs("h1", kill=kill, database=database)
        assert lab.ovs("h1").pid(SWITCH) is None
        lab.start_ovs("h1")
        wait_until(lambda: pings(lab, "vm1", target, seconds=1), 60, "vm1 does not reach vm2 again")

    lab.stop_server(kill=True)
    assert not lab.api.responds()
    lab.start_server()
    assert lab.api.responds()


def test_a_capture_sees_the_tunnel_and_a_vm_moves(lab: Lab) -> None:
    target = _two_vms(lab)
    with lab.capture("h2", "udp port 4789") as seen:
        assert pings(lab, "vm1", target)
        seen.wait_for(f"{target}: ICMP echo request")
    lab.move_vm("vm2", "h1")
    assert lab.api.show("port", lab.vms.get("vm2").port_id)["binding:host_id"] == "h1"
    wait_until(lambda: pings(lab, "vm1", target, seconds=1), 60, "vm1 does not reach vm2 on its new host")
    with lab.capture("h1", "udp port 4789") as seen:
        assert pings(lab, "vm1", target)
    assert "ICMP" not in seen.text


def test_a_ping_counts_what_is_lost_and_tcp_connects(lab: Lab) -> None:
    target = _two_vms(lab)
    with listening(lab, "vm2", 8080):
        assert connects(lab, "vm1", target, 8080)
        assert not connects(lab, "vm1", target, 8081)
    with Pinging(lab, "vm1", target) as ping:
        lab.run("vm1", ["ping", "-c", "30", "-i", "0.02", "-q", target])
    assert ping.sent > 5
    assert ping.lost == 0
    with Pinging(lab, "vm1", target) as ping:
        lab.unplug("vm2", "h2")
        lab.run("vm1", ["ping", "-c", "30", "-i", "0.01", "-q", "-W", "0.2", target], check=False)
    assert ping.lost > 5


def test_each_test_finds_the_lab_clean_and_running(lab: Lab) -> None:
    """Whatever the previous test did: here all processes are stopped and objects are left behind."""
    _two_vms(lab)
    lab.api.create("address_group", name="left", addresses=["10.0.0.0/8"])
    lab.stop_agent("h1", kill=True)
    lab.stop_ovs("h2", kill=True)
    lab.stop_server(kill=True)
    clean(lab)
    wait_until(lambda: read_status(lab)[1], 60, "the lab is not healthy")
    assert lab.vms.all() == []
    assert [lab.api.list(kind) for kind in ("port", "subnet", "network", "address_group")] == [[], [], [], []]
    assert {group["name"] for group in lab.api.list("security_group")} <= {"default"}
    for host in lab.hosts:
        assert "tap" not in lab.run(host, ["ip", "-brief", "link"]).stdout
