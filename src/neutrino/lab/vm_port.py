"""The port of a lab's VM, handled as Nova handles that of an instance."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from neutrino.lab.api import Api, Object, Refused
from neutrino.lab.errors import LabError

OWNER = "compute:lab"
NOT_BOUND = ("unbound", "binding_failed")


def make(
    api: Api,
    name: str,
    network: str | None,
    host: str,
    device_id: str,
    groups: Sequence[str] | None = None,
    address: str | None = None,
) -> Object:
    """A new port, bound to the host; with any free address and the project's default security group if none is named."""
    if network is None:
        raise LabError(f"VM {name} needs a network or a port")
    found = api.find("network", network)
    values: dict[str, Any] = {"network_id": found["id"], "project_id": found["project_id"], "name": name}
    if groups is not None:
        values["security_groups"] = [api.find("security_group", group)["id"] for group in groups]
    if address is not None:
        values["fixed_ips"] = [{"ip_address": address}]
    return api.create("port", **values, **_bound(host, device_id))


def take(api: Api, port: str, host: str, device_id: str) -> Object:
    """A port that is there already, bound to the host."""
    found = api.find("port", port)
    if found["device_id"]:
        raise LabError(f"port {port} belongs to {found['device_owner'] or 'device'} {found['device_id']} already")
    return api.update("port", found["id"], **_bound(host, device_id))


def _bound(host: str, device_id: str) -> dict[str, str]:
    return {"device_owner": OWNER, "device_id": device_id, "binding:host_id": host}


def release(api: Api, port_id: str, owned: bool) -> None:
    """Delete a port of ours; another one is nobody's again. One that is gone is fine."""
    try:
        if owned:
            api.delete("port", port_id)
        else:
            api.update("port", port_id, **{"device_owner": "", "device_id": "", "binding:host_id": ""})
    except Refused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def check_bound(api: Api, port: Object, host: str) -> int:
    """The MTU for the port's device, if the host can carry its network."""
    network = api.show("network", port["network_id"])
    if port["binding:vif_type"] in NOT_BOUND:
        raise LabError(
            f"port {port['id']} cannot be bound to {host}: its agent is not alive or cannot carry network "
            f"{network['name'] or network['id']} (type {network['provider:network_type']})"
        )
    return int(network["mtu"])


def is_hybrid(port: Object) -> bool:
    return bool(port["binding:vif_details"].get("ovs_hybrid_plug"))
