"""networking-baremetal, unchanged (requirements-drivers.lock): its mechanism driver, with a device that records.

A bare-metal port becomes ACTIVE; without the driver it is `binding_failed`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from neutron_lib.callbacks import registry

from neutrino.features.baremetal.ironic import NodePort
from neutrino.features.baremetal.nodes import states
from neutrino.server.main import Server
from tests.api.client import Api
from tests.drivers.installed import installed
from tests.support.rack import DRIVERS

NODE = "4d1b5a3e-2d43-4c4e-9d0f-5b5a0c9a7a51"
VLAN = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
OTHER = {"provider:network_type": "vlan", "provider:physical_network": "physnet2", "provider:segmentation_id": 150}
LINKS = {"local_link_information": [{"switch_info": "leaf1", "switch_id": "02:00:00:00:77:01", "port_id": "swp7"}]}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("device") / "log"


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    assert DRIVERS.is_dir(), f"{DRIVERS} is missing: run scripts/setup test"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DRIVERS))
        with installed(tmp_path_factory.mktemp("drivers"), "netconf"):
            yield
    for name in [name for name in sys.modules if name.startswith("networking_baremetal")]:
        del sys.modules[name]


@pytest.fixture
def server(another_server: Callable[..., Server], drivers: None, path: Path) -> Server:
    registry.clear()  # of drivers of other servers of this process
    path.write_text("")
    made: Server = another_server(
        {
            "ml2": {"mechanism_drivers": "openvswitch,baremetal"},
            "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:199,physnet2:100:199"},
            "networking_baremetal": {"enabled_devices": "leaf1"},
            "leaf1": {
                "driver": "recorder",
                "switch_info": "leaf1",
                "physical_networks": "physnet1",
                "path": str(path),
            },
        }
    )
    return made


def report(server: Server, *physical_networks: str) -> None:
    """What the server reports of a node of Ironic's."""
    server.registry.report_all(states([NodePort(NODE, one) for one in physical_networks or (None,)]))


def log(path: Path) -> list[tuple[Any, ...]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [tuple(value for name, value in line.items() if name != "pid") for line in lines]


def test_a_bare_metal_port_becomes_active(admin: Api, server: Server, path: Path) -> None:
    report(server, "physnet1")
    network = admin.network(**VLAN)
    vlan = network["provider:segmentation_id"]
    assert log(path) == [("create_network", vlan)]
    port = admin.port(network, **{"binding:vnic_type": "baremetal"})
    ironic = admin.as_service()
    bound = ironic.change("port", port["id"], **{"binding:host_id": NODE, "binding:profile": LINKS})
    assert (bound["binding:vif_type"], bound["binding:vif_details"]["connectivity"]) == ("other", "l2")
    assert admin.show("port", port["id"])["status"] == "ACTIVE"
    assert ("create_port", vlan, ["swp7"]) in log(path)
    ironic.change("port", port["id"], **{"binding:host_id": "", "binding:profile": {}})
    assert log(path)[-1] == ("delete_port", vlan, ["swp7"])
    assert admin.show("port", port["id"])["status"] == "DOWN"
    ironic.change("port", port["id"], **{"binding:host_id": NODE, "binding:profile": LINKS})
    admin.delete(f"/ports/{port['id']}").expect(204)
    admin.delete(f"/networks/{network['id']}").expect(204)
    assert log(path)[-2:] == [("delete_port", vlan, ["swp7"]), ("delete_network", vlan)]


def test_a_node_has_an_address_of_its_segment(admin: Api, server: Server) -> None:
    """On a routed network, by the physical network that is reported of the node."""
    report(server, "physnet1")
    network = admin.network(segments=[{**VLAN, "provider:segmentation_id": 150}, {**OTHER}])
    segments = {one["physical_network"]: one["id"] for one in admin.get("/segments").body["segments"]}
    for number, name in enumerate(segments):
        admin.subnet(network, cidr=f"192.0.{number}.0/24", segment_id=segments[name], enable_dhcp=False)
    port = admin.port(network, **{"binding:vnic_type": "baremetal"})
    assert port["fixed_ips"] == []
    bound = admin.as_service().change("port", port["id"], **{"binding:host_id": NODE, "binding:profile": LINKS})
    (fixed,) = bound["fixed_ips"]
    assert admin.show("subnet", fixed["subnet_id"])["segment_id"] == segments["physnet1"]
    assert bound["binding:vif_type"] == "other"


@pytest.mark.parametrize("networks", [(), ("physnet2",)], ids=["no physical network", "another physical network"])
def test_a_node_that_does_not_reach_the_network_is_not_bound(
    admin: Api, server: Server, path: Path, networks: tuple[str, ...]
) -> None:
    report(server, *networks)
    port = admin.port(admin.network(**VLAN), **{"binding:vnic_type": "baremetal"})
    found = admin.as_service().change("port", port["id"], **{"binding:host_id": NODE, "binding:profile": LINKS})
    assert found["binding:vif_type"] == "binding_failed"
    assert "create_port" not in [line[0] for line in log(path)]
