"""Local IPs and their associations in Neutron's database."""

from neutrino.features.local_ip.tables import associations, local_ips
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, standard, unpaired, unpaired_rows
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_LOCAL_IP = pairs("local_port_id", "network_id", "local_ip_address", "ip_mode")
_ASSOCIATION = pairs("local_ip_id", "fixed_port_id", "fixed_ip")
_OWNER = "network:local_ip"  # of a port that was created with the local IP


def _compose(chunk: Chunk) -> None:
    ports = chunk.first("ports", "id", "local_port_id")
    for row in chunk.rows:
        port = ports.get(row["local_port_id"])
        owns = port is not None and port["device_owner"] == _OWNER
        values = standard(row, chunk.deviations, chunk.kind) | paired(row, _LOCAL_IP)
        chunk.add(local_ips, {**values, "owns_port": owns, "tags": []})
    for rows in chunk.children("local_ip_associations", "local_ip_id").values():
        for one in rows:
            chunk.add(associations, paired(one, _ASSOCIATION))


def _decompose(parts: Parts) -> None:
    for row in parts.rows[local_ips]:
        parts.add("local_ips", {**standard_columns(row), **unpaired(row, _LOCAL_IP)})
    unpaired_rows(parts, associations, "local_ip_associations", _ASSOCIATION)


FAMILIES = (
    Family(
        name="local IPs",
        source="local_ips",
        tables=(Owned(local_ips), Owned(associations, "local_ip_id")),
        shown=(Shown("local-ips", "local_ips", (("local_ips/{id}/port_associations", "port_associations"),)),),
        compose=_compose,
        theirs=(Theirs("local_ips"), Theirs("local_ip_associations", "local_ip_id")),
        decompose=_decompose,
        reads=("local_ip_associations",),
        after=("ports", "networks"),
    ),
)
