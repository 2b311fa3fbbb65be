"""`neutrino up` with a dataplane: it wires networks, removes everything at its end, and restores it at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.launcher import PROGRAM
from tests.support.machine import Machine
from tests.support.process import wait_until
from tests.support.up import commands, up

NOTHING: set[str] = set()


@pytest.fixture
def here() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def typed(here: Machine, directory: Path, lines: Sequence[str]) -> str:
    """The output of commands in another terminal."""
    environment = {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(directory)}
    shell = subprocess.run(
        here.inside(["bash", "-euc", "\n".join(lines)]),
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert shell.returncode == 0, shell.stdout + shell.stderr
    return shell.stdout


def make_router(here: Machine, url: str, **kind: bool) -> tuple[str, str, str]:
    """A network with a router and external gateway: their ids, and the router's external address."""
    url = f"{url}/v2.0"
    (public,) = here.ask(f"{url}/networks?router:external=true")["networks"]
    network = here.ask(f"{url}/networks", "POST", {"network": {"name": "green"}})["network"]
    subnet = {"network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/24"}
    subnet = here.ask(f"{url}/subnets", "POST", {"subnet": subnet})["subnet"]
    router = {"name": "out", "external_gateway_info": {"network_id": public["id"]}, **kind}
    router = here.ask(f"{url}/routers", "POST", {"router": router})["router"]
    here.ask(f"{url}/routers/{router['id']}/add_router_interface", "PUT", {"subnet_id": subnet["id"]})
    return network["id"], router["id"], router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]


def replies(here: Machine, address: str) -> bool:
    return ", 0% packet loss" in here.run("ping", "-c", "1", "-W", "1", address, check=False)


def wait_for_reply(here: Machine, address: str) -> None:
    wait_until(lambda: replies(here, address), timeout=60, what=f"a reply of {address}", failed=lambda: None)


def test_networks_are_wired_removed_at_the_end_and_restored(tmp_path: Path, here: Machine) -> None:
    with up(tmp_path, on=here) as running:
        assert typed(here, tmp_path, commands(running.text)).count(", 0% packet loss") == 1
        network_id, router_id, address = make_router(here, running.url)
        wait_for_reply(here, address)
        assert {f"qrouter-{router_id}", f"qdhcp-{network_id}", "vm-web", "vm-db"} <= here.named_namespaces()
        agents = here.ask(f"{running.url}/v2.0/agents")["agents"]
        wanted = {"Open vSwitch agent", "DHCP agent", "L3 agent", "Metadata agent"}
        assert {agent["agent_type"] for agent in agents if agent["alive"]} == wanted
        assert running.ctrl_c() == 0
        assert (here.devices(), here.named_namespaces()) == (NOTHING, NOTHING)

    with up(tmp_path, on=here) as running:
        wait_for_reply(here, address)
        assert ", 0% packet loss" in typed(here, tmp_path, [commands(running.text)[-1]])  # the VMs of the previous run
        vm = f"neutrino vm --state {tmp_path}/state"
        assert "web is deleted" in typed(here, tmp_path, [f"{vm} delete web", f"{vm} list"])
        assert running.ctrl_c() == 0
        assert (here.devices(), here.named_namespaces()) == (NOTHING, NOTHING)


def test_a_trace_from_outside_where_this_machine_is_the_outside(tmp_path: Path, here: Machine) -> None:
    """br-ex has no uplink but its own device, which has the gateway's address."""
    with up(tmp_path, on=here) as running:
        url = f"{running.url}/v2.0"
        _, _, gateway = make_router(here, running.url)
        group = here.ask(f"{url}/security-groups", "POST", {"security_group": {"name": "open"}})["security_group"]
        rule = {"security_group_id": group["id"], "direction": "ingress"}
        here.ask(f"{url}/security-group-rules", "POST", {"security_group_rule": rule})
        vm = f"neutrino vm --state {tmp_path}/state"
        typed(here, tmp_path, [f"{vm} create far --network green --security-group open"])
        (port,) = here.ask(f"{url}/ports?name=far")["ports"]
        (public,) = here.ask(f"{url}/networks?router:external=true")["networks"]
        floating = {"floating_network_id": public["id"], "port_id": port["id"]}
        address = here.ask(f"{url}/floatingips", "POST", {"floatingip": floating})["floatingip"]["floating_ip_address"]
        wait_for_reply(here, address)
        for target in (address, gateway):
            asked = {"source": "external", "destination_address": target, "protocol": "icmp"}
            made = here.ask(f"{url}/traces", "POST", {"trace": asked})["trace"]
            assert (made["verdict"], made["agreement"], made["drift"]) == ("delivered", True, []), made
        (subnet,) = here.ask(f"{url}/subnets?network_id={public['id']}&ip_version=4")["subnets"]
        assert ", 0% packet loss" in typed(here, tmp_path, [f"{vm} exec far ping -c 1 -W 2 {subnet['gateway_ip']}"])
        asked = {"source_port_id": port["id"], "destination_address": subnet["gateway_ip"], "protocol": "icmp"}
        made = here.ask(f"{url}/traces", "POST", {"trace": asked})["trace"]
        found = made["verdict"], made["return_verdict"], made["agreement"]
        assert found == ("delivered", "delivered", True), made
        assert running.ctrl_c() == 0


