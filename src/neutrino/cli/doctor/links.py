"""Check of the links by which packets leave the host: of the underlay and of the bridges of physical networks.

As the agent reports them (`agent/l2/links.py`); here without an agent, by one request to the switch's database and one to
the kernel.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from neutrino.agent.config import bridge_mappings
from neutrino.agent.l2.bridges import KERNEL_TYPES
from neutrino.agent.l2.links import UNDERLAY
from neutrino.cli.doctor.openvswitch import read as read_switch
from neutrino.cli.doctor.ovsdb_client import NotReachable, several
from neutrino.cli.doctor.subject import Subject
from neutrino.dataplane.ovsdb.api import MARK
from neutrino.diagnosis import host_problems
from neutrino.diagnosis.problems import Finding
from neutrino.model.objects import Object

_UP, _NO_CARRIER = "UP", "NO-CARRIER"
MISSING: Final = "missing"


def links(subject: Subject) -> Iterator[Finding]:
    if "l2" not in subject.conf.roles:
        return
    for device, use, state in down(subject):
        yield host_problems.LINK_DOWN(f"the link of {device} ({use}) is down: {state}")


def down(subject: Subject) -> list[tuple[str, str, str]]:
    """The links that do not work: device, use and state."""
    devices = _devices(subject)
    return [
        (name, use, state)
        for name, use in sorted(_wanted(subject, devices).items())
        if (state := _state(devices.get(name)))
    ]


def _devices(subject: Subject) -> dict[str, Object]:
    done = subject.machine.run(["ip", "-json", "address", "show"])
    if done.status != 0:
        raise RuntimeError(done.error.strip() or "ip address show failed")
    return {device["ifname"]: device for device in msgspec.json.decode(done.out)}


def _wanted(subject: Subject, devices: dict[str, Object]) -> dict[str, str]:
    conf = subject.conf
    uses = {bridge: f"physical network {name}" for name, bridge in bridge_mappings(conf)}
    found: dict[str, str] = {}
    try:
        rows = read_switch(subject)
    except NotReachable:  # the check of Open vSwitch states it
        rows = {"Bridge": [], "Port": [], "Interface": []}
    bridges = {row["name"]: row for row in rows["Bridge"]}
    if conf.agent.tunnel_types and (local := _device_of(conf.ovs.local_ip, devices)):
        if local in bridges:
            uses[local] = UNDERLAY
        else:
            found[local] = UNDERLAY
    ports = {row["_uuid"]: row for row in rows["Port"]}
    interfaces = {row["_uuid"]: row for row in rows["Interface"]}
    for bridge, use in uses.items():
        members = (ports[uuid] for uuid in several(bridges.get(bridge, {}).get("ports")) if uuid in ports)
        rows_of = (interfaces[uuid] for port in members for uuid in several(port["interfaces"]) if uuid in interfaces)
        found |= dict.fromkeys(_uplinks(bridge, [*rows_of]), use)
    return found


def _uplinks(bridge: str, interfaces: Sequence[Object]) -> Iterator[str]:
    for row in interfaces:
        is_foreign = not (row.get("external_ids") or {}).keys() & {MARK, "iface-id"}
        if row["type"] in KERNEL_TYPES and row["name"] != bridge and is_foreign:
            yield row["name"]


def _device_of(text: str, devices: dict[str, Object]) -> str:
    try:
        wanted = ipaddress.ip_address(text)
    except ValueError:  # the check of the configuration states it
        return ""
    for name, device in devices.items():
        if any(
            ipaddress.ip_address(each["local"]) == wanted for each in device.get("addr_info", ()) if "local" in each
        ):
            return name
    return ""


def _state(device: Object | None) -> str:
    """What is wrong with a link; empty: nothing."""
    if device is None:
        return MISSING
    flags = device.get("flags")
    if flags is None:
        return ""
    if _UP not in flags:
        return "disabled"
    return "no carrier" if _NO_CARRIER in flags else ""
