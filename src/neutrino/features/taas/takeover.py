"""Tap services, flows and mirrors of tap-as-a-service in Neutron's database."""

import zlib

from neutrino.features.taas.tables import tap_flows, tap_mirror_tunnels, tap_mirrors, tap_services
from neutrino.features.taas.taps import MAX_TUNNEL_ID
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, unpaired
from neutrino.takeover.inverse import Parts, Theirs, as_text

_COMMON = (*pairs("id"), *pairs("project_id", "name", "description", default=""))


_SERVICE = (*_COMMON, *pairs("port_id"))
_FLOW = (*_COMMON, *pairs("tap_service_id", "source_port", "direction", "vlan_filter"))
_MIRROR = (*_COMMON, *pairs("port_id", "remote_ip", "mirror_type"))
_STATUS = frozenset({"status"})  # here it follows from the reports of hosts


def _services(chunk: Chunk) -> None:
    for row in chunk.rows:
        chunk.add(tap_services, paired(row, _SERVICE))


def _flows(chunk: Chunk) -> None:
    """Neutron has a tunnel id for each service, here each flow has its own: the first flow of a service keeps it."""
    numbers = chunk.first("tap_id_associations", "tap_service_id", "tap_service_id")
    taken: set[object] = set()
    for row in sorted(chunk.rows, key=lambda one: str(one["id"])):
        service = row["tap_service_id"]
        number = zlib.crc32(str(row["id"]).encode()) % MAX_TUNNEL_ID + 1
        if service in numbers and service not in taken:
            number = numbers[service]["taas_id"]
        taken.add(service)
        values = paired(row, _FLOW)
        chunk.add(tap_flows, {**values, "tunnel_id": number})


def _mirrors(chunk: Chunk) -> None:
    for row in chunk.rows:
        directions = chunk.decoded(row["id"], "directions", row["directions"], {})
        values = paired(row, _MIRROR)
        chunk.add(tap_mirrors, {**values, "directions": directions})
        for number in sorted({int(one) for one in directions.values()} if isinstance(directions, dict) else ()):
            tunnel = {"project_id": values["project_id"], "tunnel_id": number, "tap_mirror_id": row["id"]}
            chunk.add(tap_mirror_tunnels, tunnel)


def _their_services(parts: Parts) -> None:
    for row in parts.rows[tap_services]:
        parts.add("tap_services", {**unpaired(row, _SERVICE), "status": "DOWN"})


def _their_flows(parts: Parts) -> None:
    for row in parts.rows[tap_flows]:
        parts.add("tap_flows", {**unpaired(row, _FLOW), "status": "DOWN"})


def _their_mirrors(parts: Parts) -> None:
    for row in parts.rows[tap_mirrors]:
        parts.add("tap_mirrors", {**unpaired(row, _MIRROR), "directions": as_text(row["directions"])})


FAMILIES = (
    Family(
        name="tap services",
        source="tap_services",
        tables=(Owned(tap_services),),
        shown=(Shown("taas/tap_services", "tap_services"),),
        compose=_services,
        theirs=(Theirs("tap_services", once=_STATUS),),
        decompose=_their_services,
        after=("ports",),
    ),
    Family(
        name="tap flows",
        source="tap_flows",
        tables=(Owned(tap_flows),),
        shown=(Shown("taas/tap_flows", "tap_flows"),),
        compose=_flows,
        theirs=(Theirs("tap_flows", once=_STATUS),),
        decompose=_their_flows,
        reads=("tap_id_associations",),
        after=("tap services",),
        whole=True,
    ),
    Family(
        name="tap mirrors",
        source="tap_mirrors",
        tables=(Owned(tap_mirrors), Owned(tap_mirror_tunnels, "tap_mirror_id")),
        shown=(Shown("taas/tap_mirrors", "tap_mirrors"),),
        compose=_mirrors,
        theirs=(Theirs("tap_mirrors"),),
        decompose=_their_mirrors,
        after=("ports",),
    ),
)
