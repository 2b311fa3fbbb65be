"""Ports with addresses, groups and bindings."""

import ipaddress
from collections.abc import Sequence
from typing import Final

from neutrino.model.device_owners import DVR_INTERFACE
from neutrino.model.dns_names import address_name
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.ml2.ports.hardware import TRUSTED, shown_profile
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Shown, paired, pairs, standard, unpaired
from neutrino.takeover.inverse import BLOCKS, Parts, Theirs, as_text, standard_columns

_PORT = (
    *pairs("network_id", "mac_address", "status"),
    *pairs("admin_state_up", default=True),
    *pairs("device_id", "device_owner", default=""),
    *pairs("ip_allocation", default="immediate"),
)
ACTIVE: Final = "ACTIVE"
UNBOUND: Final[Object] = {"host": "", "vnic_type": "normal", "vif_type": "unbound", "profile": {}, "vif_details": {}}
DISTRIBUTED: Final[Object] = {**UNBOUND, "vif_type": "distributed"}
# Side tables of a port with one value: ours, the table, its column.
_SIDE = (
    ("qos_policy_id", "qos_port_policy_bindings", "policy_id", None),
    ("data_plane_status", "portdataplanestatuses", "data_plane_status", None),
    ("numa_affinity_policy", "portnumaaffinitypolicies", "numa_affinity_policy", None),
    ("device_profile", "portdeviceprofiles", "device_profile", None),
    ("hardware_offload_type", "porthardwareoffloadtype", "hardware_offload_type", None),
    ("trusted", "porttrusted", "trusted", None),
    ("port_security_enabled", "portsecuritybindings", "port_security_enabled", True),
    ("propagate_uplink_status", "portuplinkstatuspropagation", "propagate_uplink_status", True),
    ("dns_name", "portdnses", "dns_name", ""),
    ("dns_domain", "portdnses", "dns_domain", ""),
)


def _compose(chunk: Chunk) -> None:
    tags = chunk.tags()
    side = {table: chunk.first(table, "port_id") for _, table, _, _ in _SIDE}
    hints = chunk.first("porthints", "port_id")
    allocations = chunk.children("ipallocations", "port_id")
    groups = chunk.children("securitygroupportbindings", "port_id")
    pairs_of = chunk.children("allowedaddresspairs", "port_id")
    options = chunk.children("extradhcpopts", "port_id")
    bindings = chunk.children("ml2_port_bindings", "port_id")
    levels = chunk.children("ml2_port_binding_levels", "port_id")
    distributed = chunk.children("ml2_distributed_port_bindings", "port_id")
    blocks = chunk.children("provisioningblocks", "standard_attr_id", "standard_attr_id")
    subnets = {one["subnet_id"] for some in allocations.values() for one in some}
    known = chunk.source.existing("subnets", "id", subnets)
    for row in chunk.rows:
        key, labels = row["id"], tags.get(row.get("standard_attr_id"), [])
        single: Object = {
            ours: default if (found := side[table].get(key)) is None or found[column] is None else found[column]
            for ours, table, column, default in _SIDE
        }
        addresses = _addresses(chunk, row, allocations.get(key, ()), known)
        own_groups = sorted({one["security_group_id"] for one in groups.get(key, ())})
        binding, rows = _bindings(chunk, row, bindings.get(key, []), levels.get(key, []))
        if key in distributed or row["device_owner"] == DVR_INTERFACE:
            binding, rows = DISTRIBUTED, []
        values = {
            **standard(row, chunk.deviations, "ports"),
            **paired(row, _PORT),
            **single,
            "hints": chunk.decoded(key, "hints", hints[key]["hints"], None) if key in hints else None,
            "host": binding["host"],
            "vnic_type": binding["vnic_type"],
            "vif_type": binding["vif_type"],
            "profile": shown_profile(binding["profile"], single["trusted"]),
            "vif_details": _with_drivers(binding, levels.get(key, ())),
            "fixed_ips": [{"subnet_id": subnet, "ip_address": address} for subnet, address in addresses],
            "security_groups": own_groups,
            "allowed_address_pairs": [
                {name: one[name] for name in ("mac_address", "ip_address")} for one in pairs_of.get(key, ())
            ],
            "extra_dhcp_opts": [
                {name: one[name] for name in ("opt_name", "opt_value", "ip_version")} for one in options.get(key, ())
            ],
            "dns_assignment": [_dns(chunk, single["dns_name"], address) for _, address in addresses],
            "tags": labels,
        }
        chunk.add(t.ports, values)
        chunk.add_tags(key, labels)
        for subnet, address in addresses:
            chunk.add(
                t.ip_allocations,
                {"subnet_id": subnet, "ip_address": address, "port_id": key, "network_id": row["network_id"]},
            )
        for group in own_groups:
            chunk.add(t.port_security_groups, {"port_id": key, "security_group_id": group})
        for one in rows:
            chunk.add(t.port_bindings, one)
        for block in blocks.get(row.get("standard_attr_id"), ()):
            chunk.add(t.provisioning_blocks, {"port_id": key, "component": block["entity"]})


