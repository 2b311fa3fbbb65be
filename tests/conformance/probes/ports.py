"""Ports, trunks, security groups, taps, packet logs and local IPs."""

from __future__ import annotations

from typing import Any

from neutrino.model.objects import Object
from tests.conformance.probes.asking import Probe, Shown, bindings_of, created_port, refused
from tests.conformance.server import LiveServer


def bindings(server: LiveServer, shown: Shown) -> None:
    body = {"network_id": shown["networks"]["id"], "device_owner": "compute:z", "binding:host_id": "h"}
    key = server.ask("POST", "/v2.0/ports", {"port": body})["port"]["id"]
    assert [binding["host"] for binding in bindings_of(server, key)] == ["h"]


def new_mac(server: LiveServer, shown: Shown) -> None:
    port = shown["ports"]
    changed = server.ask("PUT", f"/v2.0/ports/{port['id']}", {"port": {"mac_address": None}})["port"]
    assert changed["mac_address"] not in (None, port["mac_address"])


def no_multicast_pair(server: LiveServer, shown: Shown) -> None:
    pair = {"ip_address": "224.0.0.18"}
    body = {"port": {"network_id": shown["networks"]["id"], "allowed_address_pairs": [pair]}}
    refused(server, "POST", "/v2.0/ports", body)


def logged_port(server: LiveServer, shown: Shown) -> None:
    about = {"resource_type": "security_group", "target_id": shown["ports"]["id"]}
    made = server.ask("POST", "/v2.0/log/logs", {"log": {**about, "event": "DROP"}})["log"]
    path = f"/v2.0/log/logs/{made['id']}"
    assert server.ask("PUT", path, {"log": {"enabled": False}})["log"]["enabled"] is False
    server.ask("DELETE", path)
    refused(server, "POST", "/v2.0/log/logs", {"log": {"resource_type": "router"}})


def local_address(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/local_ips/{shown['local_ips']['id']}/port_associations"
    assert server.ask("GET", path)["port_associations"] == [shown["port_associations"]]
    refused(server, "DELETE", f"/v2.0/local-ips/{shown['local_ips']['id']}", status=409)


def tapped_port(server: LiveServer, shown: Shown) -> None:
    flow = shown["tap_flows"]
    path = f"/v2.0/taas/tap_flows/{flow['id']}"
    assert server.ask("PUT", path, {"tap_flow": {"name": "x"}})["tap_flow"]["name"] == "x"
    server.ask("PUT", path, {"tap_flow": {"name": flow["name"]}})
    refused(server, "PUT", path, {"tap_flow": {"direction": "OUT"}})


def filtered_vlans(server: LiveServer, shown: Shown) -> None:
    assert shown["tap_flows"]["vlan_filter"] == "9,18-20"
    names = ("tap_service_id", "source_port", "direction")
    flow = {name: shown["tap_flows"][name] for name in names}
    refused(server, "POST", "/v2.0/taas/tap_flows", {"tap_flow": {**flow, "vlan_filter": "4096"}})


def mirrored_port(server: LiveServer, shown: Shown) -> None:
    mirror = {name: shown["tap_mirrors"][name] for name in ("port_id", "directions", "remote_ip", "mirror_type")}
    refused(server, "POST", "/v2.0/taas/tap_mirrors", {"tap_mirror": mirror}, status=409)


def mirrored_both_ways(server: LiveServer, shown: Shown) -> None:
    mirror = {name: shown["tap_mirrors"][name] for name in ("port_id", "remote_ip", "mirror_type")}
    body = {"tap_mirror": {**mirror, "directions": {"BOTH": 3}}}
    made = server.ask("POST", "/v2.0/taas/tap_mirrors", body)["tap_mirror"]
    assert made["directions"] == {"BOTH": 3}
    server.ask("DELETE", f"/v2.0/taas/tap_mirrors/{made['id']}")


def given_to_a_port(name: str, value: Any, profile: Object | None = None) -> Probe:
    """An attribute of a new port, with what it adds to the binding profile."""

    def probe(server: LiveServer, shown: Shown) -> None:
        port = created_port(server, shown, **{name: value})
        assert (port[name], port["binding:profile"]) == (value, profile or {})

    return probe


def changed_uplink_status(server: LiveServer, shown: Shown) -> None:
    path = f"/v2.0/ports/{shown['ports']['id']}"
    for value in (False, True):
        changed = server.ask("PUT", path, {"port": {"propagate_uplink_status": value}})["port"]
        assert changed["propagate_uplink_status"] is value


def mac_of_card(server: LiveServer, shown: Shown) -> None:
    card = {"binding:vnic_type": "direct-physical", "binding:profile": {"device_mac_address": "3c:fd:fe:00:00:09"}}
    assert created_port(server, shown, **card)["mac_address"] == "3c:fd:fe:00:00:09"


def series_of_a_port(server: LiveServer, shown: Shown) -> None:
    """No host reports here: the port is known, and has no samples."""
    port = server.ask("GET", "/v2.0/ports")["ports"][0]
    found = server.ask("GET", f"/v2.0/rates?port_id={port['id']}")["rates"]
    assert found == [{"port_id": port["id"], "samples": []}]


def traced_packet(server: LiveServer, shown: Shown) -> None:
    port = server.ask("POST", "/v2.0/ports", {"port": {"network_id": shown["networks"]["id"]}})["port"]
    body = {"trace": {"source_port_id": port["id"], "destination_address": "198.51.100.1"}}
    made = server.ask("POST", "/v2.0/traces", body)["trace"]
    server.ask("DELETE", f"/v2.0/ports/{port['id']}")
    assert (made["verdict"], made["cause"]) == ("dropped", "port-unbound")


def templates_of_rules(server: LiveServer, shown: Shown) -> None:
    path = "/v2.0/default-security-group-rules"
    used = {"used_in_default_sg": False, "used_in_non_default_sg": True}
    body = {"default_security_group_rule": {"direction": "ingress", "protocol": "igmp", **used}}
    rule = server.ask("POST", path, body)["default_security_group_rule"]
    group = server.ask("POST", "/v2.0/security-groups", {"security_group": {"name": "new"}})["security_group"]
    server.ask("DELETE", f"{path}/{rule['id']}")
    server.ask("DELETE", f"/v2.0/security-groups/{group['id']}")
    assert "igmp" in [one["protocol"] for one in group["security_group_rules"]]


def default_statefulness(server: LiveServer, shown: Shown) -> None:
    path, name = "/v2.0/security-groups-default-statefulness", "security_group_default_statefulness"
    setting = server.ask("POST", path, {name: {"project_id": "cd" * 16, "stateful": False}})[name]
    body = {"security_group": {"name": "new", "project_id": "cd" * 16}}
    group = server.ask("POST", "/v2.0/security-groups", body)["security_group"]
    server.ask("DELETE", f"{path}/{setting['id']}")
    assert group["stateful"] is False


def subports(server: LiveServer, shown: Shown) -> None:
    path, (carried,) = f"/v2.0/trunks/{shown['trunks']['id']}", shown["trunks"]["sub_ports"]
    one = {"sub_ports": [carried]}
    assert (
        server.ask("PUT", f"{path}/remove_subports", {"sub_ports": [{"port_id": carried["port_id"]}]})["sub_ports"]
        == []
    )
    assert server.ask("PUT", f"{path}/add_subports", one)["sub_ports"] == [carried]
    assert server.ask("GET", f"{path}/get_subports") == one