def test_after_a_reboot_everything_is_wired_again(tmp_path: Path) -> None:
    """The state directory stays; devices, namespaces and processes are gone, as in a new network namespace."""
    with Machine() as before, up(tmp_path, on=before) as running:
        _, router_id, address = make_router(before, running.url)
        wait_for_reply(before, address)
        running.process.kill()  # a power failure: no cleanup
        running.process.wait(timeout=60)
        assert f"qrouter-{router_id}" in before.named_namespaces()
    with Machine() as after, up(tmp_path, on=after) as running:
        assert "not wired" not in running.text
        wait_for_reply(after, address)


def test_a_new_database_with_the_old_state_directory(tmp_path: Path, here: Machine) -> None:
    """The agent's credential is of the old database: it is issued a new one."""
    with up(tmp_path, on=here) as running:
        assert running.ctrl_c() == 0
    for path in (tmp_path / "state").glob("neutrino.sqlite*"):
        path.unlink()
    with up(tmp_path, on=here) as running:
        assert typed(here, tmp_path, commands(running.text)).count(", 0% packet loss") == 1


def test_the_next_run_cleans_up_after_a_killed_one(tmp_path: Path, here: Machine) -> None:
    with up(tmp_path, on=here) as running:
        typed(here, tmp_path, commands(running.text))
        network_id, router_id, address = make_router(here, running.url, distributed=True)
        wait_for_reply(here, address)
        assert f"snat-{router_id}" in here.named_namespaces()
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(timeout=60)
        assert "br-int" in here.devices()
        dnsmasq = here.run("ip", "netns", "pids", f"qdhcp-{network_id}").split()
        assert dnsmasq
    with up(tmp_path, on=here) as running:
        assert "not restored" not in running.text
        wait_for_reply(here, address)
        assert ", 0% packet loss" in typed(here, tmp_path, [commands(running.text)[-1]])
        assert running.ctrl_c() == 0
        assert (here.devices(), here.named_namespaces()) == (NOTHING, NOTHING)


def test_a_start_that_fails_late_leaves_nothing(tmp_path: Path, here: Machine) -> None:
    """The switch runs already when granian fails, because of a module that cannot be imported."""
    broken = tmp_path / "modules"
    broken.mkdir()
    (broken / "setproctitle.py").write_text("raise ImportError('broken for a test')\n")
    done = subprocess.run(
        here.inside(["env", f"PYTHONPATH={broken}", str(PROGRAM), "up", "--state", str(tmp_path / "state")]),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("neutrino: ")
    assert done.stderr.count("\n") == 1
    assert (here.devices(), here.named_namespaces()) == (NOTHING, NOTHING)


def test_a_foreign_bridge_is_not_touched(tmp_path: Path, here: Machine) -> None:
    here.run("ip", "link", "add", "br-ex", "type", "bridge")
    with up(tmp_path, on=here) as running:
        assert "networks are not wired on this machine" in running.text
        assert "br-ex" in running.text
        assert here.ask(f"{running.url}/v2.0/networks")["networks"] == []
        assert running.ctrl_c() == 0
    assert here.devices() == {"br-ex"}


def test_ovsdb_managers_are_served_for_nova(tmp_path: Path, here: Machine) -> None:
    more = tmp_path / "agent.conf"
    more.write_text("[ovs]\novsdb_managers = ptcp:6640:127.0.0.1\n")
    with up(tmp_path, "--agent-config-file", str(more), on=here) as running:

        def bridges() -> set[str]:
            return set(here.run("ovs-vsctl", "--db=tcp:127.0.0.1:6640", "--timeout=5", "list-br", check=False).split())

        wanted = {"br-int", "br-tun", "br-ex"}
        wait_until(lambda: bridges() == wanted, timeout=30, what="the database on port 6640", failed=lambda: None)
        assert running.ctrl_c() == 0


def test_sigterm_ends_it_as_ctrl_c_does(tmp_path: Path, here: Machine) -> None:
    with up(tmp_path, on=here) as running:
        running.process.terminate()
        assert running.process.wait(timeout=60) == 0
    assert (here.devices(), here.named_namespaces()) == (NOTHING, NOTHING)


def test_vm_without_a_running_up_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "vm", "web", "--network", "blue"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"neutrino: neutrino up is not running with state directory {tmp_path}/state: start it, or use --state\n"
    )
