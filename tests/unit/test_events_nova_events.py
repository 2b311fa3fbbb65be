"""Events for Nova, as tables of a port or floating IP before and after a change."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from neutrino.features.router.floating_ips.floating_ips import concerned
from neutrino.server.events.nova import NovaEvent, events_for_addresses, events_for_port

SERVER = "8a9f1a54-3d0b-4c55-9d47-0f2a1e0a7c11"
OTHER_SERVER = "1f6b2c1e-89a5-4f57-8a5c-2d8c3a1f5e22"
PORT = "c6a2b4de-5b8e-4d0c-8f69-2a7f4e5d9b33"

PLUGGED = NovaEvent("network-vif-plugged", SERVER, PORT, "completed")
FAILED = NovaEvent("network-vif-plugged", SERVER, PORT, "failed")
UNPLUGGED = NovaEvent("network-vif-unplugged", SERVER, PORT, "completed")
CHANGED = NovaEvent("network-changed", SERVER, PORT)
DELETED = NovaEvent("network-vif-deleted", SERVER, PORT)


def a_port(**values: Any) -> dict[str, Any]:
    return {
        "id": PORT,
        "name": "",
        "status": "DOWN",
        "device_id": SERVER,
        "device_owner": "compute:nova",
        "mac_address": "fa:16:3e:00:00:01",
        "fixed_ips": [{"subnet_id": "s1", "ip_address": "10.0.0.5"}],
        "security_groups": ["default"],
        "binding:vif_type": "ovs",
        "binding:profile": {},
        **values,
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("DOWN", "ACTIVE", [PLUGGED]),
        ("BUILD", "ACTIVE", [PLUGGED]),
        ("ERROR", "ACTIVE", [PLUGGED]),
        ("ACTIVE", "ACTIVE", []),
        ("ACTIVE", "DOWN", [UNPLUGGED]),
        ("BUILD", "DOWN", []),
        ("DOWN", "DOWN", []),
        ("DOWN", "BUILD", []),
        ("ACTIVE", "BUILD", []),
        ("DOWN", "ERROR", [FAILED]),
        ("BUILD", "ERROR", [FAILED]),
        ("ERROR", "ERROR", []),
        ("ACTIVE", "ERROR", []),
    ],
)
def test_a_status_change_plugs_or_unplugs(before: str, after: str, expected: list[NovaEvent]) -> None:
    assert events_for_port(a_port(status=before), a_port(status=after)) == expected


@pytest.mark.parametrize(
    ("status", "expected"), [("DOWN", []), ("BUILD", []), ("ACTIVE", [PLUGGED]), ("ERROR", [FAILED])]
)
def test_a_created_port_counts_only_by_its_status(status: str, expected: list[NovaEvent]) -> None:
    assert events_for_port(None, a_port(status=status)) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"fixed_ips": []},
        {"fixed_ips": [{"subnet_id": "s1", "ip_address": "10.0.0.6"}]},
        {"fixed_ips": [{"subnet_id": "s2", "ip_address": "10.0.0.5"}]},
        {"mac_address": "fa:16:3e:00:00:02"},
        {"binding:vif_type": "unbound"},
        {"binding:vnic_type": "direct"},
        {"binding:vif_details": {"port_filter": True}},
        {"binding:profile": {"pci_slot": "0000:00:01.0"}},
    ],
)
def test_a_change_of_what_nova_caches_is_told(change: dict[str, Any]) -> None:
    assert events_for_port(a_port(), a_port(**change)) == [CHANGED]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"name": "web"},
        {"security_groups": ["default", "web"]},
        {"admin_state_up": False},
        {"dns_name": "web"},
        {"binding:profile": None},
    ],
)
def test_a_change_of_what_nova_does_not_cache_is_not_told(change: dict[str, Any]) -> None:
    assert events_for_port(a_port(), a_port(**change)) == []


def test_the_order_of_fixed_ips_means_nothing() -> None:
    ips = [{"subnet_id": "s1", "ip_address": "10.0.0.5"}, {"subnet_id": "s2", "ip_address": "fd00::5"}]
    assert events_for_port(a_port(fixed_ips=ips), a_port(fixed_ips=ips[::-1])) == []


def test_a_port_that_gets_a_server_is_told_to_that_server() -> None:
    assert events_for_port(a_port(device_id="", device_owner=""), a_port()) == [CHANGED]
    assert events_for_port(a_port(device_id=OTHER_SERVER), a_port()) == [CHANGED]


def test_a_port_that_loses_its_server_is_nobodys_news() -> None:
    before = a_port(status="ACTIVE")
    assert events_for_port(before, a_port(status="DOWN", device_id="", device_owner="")) == []


def test_status_comes_before_data() -> None:
    after = a_port(status="ACTIVE", mac_address="fa:16:3e:00:00:02")
    assert events_for_port(a_port(), after) == [PLUGGED, CHANGED]


def test_a_deleted_port_is_deleted_and_nothing_else() -> None:
    assert events_for_port(a_port(status="ACTIVE"), None) == [DELETED]


@pytest.mark.parametrize(
    "owner",
    [
        {"device_owner": "network:dhcp"},
        {"device_owner": "network:router_interface"},
        {"device_owner": "baremetal:none"},
        {"device_owner": ""},
        {"device_owner": None},
        {"device_id": ""},
        {"device_id": None},
        {"device_id": "reserved_dhcp_port"},
        {"device_id": f"dhcp-{SERVER}"},
        {"device_id": f"{SERVER}\n"},
    ],
)
def test_ports_that_no_server_owns_cause_no_events(owner: dict[str, Any]) -> None:
    before, after = a_port(**owner), a_port(**owner, status="ACTIVE", mac_address="fa:16:3e:00:00:02")
    assert events_for_port(None, after) == []
    assert events_for_port(before, after) == []
    assert events_for_port(before, None) == []


def test_nothing_to_compare_is_no_event() -> None:
    assert events_for_port(None, None) == []
    assert concerned(None, None) == []


def test_the_body_that_nova_takes() -> None:
    assert msgspec.to_builtins(PLUGGED) == {
        "name": "network-vif-plugged",
        "server_uuid": SERVER,
        "tag": PORT,
        "status": "completed",
    }
    assert msgspec.to_builtins(CHANGED) == {"name": "network-changed", "server_uuid": SERVER, "tag": PORT}


def a_floating_ip(**values: Any) -> dict[str, Any]:
    address = {"floating_ip_address": "203.0.113.7", "fixed_ip_address": "10.0.0.5"}
    return {"id": "f1", "port_id": PORT, "description": "", **address, **values}


FREE = a_floating_ip(port_id=None, fixed_ip_address=None)
OTHER_PORT = "d5b1c3ef-6c9f-4e1d-9a7a-3b8a5f6eac44"
PORTS = {PORT: a_port(), OTHER_PORT: a_port(id=OTHER_PORT, device_id=OTHER_SERVER)}
CHANGED_OTHER = NovaEvent("network-changed", OTHER_SERVER, OTHER_PORT)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, FREE, []),
        (None, a_floating_ip(), [CHANGED]),
        (FREE, a_floating_ip(), [CHANGED]),
        (a_floating_ip(), FREE, [CHANGED]),
        (a_floating_ip(), None, [CHANGED]),
        (FREE, None, []),
        (a_floating_ip(), a_floating_ip(description="web"), []),
        (a_floating_ip(), a_floating_ip(fixed_ip_address="10.0.0.6"), [CHANGED]),
        (a_floating_ip(), a_floating_ip(port_id=OTHER_PORT), [CHANGED, CHANGED_OTHER]),
        (a_floating_ip(port_id="gone"), FREE, []),
    ],
)
def test_a_floating_ip_is_told_to_the_servers_concerned(
    before: dict[str, Any] | None, after: dict[str, Any] | None, expected: list[NovaEvent]
) -> None:
    assert events_for_addresses(concerned(before, after, *PORTS.values())) == expected


def test_a_floating_ip_of_a_load_balancer_is_not_novas_business() -> None:
    port = a_port(device_owner="Octavia")
    assert events_for_addresses(concerned(FREE, a_floating_ip(), port)) == []
