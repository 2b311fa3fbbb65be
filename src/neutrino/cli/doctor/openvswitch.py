"""Checks of Open vSwitch on a host: reachable, version, datapaths, bridges, interfaces and tunnels. All reading."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oslo_config import cfg

from neutrino.agent.config import ovsdb_files
from neutrino.cli.doctor.host import as_numbers, version
from neutrino.cli.doctor.machine import Machine
from neutrino.cli.doctor.ovsdb_client import NotReachable, select, several
from neutrino.cli.doctor.subject import Subject
from neutrino.dataplane.openflow.controllers import is_served
from neutrino.dataplane.ovsdb.api import NO_CONTROLLER
from neutrino.diagnosis import host_problems
from neutrino.diagnosis.problems import Finding
from neutrino.feed.address import short_path
from neutrino.model.objects import Object

OLDEST: Final = "2.17"
NEUTRON_CONTROLLER: Final = "tcp:127.0.0.1:6633"  # of Neutron's agent, by default
TUNNEL_TYPES: Final = ("vxlan", "geneve", "gre", "ip6gre")
TABLES: Final = {
    "Open_vSwitch": ("ovs_version", "datapath_types", "iface_types"),
    "Bridge": ("name", "datapath_type", "ports"),
    "Controller": ("target",),
    "Port": ("_uuid", "name", "interfaces"),
    "Interface": ("_uuid", "name", "type", "ofport", "error", "options", "external_ids", "statistics"),
}
IFF_VNET_HDR: Final = 0x4000  # of the kernel's if_tun.h
MANY_PACKETS: Final = 100
# The switch writes counters to its database every five seconds.
GROWTH_SECONDS: Final = 6
SECONDS: Final = 3.0


def read(subject: Subject) -> dict[str, list[Object]]:
    return select(subject.conf.ovs.ovsdb_connection, TABLES, tls=ovsdb_files(subject.conf))


def openvswitch(subject: Subject) -> Iterator[Finding]:
    conf = subject.conf
    try:
        rows = read(subject)
    except NotReachable as error:
        yield host_problems.OVSDB_UNREACHABLE(f"{conf.ovs.ovsdb_connection}: {error}")
        return
    if reason := switch_error(conf.ovs.run_directory):
        yield host_problems.VSWITCHD_DOWN(f"ovs-vswitchd does not respond in {conf.ovs.run_directory}: {reason}")
    (root,) = rows["Open_vSwitch"] or [{}]
    installed = version(str(root.get("ovs_version") or ""))
    if installed and as_numbers(installed) < as_numbers(OLDEST):
        yield host_problems.OVS_OLD(f"Open vSwitch has version {installed}", version=OLDEST)
    wanted, datapaths = conf.ovs.datapath_type, several(root.get("datapath_types"))
    if datapaths and wanted not in datapaths and wanted != "dummy":
        yield host_problems.DATAPATH_MISSING(
            f"[ovs] datapath_type = {wanted}, and the switch supports {', '.join(sorted(datapaths))}"
        )
    yield from _bridges(conf, rows["Bridge"])
    yield from _neutron_agents({str(row["target"]) for row in rows["Controller"]})
    yield from _interfaces(rows["Interface"])
    if wanted == "netdev" and (taps := sorted(_offloading(subject.machine, rows["Interface"]))):
        several_more = f" and {len(taps) - 1} more" if len(taps) > 1 else ""
        yield host_problems.CHECKSUM_OFFLOAD(f"instances are plugged directly with virtio: {taps[0]}{several_more}")


def _offloading(machine: Machine, rows: list[Object]) -> Iterator[str]:
    """Yield taps through which a guest may leave checksums to us: those whose packets have a header of virtio."""
    for row in rows:
        if "iface-id" in (row.get("external_ids") or {}):
            flags = machine.read(f"/sys/class/net/{row['name']}/tun_flags")
            if flags and int(flags, 16) & IFF_VNET_HDR:
                yield str(row["name"])


def switch_error(run_directory: str) -> str:
    """Return why the switch's control socket does not respond; empty if it does."""
    try:
        number = int((Path(run_directory) / "ovs-vswitchd.pid").read_text())
        with socket.socket(socket.AF_UNIX) as probe, short_path(f"{run_directory}/ovs-vswitchd.{number}.ctl") as path:
            probe.settimeout(SECONDS)
            probe.connect(path)
    except FileNotFoundError as error:
        return f"there is no {Path(error.filename or 'ovs-vswitchd.pid').name}"
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""


