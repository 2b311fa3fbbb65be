"""169.254.169.254 from VMs: on isolated networks and behind a router, through everything that may happen on the host."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab import network, open_group, port, wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_dhcp import configured_by_udhcpc
from tests.support.lab_metadata import IDENTITY, SIX, asking, curl, metadata_route, wait_for_metadata
from tests.support.routing_lab import wait_until_no_drift
from tests.support.shared_labs import wait_for_agents

# The requests of cloud-init, in its order: first as OpenStack's data source, then as EC2's.
CLOUD_INIT = (
    *("/openstack", "/openstack/", "/openstack/latest/meta_data.json", "/openstack/2018-08-27/network_data.json"),
    *("/latest/meta-data/", "/2009-04-04/meta-data/", "/2009-04-04/meta-data/instance-id"),
)


@pytest.fixture(autouse=True)
def clean_lab(lab: Lab) -> Iterator[None]:
    wait_for_agents(lab)
    with cleaned(lab):
        yield


def act(lab: Lab, router: str, verb: str, **body: str) -> None:
    lab.api.request("PUT", f"/v2.0/routers/{router}/{verb}", body)


def isolated(lab: Lab, name: str, *cidrs: str) -> str:
    """A network without a router and a VM of its name on it, which has its routes from DHCP; the VM's id."""
    network(lab, name, cidrs or ["10.0.0.0/24"], enable_dhcp=True)
    vm = lab.vm(name, network=name, host="h1", security_groups=["open"])
    wait_for_metadata(lab, name)
    return vm.device_id


def dhcp_address(lab: Lab, vm: str) -> str:
    found = lab.api.list("port", device_owner="network:dhcp", network_id=port(lab, vm)["network_id"])
    return str(found[0]["fixed_ips"][0]["ip_address"])


def metadata_pid(lab: Lab) -> int:
    return int((lab.paths.host("h1") / "metadata.pid").read_text())


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
    lab.run("blue", ["ip", "address", "add", "10.0.0.250/24", "dev", "eth0"])  # an address that no port has
    wait_until_no_drift(lab, "h1")


def test_the_way_there_comes_with_the_lease(lab: Lab) -> None:
    """As a route of option 121 to the DHCP port, which clients set by themselves."""
    open_group(lab)
    blue = isolated(lab, "blue")
    assert metadata_route(lab, "blue") == dhcp_address(lab, "blue")
    configured_by_udhcpc(lab, "blue")
    assert metadata_route(lab, "blue") == dhcp_address(lab, "blue")
    assert curl(lab, "blue") == (200, blue)


def test_an_isolated_network_answers_by_ipv6(lab: Lab) -> None:
    open_group(lab)
    blue = isolated(lab, "blue", "10.0.0.0/24", "fd00:1::/64")
    wait_for_metadata(lab, "blue", where=SIX)
    status, text = curl(lab, "blue", "/openstack/latest/meta_data.json", where=SIX)
    assert (status, json.loads(text)["uuid"]) == (200, blue)


def test_what_cloud_init_asks_for_is_answered(lab: Lab) -> None:
    open_group(lab)
    blue = isolated(lab, "blue")
    responses = {path: curl(lab, "blue", path, "-A", "Cloud-Init/22.4.2") for path in CLOUD_INIT}
    assert {status for status, _ in responses.values()} == {200}, responses
    assert "latest" in responses["/openstack"][1].split()
    assert json.loads(responses["/openstack/latest/meta_data.json"][1])["uuid"] == blue
    assert "instance-id" in responses["/latest/meta-data/"][1].split()
    assert responses["/2009-04-04/meta-data/instance-id"][1] == blue
    assert curl(lab, "blue", "/openstack/latest/user_data")[0] == 404, "Nova's own answer where there is none"


def test_force_metadata_leads_past_the_router(lab: Lab) -> None:
    """To the DHCP port; the router has no metadata at all here."""
    open_group(lab)
    lab.stop_agent("h1")
    lab.start_agent("h1", {"DEFAULT": {"force_metadata": "true", "enable_metadata_proxy": "false"}})
    network(lab, "blue", ["10.0.0.0/24"], enable_dhcp=True)
    made = lab.api.create("router", name="r1")
    (subnet,) = lab.api.list("subnet", network_id=lab.api.find("network", "blue")["id"])
    act(lab, made["id"], "add_router_interface", subnet_id=subnet["id"])
    lab.vm("blue", network="blue", host="h1", security_groups=["open"])
    assert metadata_route(lab, "blue") == dhcp_address(lab, "blue")
    wait_for_metadata(lab, "blue")


def test_an_address_that_no_port_has_is_nobody(lab: Lab) -> None:
    open_group(lab)
    isolated(lab, "blue")
    there = port(lab, "blue")
    lab.api.update("port", there["id"], allowed_address_pairs=[{"ip_address": "10.0.0.250"}])
    lab.run("blue", ["ip", "address", "add", "10.0.0.250/24", "dev", "eth0"])

    def is_refused() -> bool:
        return curl(lab, "blue", IDENTITY, "--interface", "10.0.0.250")[0] == 404

    wait_until(is_refused, 60, "an address that no port has was answered")
    assert curl(lab, "blue")[0] == 200


