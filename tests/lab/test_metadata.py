"""169.254.169.254 from VMs: on isolated networks and behind a router, through everything that may happen on the host."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.lab.lab import Lab
from tests.support.lab import clean, network, open_group, port, temporary_lab, wait_until

ROLES = ("l2", "dhcp", "l3", "metadata")
AGENTS = {"Open vSwitch agent", "DHCP agent", "L3 agent", "Metadata agent"}
IDENTITY = "/latest/meta-data/instance-id"


@pytest.fixture(scope="module")
def module_lab() -> Iterator[Lab]:
    with temporary_lab(hosts=1, roles=ROLES) as lab:
        yield lab


@pytest.fixture
def lab(module_lab: Lab) -> Iterator[Lab]:
    wait_until(lambda: _alive(module_lab) == AGENTS, 30, "not all agents are alive")
    yield module_lab
    for router in module_lab.api.list("router"):
        for interface in module_lab.api.list("port", device_id=router["id"]):
            act(module_lab, router["id"], "remove_router_interface", port_id=interface["id"])
        module_lab.api.delete("router", router["id"])
    clean(module_lab)


def _alive(lab: Lab) -> set[str]:
    return {agent["agent_type"] for agent in lab.api.list("agent") if agent["alive"]}


def act(lab: Lab, router: str, verb: str, **body: str) -> None:
    lab.api.request("PUT", f"/v2.0/routers/{router}/{verb}", body)


def curl(lab: Lab, vm: str, path: str = IDENTITY, *options: str, where: str = "169.254.169.254") -> tuple[int, str]:
    """Status and text; status 0 where there was no answer at all."""
    argv = ["curl", "-s", "-m", "8", "-w", "\n%{http_code}", *options, f"http://{where}{path}"]
    text, _, status = lab.run(vm, argv, check=False).stdout.rpartition("\n")
    return int(status or 0), text


def isolated(lab: Lab, name: str) -> str:
    """A network without a router and a VM of its name on it; the VM's id."""
    network(lab, name, ["10.0.0.0/24"], enable_dhcp=True)
    vm = lab.vm(name, network=name, host="h1", security_groups=["open"])
    own = lab.api.list("port", device_owner="network:dhcp", network_id=port(lab, name)["network_id"])[0]
    # What DHCP tells on a network without a router.
    lab.run(name, ["ip", "route", "replace", "169.254.169.254/32", "via", own["fixed_ips"][0]["ip_address"]])
    wait_until(lambda: curl(lab, name) == (200, vm.device_id), 10, f"{name} has no metadata: {curl(lab, name)}")
    return vm.device_id


def metadata_pid(lab: Lab) -> int:
    return int((lab.places.host("h1") / "metadata.pid").read_text())


def test_overlapping_networks_each_have_their_own_instance(lab: Lab) -> None:
    open_group(lab)
    blue, red = isolated(lab, "blue"), isolated(lab, "red")
    assert curl(lab, "blue") == (200, blue)
    assert curl(lab, "red") == (200, red)
    status, text = curl(lab, "red", "/openstack/latest/meta_data.json")
    assert (status, json.loads(text)["uuid"]) == (200, red)
    assert json.loads(text)["project_id"] == port(lab, "red")["project_id"]
    forged = ("-H", f"X-Instance-ID: {red}", "-H", "X-Forwarded-For: 10.9.9.9", "-H", "X-Tenant-ID: mine")
    assert curl(lab, "blue", IDENTITY, *forged) == (200, blue)
    lab.run("blue", ["ip", "address", "add", "10.0.0.99/24", "dev", "eth0"])  # an address that nobody has
    assert lab.run("h1", lab.agent_command("h1", "verify")).returncode == 0


def test_an_address_that_no_port_has_is_nobody(lab: Lab) -> None:
    open_group(lab)
    isolated(lab, "blue")
    there = port(lab, "blue")
    lab.api.update("port", there["id"], allowed_address_pairs=[{"ip_address": "10.0.0.99"}])
    lab.run("blue", ["ip", "address", "add", "10.0.0.99/24", "dev", "eth0"])

    def nobody() -> bool:
        return curl(lab, "blue", IDENTITY, "--interface", "10.0.0.99")[0] == 404

    wait_until(nobody, 10, "an address that no port has was answered")
    assert curl(lab, "blue")[0] == 200


def test_behind_a_router(lab: Lab) -> None:
    """Two networks behind one router, one of them with the addresses of a third that is isolated."""
    open_group(lab)
    elsewhere = isolated(lab, "elsewhere")
    made = lab.api.create("router", name="r1")
    ids = {}
    for name, cidrs in (("green", ["10.0.0.0/24"]), ("yellow", ["10.0.1.0/24", "fd00:1::/64"])):
        network(lab, name, cidrs)
        for subnet in lab.api.list("subnet", network_id=lab.api.find("network", name)["id"]):
            act(lab, made["id"], "add_router_interface", subnet_id=subnet["id"])
        ids[name] = lab.vm(name, network=name, host="h1", security_groups=["open"]).device_id
    for name, device_id in ids.items():
        wait_until(lambda name=name, own=device_id: curl(lab, name) == (200, own), 15, f"{name}: {curl(lab, name)}")
    assert curl(lab, "elsewhere") == (200, elsewhere)
    # By IPv6 the source is link-local, once the VM has such an address: its MAC says who it is.
    six = {"where": "[fe80::a9fe:a9fe%25eth0]"}
    wait_until(lambda: curl(lab, "yellow", **six) == (200, ids["yellow"]), 10, "no metadata by IPv6")
    assert lab.run("h1", lab.agent_command("h1", "verify")).returncode == 0


def test_the_agent_may_stop_or_die(lab: Lab) -> None:
    open_group(lab)
    blue = isolated(lab, "blue")
    pid = metadata_pid(lab)
    for kill in (False, True):
        lab.stop_agent("h1", kill=kill)
        for _ in range(5):
            assert curl(lab, "blue") == (200, blue)
        lab.start_agent("h1", wait=False)
        give_up = time.monotonic() + 6
        while time.monotonic() < give_up:
            assert curl(lab, "blue") == (200, blue)
        lab.wait_for_agent("h1")
    assert metadata_pid(lab) == pid
    assert Path(f"/proc/{pid}/status").read_text().count("65534") >= 8, "it runs as nobody"


def test_a_killed_metadata_process_is_back_in_two_seconds(lab: Lab) -> None:
    open_group(lab)
    blue = isolated(lab, "blue")
    os.kill(metadata_pid(lab), signal.SIGKILL)
    wait_until(lambda: curl(lab, "blue") == (200, blue), 2, "no metadata after the process was killed")


def test_without_nova_the_answer_is_502(lab: Lab) -> None:
    open_group(lab)
    blue = isolated(lab, "blue")
    lab.stop_nova("h1")
    assert curl(lab, "blue")[0] == 502
    lab.start_nova("h1")
    wait_until(lambda: curl(lab, "blue") == (200, blue), 10, "Nova is back, but its answers are not")
    slow = lab.popen(
        "blue", ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://169.254.169.254/lab/slow/6"]
    )
    assert curl(lab, "blue") == (200, blue)
    assert slow.communicate(timeout=20)[0] == "504"
