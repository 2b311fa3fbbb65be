"""Distributed routers on the bridges: one router's MAC on every host, and never between them.

Leaving, on the tunnel bridge and on physical bridges: questions for a router's address, and packets to its MAC, go no
further, as the router that is meant is here. What the router here has sent gets this host's own MAC as its source: other
switches would see the router's in many places at once.

Arriving, on the integration bridge: a packet from another host's MAC has been routed there. It gets the MAC of the
receiver's gateway back, and goes on like any other. No MAC of a host is learned: it stands for many addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalNetwork, Uplink
from neutrino.agent.l2.distributed import Distributed, DistributedPort
from neutrino.agent.l2.flows.integration import push_tag, tag
from neutrino.agent.l2.pipeline import Table
from neutrino.dataplane.openflow.api import Flow

_UNTAGGED = "vlan_tci=0x0000/0x1fff"


def render_integration(
    here: Distributed, networks: Iterable[LocalNetwork], uplinks: Iterable[Uplink], patch_tun: int
) -> tuple[Flow, ...]:
    entry = pipeline.LOCAL_SWITCHING
    flows: list[Flow] = []
    for mac in here.others:
        if patch_tun:
            flows.append(entry.flow(5, f"in_port={patch_tun},dl_src={mac}", then=pipeline.DVR_TO_SRC_MAC))
        for uplink in uplinks:
            match = f"in_port={uplink.integration_ofport},dl_src={mac}"
            flows.append(entry.flow(5, match, then=pipeline.DVR_TO_SRC_MAC_PHYSICAL))
    for each in here.neighbours:
        flows.append(_given_back(pipeline.DVR_TO_SRC_MAC, f"dl_vlan={each.vlan}", each.mac, each.gateway_mac))
    for network in networks:
        flows += _from_physical(here, network)
    return tuple(flows)


def _given_back(table: Table, match: str, mac: str, gateway_mac: str, *before: str) -> Flow:
    source = f"set_field:{gateway_mac}->eth_src"
    return table.flow(4, f"{match},dl_dst={mac}", *before, source, then=pipeline.TRANSIENT)


def _from_physical(here: Distributed, network: LocalNetwork) -> Iterator[Flow]:
    """A segment to its local VLAN, as `integration.render_provisioning` does it for other packets."""
    table = pipeline.DVR_TO_SRC_MAC_PHYSICAL
    if network.key.network_type == "vlan":
        match, step = f"in_port={network.uplink},dl_vlan={network.key.segmentation_id}", tag(network.vlan)
    elif network.key.network_type == "flat":
        match, step = f"in_port={network.uplink},{_UNTAGGED}", push_tag(network.vlan)
    else:
        return
    yield table.flow(2, match, step, then=pipeline.TRANSIENT)
    for each in here.neighbours:
        if each.vlan == network.vlan:
            yield _given_back(table, match, each.mac, each.gateway_mac, step)


def render_tunnel(here: Distributed, vlans: frozenset[int], patch_int: int) -> tuple[Flow, ...]:
    not_learned = (
        pipeline.DVR_NOT_LEARN.flow(1, f"dl_src={mac}", f"output:{patch_int}") for mac in here.others if patch_int
    )
    leaving = _leaving(here, vlans, "", pipeline.DVR_PROCESS, pipeline.PATCH)
    return (*not_learned, *leaving)


def render_physical(here: Distributed, vlans: frozenset[int], uplink: Uplink) -> tuple[Flow, ...]:
    patch = f"in_port={uplink.physical_ofport}"
    entry, process, not_learned = (
        pipeline.PHYSICAL_ENTRY,
        pipeline.DVR_PROCESS_PHYSICAL,
        pipeline.DVR_NOT_LEARN_PHYSICAL,
    )
    return (
        entry.flow(3, patch, then=process),
        entry.flow(1, "", then=not_learned),
        *(not_learned.flow(2, f"dl_src={mac}", f"output:{uplink.physical_ofport}") for mac in here.others),
        *_leaving(here, vlans, f"{patch},", process, pipeline.VLAN_TRANSLATION),
    )


def _leaving(here: Distributed, vlans: frozenset[int], before: str, table: Table, onward: Table) -> Iterator[Flow]:
    for port in here.ports:
        if port.vlan in vlans:
            network = f"{before}dl_vlan={port.vlan}"
            yield from (table.flow(3, f"{question},{network}{more}", "drop") for question, more in _questions(port))
            yield table.flow(2, f"{network},dl_dst={port.mac}", "drop")
            # Before the server has told this host's MAC, nothing is said under one that others have too.
            actions = (f"set_field:{here.mac}->eth_src", table.goto(onward)) if here.mac else ("drop",)
            yield table.flow(1, f"{network},dl_src={port.mac}", *actions)


def _questions(port: DistributedPort) -> Iterator[tuple[str, str]]:
    """By which a router's address is asked for or announced, and routers are: each host's own answers."""
    for address in port.addresses:
        if ":" in address:
            yield "icmp6,icmp_type=135", f",nd_target={address}"
            yield "icmp6,icmp_type=136", f",nd_target={address}"
        else:
            yield "arp", f",arp_tpa={address}"
    yield "icmp6,icmp_type=134", f",dl_src={port.mac}"