def test_behind_a_router(lab: Lab) -> None:
    """Two networks behind one router, one of them with the addresses of a third that is isolated."""
    open_group(lab)
    elsewhere = isolated(lab, "elsewhere")
    made = lab.api.create("router", name="r1")
    behind = {"green": ["10.0.0.0/24"], "yellow": ["10.0.1.0/24", "fd00:1::/64"]}
    for name, cidrs in behind.items():
        network(lab, name, cidrs)
        for subnet in lab.api.list("subnet", network_id=lab.api.find("network", name)["id"]):
            act(lab, made["id"], "add_router_interface", subnet_id=subnet["id"])
        lab.vm(name, network=name, host="h1", security_groups=["open"])
    for name in behind:
        wait_for_metadata(lab, name, 60)
    assert curl(lab, "elsewhere") == (200, elsewhere)
    # By IPv6 the source is link-local, once the VM has such an address: it is identified by its MAC.
    wait_for_metadata(lab, "yellow", where=SIX)
    wait_until_no_drift(lab, "h1")


def test_another_networks_metadata_is_not_had_by_way_of_a_router(lab: Lab) -> None:
    """The router of mallory's network is also on a network of others, and leads a victim's addresses to mallory."""
    open_group(lab)
    made = lab.api.create("router", name="r1")
    for name, cidrs in (("mallory", ["10.0.0.0/24", "fd00:1::/64"]), ("victim", ["10.0.1.0/24", "fd00:2::/64"])):
        network(lab, name, cidrs)
        for subnet in lab.api.list("subnet", network_id=lab.api.find("network", name)["id"]):
            act(lab, made["id"], "add_router_interface", subnet_id=subnet["id"])
        lab.vm(name, network=name, host="h1", security_groups=["open"])
    for name in ("mallory", "victim"):
        wait_for_metadata(lab, name, 60)
        wait_for_metadata(lab, name, 60, where=SIX)
    mine, theirs = port(lab, "mallory"), port(lab, "victim")
    own = {6 if ":" in each["ip_address"] else 4: each["ip_address"] for each in mine["fixed_ips"]}
    forged = [each["ip_address"] for each in theirs["fixed_ips"]]
    lengths = {4: 32, 6: 128}
    routes = [
        {"destination": f"{each}/{lengths[version]}", "nexthop": own[version]}
        for each in forged
        for version in [6 if ":" in each else 4]
    ]
    lab.api.update("port", mine["id"], security_groups=[], port_security_enabled=False)
    lab.api.update("router", made["id"], routes=routes)
    in_router = ["ip", "netns", "exec", f"qrouter-{made['id']}"]
    for route in routes:
        command = [*in_router, "ip", "route", "get", route["destination"].partition("/")[0]]
        wait_until(
            lambda command=command, by=route["nexthop"]: by in lab.run("h1", command).stdout, 60, "no extra route"
        )  # type: ignore[misc]
    for each in forged:
        where, length = (SIX, 128) if ":" in each else ("169.254.169.254", 32)
        lab.run("mallory", ["ip", "address", "add", f"{each}/{length}", "dev", "eth0", *(["nodad"] * (":" in each))])
        assert curl(lab, "mallory", IDENTITY, "-m", "2", "--interface", each, where=where)[0] in (0, 404)
        assert curl(lab, "mallory", where=where) == (200, mine["device_id"])
    # A link-local source is known by its MAC.
    lab.run("mallory", ["ip", "link", "set", "eth0", "address", theirs["mac_address"]])
    lab.run("mallory", ["ip", "-6", "address", "flush", "dev", "eth0"])
    lab.run("mallory", ["ip", "address", "add", "fe80::bad/64", "dev", "eth0", "nodad"])
    responses: list[tuple[int, str]] = []

    def answered() -> bool:
        responses.append(curl(lab, "mallory", IDENTITY, "-m", "2", where=SIX))
        return responses[-1][0] != 0

    wait_until(answered, 60, "no response")
    assert responses[-1][0] == 404
    lab.api.update("router", made["id"], routes=[])
    wait_for_metadata(lab, "victim", 60)


def test_the_agent_may_stop_or_die(lab: Lab) -> None:
    """And starts again and sends the proxy everything anew: no request fails."""
    open_group(lab)
    blue = isolated(lab, "blue")
    pid = metadata_pid(lab)
    with asking(lab, "blue") as answers:
        for kill in (False, True):
            lab.stop_agent("h1", kill=kill)
            lab.start_agent("h1")
            wait_until_no_drift(lab, "h1")
    assert set(answers) == {blue}
    assert len(answers) > 20
    assert metadata_pid(lab) == pid
    assert Path(f"/proc/{pid}/status").read_text().count("65534") >= 8, "the user is nobody"


def test_metadata_is_back_after_the_switch(lab: Lab) -> None:
    open_group(lab)
    isolated(lab, "blue")
    pid = metadata_pid(lab)
    lab.stop_ovs("h1")
    lab.start_ovs("h1")
    wait_for_metadata(lab, "blue", 60)
    assert metadata_pid(lab) == pid


def test_a_killed_metadata_process_is_back(lab: Lab) -> None:
    open_group(lab)
    isolated(lab, "blue")
    os.kill(metadata_pid(lab), signal.SIGKILL)
    wait_for_metadata(lab, "blue")


def test_without_nova_the_answer_is_502(lab: Lab) -> None:
    open_group(lab)
    blue = isolated(lab, "blue")
    lab.stop_nova("h1")
    assert curl(lab, "blue")[0] == 502
    lab.start_nova("h1")
    wait_until(lambda: curl(lab, "blue") == (200, blue), 60, "Nova is back, but its answers are not")
    slow = lab.popen(
        "blue", ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://169.254.169.254/lab/slow/6"]
    )
    assert curl(lab, "blue") == (200, blue)
    assert slow.communicate(timeout=60)[0] == "504"
