"""Trunks on real packets: VLAN devices in an instance, each of them a port of its own on another network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from tests.support.lab import Pinging, pings
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON
from tests.support.lab_qos import Policy
from tests.support.trunk_lab import GREEN, PARENT, RED, TAGS, VM, Site, made_site


@pytest.fixture
def site(lab: Lab) -> Iterator[Site]:
    with cleaned(lab), made_site(lab) as made:
        yield made


def test_each_vlan_device_is_on_its_own_network(site: Site) -> None:
    assert site.vsctl("port-to-br", f"tap{site.ports[PARENT]['id'][:11]}").strip() == site.bridge
    for name, port in site.ports.items():
        assert site.lab.api.show("port", port["id"])["status"] == "ACTIVE", name
    # The instance sends tagged packets, and its peers receive them without a tag.
    with site.lab.capture(f"{RED}-peer", "icmp", "eth0") as seen:
        assert site.is_reached(RED)
        seen.wait_for("echo reply")
    assert "vlan" not in seen.text.lower()
    # A VLAN that is no subport's leads nowhere, not even to the parent's network.
    site.add_device(30, "10.1.0.240")
    assert not pings(site.lab, f"{PARENT}-peer", "10.1.0.240", seconds=1)
    assert site.is_reached(PARENT)


@pytest.mark.parametrize("name", [PARENT, RED, GREEN])
def test_a_trace(site: Site, name: str) -> None:
    """To the port of the packet's VLAN, and not to the parent, whose device it leaves by."""
    peer = site.lab.api.show("port", site.lab.vms.get(f"{name}-peer").port_id)
    for source, target in ((site.ports[name], peer), (peer, site.ports[name])):
        destination = target["fixed_ips"][0]["ip_address"]
        body = {"source_port_id": source["id"], "destination_address": destination, "protocol": "icmp"}
        made = site.lab.api.request("POST", "/v2.0/traces", {"trace": body})["trace"]
        assert (made["verdict"], made["cause"]) == ("delivered", ""), made["summary"]


def test_a_subport_has_its_own_security_groups(site: Site) -> None:
    site.lab.api.update("port", site.ports[RED]["id"], security_groups=[site.closed])
    site.wait_until_cut(RED)
    assert site.is_reached(GREEN)
    assert site.is_reached(PARENT)
    site.lab.api.update("port", site.ports[PARENT]["id"], security_groups=[site.closed])
    site.wait_until_cut(PARENT)
    assert site.is_reached(GREEN)
    site.lab.api.update("port", site.ports[RED]["id"], security_groups=[site.group])
    site.wait_until_reached(RED)


def test_a_subport_sends_only_from_its_own_addresses(site: Site) -> None:
    site.ip("link set vlan10 down")
    site.ip("link set vlan10 address fa:16:3e:00:00:99")
    site.ip("link set vlan10 up")
    site.wait_until_cut(RED)
    site.ip(f"link set vlan10 address {site.ports[RED]['mac_address']}")
    site.wait_until_reached(RED)


def test_a_subport_has_its_own_qos_policy(site: Site) -> None:
    policy = Policy(site.lab, "marked")
    policy.set("dscp_marking", dscp_mark=46)
    site.lab.api.update("port", site.ports[RED]["id"], qos_policy_id=policy.id)
    with site.lab.capture(f"{RED}-peer", "icmp[0] = 0 and ip[1] & 0xfc = 0xb8", "eth0") as marked:
        wait_until(
            lambda: site.is_reached(RED) and "echo reply" in marked.text, SOON, "the subport's packets are not marked"
        )
    with site.lab.capture(f"{GREEN}-peer", "icmp[0] = 0 and ip[1] & 0xfc = 0xb8", "eth0") as others:
        assert site.is_reached(GREEN)
    assert "echo reply" not in others.text
    site.lab.api.update("port", site.ports[RED]["id"], qos_policy_id=None)
    policy.clear()
    policy.delete()


