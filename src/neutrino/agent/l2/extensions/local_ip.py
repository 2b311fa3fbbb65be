"""Local IPs: on each host, an address of a network is translated to the associated port of that host.

A packet from a port of the network passes the extension's egress table before the port's firewall. ARP requests for the
address are answered with the associated port's MAC. IPv4 packets to the address get that MAC, and by conntrack the port's
own address; from there on everything, both firewalls included, sees a connection to the port itself. The replies pass the
ingress table of the port that opened the connection, after its firewall, where conntrack translates the source back. A port
that has not used the local IP may talk to the same port by its own address: its packets are in no translated connection.

    port A ── egress table: to the local IP → to B ── firewalls ── B
    port A ◄─ ingress table: from B → from the local IP ── firewalls ── B

The zone of these connections is the network's own, as its addresses may be another network's too. The connection state is
cleared after the translation: it says nothing about the security groups' zone.

With `passthrough` only the MAC is changed. The port has to know the address, and be allowed to send from it.

A port that is associated with a local IP itself reaches the true owner of the address. Where two ports of a host are
associated with the same one, the first by id counts. Addresses of IPv6 are not translated: Neutron's agent does not either.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import NamedTuple

from neutrino.agent.l2.desired import Desired, L2Options
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, network_owner, port_owner
from neutrino.agent.l2.extensions.arp import arp_reply
from neutrino.agent.l2.pipeline import REG_NET, Table
from neutrino.dataplane.openflow.api import Flow

ZONES = 0x7000  # with a local VLAN: above the hybrid firewall's zones, below those of firewall groups
_TRACKED, _EXCEPTED, _LOCAL, _ENTRY = 40, 30, 20, 1  # priorities


class Association(NamedTuple):
    local_ip: str
    fixed_ip: str
    mac: str
    ofport: int
    translated: bool


class LocalIps(L2Extension):
    name = "local ip"
    neutron_name = "local_ip"
    has_table = True
    has_ingress_table = True

    def egress_ports(self, desired: Desired) -> Collection[str]:
        associations = _by_vlan(desired)
        return [port.id for port in desired.ports if port.vlan in associations]

    def ingress_ports(self, desired: Desired) -> Collection[str]:
        return self.egress_ports(desired)

    def units(self, desired: Desired) -> Iterator[Unit]:
        associations = _by_vlan(desired)
        for port in desired.ports:
            if port.vlan in associations:
                yield Unit(port_owner(port), (desired.options, port.ofport, port.vlan), _client)
        for network in desired.networks:
            if network.vlan in associations:
                inputs = desired.options, network.vlan, tuple(associations[network.vlan].values())
                yield Unit(network_owner(network), inputs, _network)


def _by_vlan(desired: Desired) -> dict[int, dict[str, Association]]:
    """The associations of ports here, by local VLAN and local IP."""
    found: defaultdict[int, dict[str, Association]] = defaultdict(dict)
    for port in desired.ports:  # by id
        whole = desired.host_state.ports[port.id]
        for local_ip in whole.local_ips if not port.standby else ():
            # On another network the address may be any port's, or the gateway's, whose traffic this port would get.
            is_of_network = local_ip.network_id == whole.network_id
            if is_of_network and ":" not in local_ip.local_ip_address and ":" not in local_ip.fixed_ip:
                one = Association(
                    local_ip.local_ip_address, local_ip.fixed_ip, port.mac, port.ofport, local_ip.ip_mode == "translate"
                )
                found[port.vlan].setdefault(one.local_ip, one)
    return dict(found)


def _client(options: L2Options, ofport: int, vlan: int) -> Contribution:
    """A port of a network with local IPs: its packets pass the table once more, with the network in its register."""
    table = options.extension_table(LocalIps.name)
    entering = table.flow(_ENTRY, f"in_port={ofport},{REG_NET}=0", f"set_field:{vlan}->{REG_NET}", then=table)
    return Contribution({options.integration_bridge: [entering]})


def _network(options: L2Options, vlan: int, associations: tuple[Association, ...]) -> Contribution:
    egress, ingress = options.extension_table(LocalIps.name), options.ingress_table(LocalIps.name)
    here = f"{REG_NET}={vlan}"
    flows: set[Flow] = {
        egress.flow(_TRACKED, f"ip,{here},ct_state=+trk", "ct_clear", then=options.after_extension(egress)),
        ingress.flow(_TRACKED, f"ip,{here},ct_state=+trk", "ct_clear", then=options.after_ingress(ingress)),
    }
    for association in associations:
        flows |= {*_requests(options, egress, here, association), *_packets(options, egress, here, vlan, association)}
        if association.translated:
            match = f"ip,{here},ct_state=-trk,dl_src={association.mac},nw_src={association.fixed_ip}"
            flows.add(ingress.flow(_LOCAL, match, f"ct(table={ingress.number},zone={ZONES | vlan},nat)"))
    return Contribution({options.integration_bridge: flows})


def _requests(options: L2Options, table: Table, here: str, each: Association) -> Iterator[Flow]:
    request, after = f"arp,{here},arp_op=1,arp_tpa={each.local_ip}", options.after_extension(table)
    yield table.flow(_LOCAL, request, *arp_reply(each.local_ip, each.mac))
    # The associated port asks for the true owner; a probe is of a port that is about to use the address itself.
    yield table.flow(_EXCEPTED, f"{request},in_port={each.ofport}", then=after)
    yield table.flow(_EXCEPTED + 1, f"{request},arp_spa=0.0.0.0", then=after)


def _packets(options: L2Options, table: Table, here: str, vlan: int, each: Association) -> Iterator[Flow]:
    packet, after = f"ip,{here},ct_state=-trk,nw_dst={each.local_ip}", options.after_extension(table)
    yield table.flow(_EXCEPTED, f"{packet},in_port={each.ofport}", then=after)
    to_port = f"set_field:{each.mac}->eth_dst"
    if each.translated:
        translate = f"ct(commit,table={table.number},zone={ZONES | vlan},nat(dst={each.fixed_ip}))"
        yield table.flow(_LOCAL, packet, to_port, translate)
    else:
        yield table.flow(_LOCAL, packet, to_port, then=after)
