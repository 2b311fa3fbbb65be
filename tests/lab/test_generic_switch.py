"""networking-generic-switch, unchanged: a bare-metal node on a rack switch, which it configures over SSH.

The packages are those of requirements-drivers.lock; the switch is a real Open vSwitch (`tests/support/rack.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.lab.api_client import ApiError
from neutrino.lab.errors import wait_until
from neutrino.model.objects import Object
from tests.support.lab_control import Lab
from tests.support.lab_guests import SOON, Guest, Spec, allow, make_group, make_guests, make_network
from tests.support.lab_kinds import LabKind
from tests.support.rack import DRIVERS, MAC, PORT, THERE, Keys, Rack, rack
from tests.support.shared_labs import lab_of_kind

SERVER = """
[ml2]
mechanism_drivers = openvswitch,genericswitch
[genericswitch:rack1]
device_type = netmiko_ovs_linux
ip = {address}
username = root
use_keys = true
key_file = {key}
ngs_mac_address = {mac}
ngs_physical_networks = physnet1
ngs_ssh_connect_timeout = 5
ngs_ssh_connect_interval = 1
"""
VLAN = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
LINKS = {"local_link_information": [{"switch_info": "rack1", "switch_id": MAC, "port_id": PORT}]}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys")).make()


@pytest.fixture(scope="module")
def lab(keys: Keys) -> Iterator[Lab]:
    assert Path(DRIVERS).is_dir(), f"{DRIVERS} is missing: run scripts/setup test"
    kind = LabKind(hosts=2, roles=("l2",), server=SERVER.format(address=THERE, key=keys.client, mac=MAC))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(DRIVERS))
        with lab_of_kind(kind) as made:
            yield made


@pytest.fixture(scope="module")
def switch(lab: Lab, keys: Keys) -> Iterator[Rack]:
    with rack(lab, "h2", keys) as made, made.managed():
        yield made


@pytest.fixture(scope="module")
def network(lab: Lab) -> Object:
    return make_network(lab, "racks", **VLAN)


@pytest.fixture(scope="module")
def guest(lab: Lab, network: Object) -> Guest:
    """An instance on a host of the cloud, which answers pings."""
    group, _ = make_group(lab, "pings", allow("icmp"))
    return make_guests(lab, Spec("vm", network, "h1", [group]))[0]


def bare_metal(lab: Lab, network: Object) -> Object:
    """A port as Ironic makes it, not yet on its node."""
    return lab.api.create("port", network_id=network["id"], **{"binding:vnic_type": "baremetal"})


def bind(lab: Lab, port: Object) -> Object:
    return lab.api.update("port", port["id"], **{"binding:host_id": "node-1", "binding:profile": LINKS})


def test_packets_pass_while_the_port_is_bound(lab: Lab, switch: Rack, network: Object, guest: Guest) -> None:
    port = bare_metal(lab, network)
    switch.address(port["mac_address"], port["fixed_ips"][0]["ip_address"])
    assert switch.tag() == "[]"
    assert not switch.reaches(guest.addresses[4])
    bound = bind(lab, port)
    assert bound["binding:vif_type"] == "other"
    assert switch.tag() == str(network["provider:segmentation_id"])
    assert lab.api.show("port", port["id"])["status"] == "ACTIVE"
    wait_until(lambda: switch.reaches(guest.addresses[4]), SOON, "the node does not reach the instance")
    lab.api.update("port", port["id"], **{"binding:host_id": "", "binding:profile": {}})
    assert switch.tag() == "[]"
    assert not switch.reaches(guest.addresses[4])
    bind(lab, port)
    wait_until(lambda: switch.reaches(guest.addresses[4]), SOON, "the node does not reach the instance again")
    lab.api.delete("port", port["id"])
    assert switch.tag() == "[]"
    assert not switch.reaches(guest.addresses[4])


def test_subports_are_on_the_switch_with_their_parent(lab: Lab, switch: Rack, network: Object) -> None:
    other = make_network(lab, "subports", **VLAN)
    parent, child = bare_metal(lab, network), lab.api.create("port", network_id=other["id"])
    number = other["provider:segmentation_id"]
    subport = {"port_id": child["id"], "segmentation_type": "vlan", "segmentation_id": number}
    trunk = lab.api.create("trunk", port_id=parent["id"], sub_ports=[subport])
    bind(lab, parent)
    own = network["provider:segmentation_id"]
    assert switch.column("trunks") == str(sorted([own, number]))
    assert switch.tag() == str(own)
    lab.api.request("PUT", f"/v2.0/trunks/{trunk['id']}/remove_subports", {"sub_ports": [{"port_id": child["id"]}]})
    assert switch.column("trunks") == f"[{own}]"
    lab.api.request("PUT", f"/v2.0/trunks/{trunk['id']}/add_subports", {"sub_ports": [subport]})
    assert switch.column("trunks") == str(sorted([own, number]))
    lab.api.update("port", parent["id"], **{"binding:host_id": "", "binding:profile": {}})
    assert switch.column("trunks") == "[]"
    lab.api.delete("trunk", trunk["id"])
    for port in (parent, child):
        lab.api.delete("port", port["id"])


def test_the_options_of_the_driver_are_known(lab: Lab, switch: Rack) -> None:
    assert "options that the server does not know" not in lab.paths.log("server").read_text()


def test_a_port_of_an_unknown_switch_is_not_bound(lab: Lab, switch: Rack, network: Object) -> None:
    port = bare_metal(lab, network)
    elsewhere = {"local_link_information": [{"switch_info": "rack9", "port_id": PORT}]}
    found = lab.api.update("port", port["id"], **{"binding:host_id": "node-1", "binding:profile": elsewhere})
    assert found["binding:vif_type"] == "binding_failed"
    assert switch.tag() == "[]"
    lab.api.delete("port", port["id"])


def test_a_switch_that_is_away_is_an_error_with_the_drivers_name(
    lab: Lab, network: Object, keys: Keys, switch: Rack
) -> None:
    port = bare_metal(lab, network)
    lab.run("h2", ["ip", "link", "set", "mgmt", "down"])
    began = time.monotonic()
    with pytest.raises(ApiError, match=r"update_port_postcommit.*genericswitch"):
        bind(lab, port)
    assert time.monotonic() - began < 120
    lab.run("h2", ["ip", "link", "set", "mgmt", "up"])
    lab.api.update("port", port["id"], **{"binding:host_id": "", "binding:profile": {}})
    assert bind(lab, port)["binding:vif_type"] == "other"
    assert switch.tag() == str(network["provider:segmentation_id"])
    lab.api.delete("port", port["id"])