def _addresses(chunk: Chunk, port: Object, allocations: Sequence[Object], known: set[object]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for one in allocations:
        if one["subnet_id"] not in known:
            reason = f"address {one['ip_address']} of port {port['id']} is on a subnet that does not exist"
            chunk.deviations.leave_out("ipallocations", one["subnet_id"], reason)
            continue
        found.append((one["subnet_id"], canonical(one["ip_address"])))
    return sorted(found)


def canonical(address: str) -> str:
    """An address as it is stored and shown: IPv6 in its short form."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def _dns(chunk: Chunk, dns_name: str, address: str) -> Object:
    domain = chunk.dns_domain.strip(".")
    host = dns_name.partition(".")[0] or address_name(address)
    if dns_name.endswith(f".{domain}."):
        return {"ip_address": address, "hostname": host, "fqdn": dns_name}
    return {"ip_address": address, "hostname": host, "fqdn": f"{host}.{domain}." if domain else host}


def _bindings(
    chunk: Chunk, port: Object, bindings: list[Object], levels: Sequence[Object]
) -> tuple[Object, list[Object]]:
    """What the port shows of its active binding, and the rows of all; one without a host is no row of ours."""
    active = sorted((one for one in bindings if one["status"] == ACTIVE), key=lambda one: str(one["host"]))
    if len(active) > 1:
        with_levels = {one["host"] for one in levels}
        chosen = next((one for one in active if one["host"] in with_levels), active[0])
        for one in active:
            if one is not chosen:
                reason = f"has several ACTIVE bindings: that on {one['host']} becomes INACTIVE"
                chunk.deviations.repair("ml2_port_bindings", port["id"], reason)
        bindings = [one if one is chosen else {**one, "status": "INACTIVE"} for one in bindings]
        active = [chosen]
    rows = [_row(chunk, one, levels) for one in bindings if one["host"]]
    if not active:
        return dict(UNBOUND), rows
    return _decoded(chunk, active[0]), rows


def _with_drivers(binding: Object, levels: Sequence[Object]) -> Object:
    """The details that a port shows: with the drivers that bound it, which Neutron adds when it shows them."""
    drivers = {str(one["level"]): one["driver"] for one in levels if one["host"] == binding["host"]}
    return {**binding["vif_details"], "bound_drivers": drivers} if drivers else binding["vif_details"]


def _row(chunk: Chunk, binding: Object, levels: Sequence[Object]) -> Object:
    own = sorted((one for one in levels if one["host"] == binding["host"]), key=lambda one: int(one["level"]))
    return {
        **_decoded(chunk, binding),
        "port_id": binding["port_id"],
        "status": binding["status"],
        "levels": [{name: one[name] for name in ("level", "driver", "segment_id")} for one in own],
        "inactive_since": None if binding["status"] == ACTIVE else "",
    }


def _decoded(chunk: Chunk, binding: Object) -> Object:
    return {
        "host": binding["host"] or "",
        "vnic_type": binding["vnic_type"] or "normal",
        "vif_type": binding["vif_type"],
        "profile": chunk.decoded(binding["port_id"], "binding profile", binding["profile"], {}),
        "vif_details": chunk.decoded(binding["port_id"], "vif_details", binding["vif_details"], {}),
    }


# --- the inverse --------------------------------------------------------------------------------------------------------

_ALWAYS: Final = ("portsecuritybindings", "portuplinkstatuspropagation")  # tables with a row for every port
_PUBLISHED: Final = ("current_dns_name", "current_dns_domain", "previous_dns_name", "previous_dns_domain")
_DRIVERS: Final = "bound_drivers"


def _decompose(parts: Parts) -> None:
    blocks = parts.of(t.provisioning_blocks, "port_id")
    bindings = parts.of(t.port_bindings, "port_id")
    for row in parts.rows[t.ports]:
        key = row["id"]
        waits = [one["component"] for one in blocks.get(key, ())]
        parts.add("ports", {**standard_columns(row), **unpaired(row, _PORT), BLOCKS: waits})
        _add_single(parts, row)
        if row["hints"] is not None:
            parts.add("porthints", {"port_id": key, "hints": as_text(row["hints"])})
        for pair in row["allowed_address_pairs"]:
            parts.add("allowedaddresspairs", {"port_id": key, **pair})
        for option in row["extra_dhcp_opts"]:
            parts.add("extradhcpopts", {"port_id": key, **option})
        _add_bindings(parts, row, bindings.get(key, ()))
    for row in parts.rows[t.ip_allocations]:
        parts.add("ipallocations", unpaired(row, pairs("port_id", "ip_address", "subnet_id", "network_id")))
    for row in parts.rows[t.port_security_groups]:
        parts.add("securitygroupportbindings", unpaired(row, pairs("port_id", "security_group_id")))


def _add_single(parts: Parts, row: Object) -> None:
    """Rows of side tables that have one value: if it is not the default."""
    values: dict[str, Object] = {}
    for ours, table, column, default in _SIDE:
        values.setdefault(table, {})[column] = row[ours]
        if row[ours] != default or table in _ALWAYS:
            values[table]["port_id"] = row["id"]
    for table, columns in values.items():
        if "port_id" in columns:
            parts.add(table, {**columns, **(dict.fromkeys(_PUBLISHED, "") if table == "portdnses" else {})})


def _add_bindings(parts: Parts, port: Object, bindings: Sequence[Object]) -> None:
    """The bindings of a port; one without a host has a row too in Neutron, also if hosts share the port."""
    for one in bindings:
        binding = {"port_id": port["id"], **{name: one[name] for name in ("host", "status", "vnic_type", "vif_type")}}
        parts.add("ml2_port_bindings", {**binding, **_encoded(one)})
        for level in one["levels"]:
            parts.add("ml2_port_binding_levels", {"port_id": port["id"], "host": one["host"], **level})
    if not any(one["status"] == ACTIVE for one in bindings):
        vif_type = UNBOUND["vif_type"] if port["vif_type"] == DISTRIBUTED["vif_type"] else port["vif_type"]
        profile = {name: value for name, value in port["profile"].items() if port["trusted"] is None or name != TRUSTED}
        binding = {"port_id": port["id"], "host": "", "status": ACTIVE}
        more = {"vnic_type": port["vnic_type"], "vif_type": vif_type}
        parts.add("ml2_port_bindings", {**binding, **more, **_encoded({**port, "profile": profile})})


def _encoded(binding: Object) -> Object:
    details = {name: value for name, value in binding["vif_details"].items() if name != _DRIVERS}
    return {"profile": as_text(binding["profile"]), "vif_details": as_text(details)}


FAMILIES = (
    Family(
        name="ports",
        source="ports",
        tables=(
            Owned(t.ports),
            Owned(t.ip_allocations, "port_id"),
            Owned(t.port_security_groups, "port_id"),
            Owned(t.port_bindings, "port_id"),
            Owned(t.provisioning_blocks, "port_id"),
            TAGS,
        ),
        shown=(Shown("ports", parts=(("ports/{id}/bindings", "bindings"),)),),
        compose=_compose,
        theirs=(
            Theirs("ports"),
            Theirs("qos_port_policy_bindings", "port_id", identity=("port_id",)),
            *(
                Theirs(table, "port_id", once=frozenset(_PUBLISHED))
                for table in dict.fromkeys(table for _, table, _, _ in _SIDE)
                if table != "qos_port_policy_bindings"
            ),
            *(Theirs(name, "port_id") for name in ("porthints", "ipallocations", "securitygroupportbindings")),
            Theirs("allowedaddresspairs", "port_id"),
            Theirs("extradhcpopts", "port_id", identity=("port_id", "opt_name", "ip_version")),
            Theirs("ml2_port_bindings", "port_id"),
            Theirs("ml2_port_binding_levels", "port_id"),
        ),
        decompose=_decompose,
        reads=(
            *(table for _, table, _, _ in _SIDE),
            *("porthints", "ipallocations", "securitygroupportbindings", "allowedaddresspairs", "extradhcpopts"),
            *("ml2_port_bindings", "ml2_port_binding_levels", "ml2_distributed_port_bindings", "provisioningblocks"),
        ),
        after=("networks", "subnets", "security groups", "QoS policies"),
    ),
)
