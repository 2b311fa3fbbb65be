"""Tunnels of taps, to other hosts and to collectors, and the statuses of taps. Pure.

    tap flow to another host   gre port tpf-… on both hosts, with the flow's own key; where the monitoring port is,
                               a flow outputs what arrives to that port
    tap mirror                 gre or erspan port tmi-…, tmo-… or tmb-… (in, out, both), which only sends

The copies are made by flows (`taps.py`), as soon as a tunnel has its number in the switch.
"""

import hashlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

from neutrino.agent.l2.desired import Desired, HostState, L2Options
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit
from neutrino.agent.l2.pipeline import LOCAL_SWITCHING
from neutrino.agent.runtime.role import ObjectStatus
from neutrino.dataplane.ovsdb.api import SetPort
from neutrino.model.state import Host
from neutrino.model.taps import BOTH, IN, NO_TAPS, OUT, TapMirror, Taps, tunnel_key

LOG = logging.getLogger(__name__)
_ARRIVING = 200  # the priority
_SESSION = 0x3FF  # the bits of ERSPAN's session id
_PREFIXES = {IN: "tmi-", OUT: "tmo-", BOTH: "tmb-"}


class TapTunnels(L2Extension):
    """Tunnels of taps to other hosts and to collectors, and the statuses of taps."""

    name = "tap tunnels"

    def units(self, desired: Desired) -> Iterator[Unit]:
        options, state = desired.options, desired.host_state
        here = {port.id: port for port in desired.ports}
        has_mirrors = any(taps_of(state, port.id).mirrors for port in desired.ports)
        hosts = _tunnel_addresses(state.hosts.values()) if has_mirrors else frozenset()
        for port in desired.ports:
            taps = taps_of(state, port.id)
            for flow in taps.flows:
                if flow.port_id not in here and flow.host and flow.host != options.host:
                    inputs = options, flow.id, flow.tunnel_id, flow.host, state.hosts.get(flow.host)
                    yield Unit(f"tap flow {flow.id}", inputs, _tunnel)
            for origin in taps.origins:
                if origin.host and origin.host != options.host:
                    inputs = options, origin.id, origin.tunnel_id, origin.host, state.hosts.get(origin.host)
                    number = desired.plugged.extension_ports.get(flow_tunnel_name(origin.id), 0)
                    yield Unit(f"tap flow {origin.id}", (*inputs, number, port.ofport), _tunnel)
            for mirror in taps.mirrors:
                is_host = ip_address(mirror.remote_ip) in hosts
                yield Unit(f"tap mirror {mirror.id} {mirror.direction}", (options, mirror, is_host), _collector)

    def statuses(
        self, host_state: HostState, wired: Collection[str], failed: Mapping[str, str]
    ) -> Iterator[ObjectStatus]:
        for port_id in sorted(host_state.ports):
            taps = taps_of(host_state, port_id)
            if port_id not in wired or taps is NO_TAPS:
                continue
            for service_id in taps.services:
                yield ObjectStatus("tap_service", service_id, "ACTIVE")
            for flow in taps.flows:
                reason = failed.get(f"tap flow {flow.id}") or failed.get(owner_of(port_id), "")
                # A monitoring port of this host that is not wired, or is not bound, gets no copies.
                if reason or (flow.host and (flow.port_id in wired or flow.port_id not in host_state.ports)):
                    yield ObjectStatus("tap_flow", flow.id, "ERROR" if reason else "ACTIVE", reason=reason)


def flow_tunnel_name(flow_id: str) -> str:
    return f"tpf-{flow_id[:11]}"


def mirror_tunnel_name(mirror: TapMirror) -> str:
    return f"{_PREFIXES[mirror.direction]}{mirror.id[:11]}"


def owner_of(port_id: str) -> str:
    """Not the port itself: if the switch rejects these flows, the port works without them."""
    return f"taps of port {port_id}"


def taps_of(host_state: HostState, port_id: str) -> Taps:
    port = host_state.ports.get(port_id)
    return (port.taps or NO_TAPS) if port is not None else NO_TAPS


def _tunnel(
    options: L2Options, flow_id: str, tunnel_id: int, name: str, peer: Host | None, number: int = 0, sink: int = 0
) -> Contribution:
    """The tunnel between the hosts of a tap flow. At its end, with a `sink`, copies go to that port and nowhere else."""
    if not options.local_ip or peer is None or not peer.tunneling_ip:
        raise ValueError(f"{name if options.local_ip else 'this host'} has no address for tunnels, which copies need")
    if ip_address(peer.tunneling_ip).version != ip_address(options.local_ip).version:
        raise ValueError(f"the tunnel address of {name} is of another IP version than this host's")
    key = str(tunnel_key(tunnel_id))
    settings = {"remote_ip": peer.tunneling_ip, "local_ip": options.local_ip, "in_key": key, "out_key": key}
    row = _port(options, flow_tunnel_name(flow_id), "gre", settings)
    flows = [LOCAL_SWITCHING.flow(_ARRIVING, f"in_port={number}", f"output:{sink}")] if number and sink else []
    return Contribution({options.integration_bridge: flows}, rows=(row,))


def _tunnel_addresses(hosts: Iterable[Host]) -> frozenset[IPv4Address | IPv6Address]:
    return frozenset(ip_address(host.tunneling_ip) for host in hosts if host.tunneling_ip)


def _collector(options: L2Options, mirror: TapMirror, is_host: bool) -> Contribution:
    """The tunnel of a tap mirror. It only sends: packets that come through it are dropped, as no flow is for them.

    Its incoming key is one of the reserved ones, so that a mirror to the address of another host takes no packets of the
    networks' tunnels, and two mirrors to a collector are not the same tunnel for the switch.
    """
    if is_host:
        # The server refuses such a mirror, but the host may be newer. It would take the copies for packets of a network.
        LOG.warning("tap mirror %s is not served: %s is the tunnel address of a host", mirror.id, mirror.remote_ip)
        return Contribution()  # not an error, with which the tunnel would stay
    text = f"{mirror.id} {mirror.direction}"
    digest = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    settings = {"remote_ip": mirror.remote_ip, "in_key": str(tunnel_key(digest & 0x0FFFFFFF))}
    if options.local_ip and ip_address(options.local_ip).version == ip_address(mirror.remote_ip).version:
        settings["local_ip"] = options.local_ip
    if mirror.mirror_type == "gre":
        row = _port(options, mirror_tunnel_name(mirror), "gre", {**settings, "out_key": str(mirror.tunnel_id)})
    else:
        # The switch reads the index as a hexadecimal number, whatever it begins with.
        erspan = {
            "erspan_ver": "1",
            "erspan_idx": f"{mirror.tunnel_id:#x}",
            "out_key": str(mirror.tunnel_id & _SESSION),
        }
        row = _port(options, mirror_tunnel_name(mirror), "erspan", {**settings, **erspan})
    return Contribution(rows=(row,))


def _port(options: L2Options, name: str, kind: str, settings: Mapping[str, str]) -> SetPort:
    # Copies of the largest packets of a network are larger than the underlay's MTU: they are sent in fragments.
    return SetPort(options.integration_bridge, name, kind, options={**settings, "df_default": "false"})