def _bridges(conf: cfg.ConfigOpts, rows: list[Object]) -> Iterator[Finding]:
    from neutrino.agent.config import bridge_mappings

    bridges = {row["name"]: row.get("datapath_type") or "system" for row in rows}
    wanted = conf.ovs.datapath_type
    mapped = bridge_mappings(conf)
    for network, bridge in mapped:
        if bridge not in bridges:
            yield host_problems.BRIDGE_MISSING(
                f"bridge {bridge} of physical network {network} does not exist", bridge=bridge, network=network
            )
    for bridge in (conf.ovs.integration_bridge, conf.ovs.tunnel_bridge, *(bridge for _, bridge in mapped)):
        if bridge in bridges and bridges[bridge] != wanted:
            yield host_problems.DATAPATH_DIFFERS(
                f"bridge {bridge} has the datapath {bridges[bridge]}, and [ovs] datapath_type is {wanted}",
                bridge=bridge,
                datapath=wanted,
            )


def _neutron_agents(controllers: set[str]) -> Iterator[Finding]:
    """Find a Neutron agent on a host that was taken over: bridges have an address in place of its own there."""
    if NO_CONTROLLER in controllers:
        for target in sorted({*controllers, NEUTRON_CONTROLLER} - {NO_CONTROLLER}):
            if is_served(target):
                yield host_problems.NEUTRON_AGENT_RUNS(f"an OpenFlow controller listens at {target}")


def _interfaces(rows: list[Object]) -> Iterator[Finding]:
    for row in sorted(rows, key=lambda row: str(row["name"])):
        if row.get("type") not in TUNNEL_TYPES and (reason := _error(row)):
            yield host_problems.INTERFACE_ERROR(f"interface {row['name']}: {reason}")


def _error(row: Object) -> str:
    if row.get("error"):
        return str(row["error"])
    return "the switch could not add it" if row.get("ofport") == -1 else ""


def tunnels(subject: Subject) -> Iterator[Finding]:
    """Check that tunnels exist and pass packets, by the switch's own counters: nothing is sent through them."""
    try:
        rows = read(subject)["Interface"]
        growing = _growing(subject, rows)
    except NotReachable:  # the check of Open vSwitch states it
        return
    peers = _peers(subject)
    for row in sorted(rows, key=lambda row: str(row["name"])):
        if row.get("type") not in TUNNEL_TYPES:
            continue
        remote = (row.get("options") or {}).get("remote_ip", "?")
        shown = f"tunnel {row['name']} ({row['type']}) to {peers.get(remote, 'host')} at {remote}"
        if reason := _error(row):
            yield host_problems.TUNNEL_ERROR(f"{shown}: {reason}")
            continue
        counters = row.get("statistics") or {}
        sent, received = counters.get("tx_packets", 0), counters.get("rx_packets", 0)
        if sent >= MANY_PACKETS and not received:
            yield host_problems.TUNNEL_ONE_WAY(f"{shown}: {sent} packets sent, none received")
        lost, more = _lost(row), growing.get(str(row["name"]), 0)
        if more:
            yield host_problems.TUNNEL_DROPS(f"{shown}: {more} packets could not be sent within {GROWTH_SECONDS} s")
        elif lost > sent:
            yield host_problems.TUNNEL_DROPS(f"{shown}: {lost} packets could not be sent, {sent} were")


def _lost(row: Object) -> int:
    """Count packets that could not be sent, since the start of the switch."""
    counters = row.get("statistics") or {}
    return int(counters.get("tx_errors", 0)) + int(counters.get("tx_dropped", 0))


def _growing(subject: Subject, before: list[Object]) -> dict[str, int]:
    """Count the packets that tunnels lose now: a loss of long ago stays in the counters until the switch restarts."""
    first = {str(row["name"]): _lost(row) for row in before if row.get("type") in TUNNEL_TYPES and _lost(row)}
    if not first:
        return {}
    subject.machine.sleep(GROWTH_SECONDS)
    after = {str(row["name"]): _lost(row) for row in read(subject)["Interface"]}
    return {name: after[name] - lost for name, lost in first.items() if after.get(name, 0) > lost}


def _peers(subject: Subject) -> dict[str, str]:
    """Return the hosts by their tunnel address."""
    state = subject.state
    hosts = state.objects["host"].values() if state is not None else ()
    return {host.tunneling_ip: f"host {host.id}" for host in hosts if host.tunneling_ip}