def test_subports_change_without_a_loss_on_the_others(site: Site) -> None:
    lab = site.lab
    with (
        Pinging(lab, f"{GREEN}-peer", site.address(GREEN)) as green,
        Pinging(lab, f"{PARENT}-peer", site.address(PARENT)) as parent,
    ):
        site.remove(RED)
        site.wait_until_cut(RED)
        assert lab.api.show("port", site.ports[RED]["id"])["binding:host_id"] == ""
        site.add(RED, 11)
        site.remove_device(10)
        site.add_subport_device(RED, 11)
        site.wait_until_reached(RED)
        site.wait_for("ACTIVE")
    assert (green.lost, parent.lost) == (0, 0)


def test_a_restart_of_the_agent_changes_nothing(site: Site) -> None:
    lab = site.lab
    before = site.traces("h1")
    with (
        Pinging(lab, f"{RED}-peer", site.address(RED)) as red,
        Pinging(lab, f"{PARENT}-peer", site.address(PARENT)) as parent,
    ):
        lab.stop_agent("h1")
        lab.start_agent("h1")
        lab.wait_for_agent("h1")
    assert (red.lost, parent.lost) == (0, 0)
    assert site.traces("h1") == before
    assert site.status() == "ACTIVE"


def test_changes_while_the_agent_is_down_and_a_restart_of_the_switch(site: Site) -> None:
    lab = site.lab
    lab.stop_agent("h1")
    site.remove(RED)
    lab.start_agent("h1")
    site.wait_until_cut(RED)
    site.wait_until_reached(GREEN, PARENT)
    site.add(RED, 10)
    site.wait_until_reached(RED)
    lab.stop_ovs("h1")
    lab.start_ovs("h1")
    site.wait_until_reached(PARENT, RED, GREEN)
    site.wait_for("ACTIVE")


def test_deletion_leaves_nothing(site: Site) -> None:
    lab = site.lab
    assert len(site.traces("h1")) == 4
    lab.delete_vm(VM)
    wait_until(lambda: site.traces("h1") == [], SOON, "the trunk's bridge or patch ports are left")
    assert site.status() == "DOWN"
    for port in site.ports.values():
        assert lab.api.show("port", port["id"])["binding:host_id"] == ""
    lab.api.delete("trunk", site.trunk["id"])
    flows = lab.run("h1", ["ovs-ofctl", "dump-flows", "br-int"]).stdout
    for port in site.ports.values():
        assert port["mac_address"] not in flows
        lab.api.delete("port", port["id"])


def test_a_live_migration(site: Site) -> None:
    lab, parent = site.lab, site.ports[PARENT]["id"]
    lab.api.request("POST", f"/v2.0/ports/{parent}/bindings", {"binding": {"host": "h3"}})
    lab.plug(VM, "h3")
    wait_until(lambda: len(site.traces("h3")) == 4, SOON, "the target has not prepared the trunk with its subports")
    assert {lab.api.show("port", each["id"])["binding:host_id"] for each in site.ports.values()} == {"h1"}
    lab.api.request("PUT", f"/v2.0/ports/{parent}/bindings/h3/activate", {})
    lab.unplug(VM, "h1")
    lab.settle_vm(VM, "h3")
    lab.address(VM)
    for name, tag in TAGS.items():
        site.remove_device(tag)
        site.add_subport_device(name, tag)
    site.wait_until_reached(PARENT, RED, GREEN)
    site.wait_for("ACTIVE")
    lab.api.request("DELETE", f"/v2.0/ports/{parent}/bindings/h1")
    wait_until(lambda: site.traces("h1") == [], SOON, "the source has parts of the trunk left")
    assert len(site.traces("h3")) == 4


def test_a_parent_behind_a_linux_bridge(lab: Lab) -> None:
    """Hybrid plugging: iptables filters the parent's packets, the switch those of the subports."""
    with cleaned(lab), made_site(lab, hybrid=True) as site:
        lab.api.update("port", site.ports[RED]["id"], security_groups=[site.closed])
        site.wait_until_cut(RED)
        assert site.is_reached(PARENT)
        assert site.is_reached(GREEN)
