"""The metadata address of IPv6 in a router.

169.254.169.254 is routed to a router like any other address, and redirected there. fe80::a9fe:a9fe is link-local: an
instance asks on its link who has it, so every internal device with IPv6 carries it. Packets whose source is of the device's
subnets, or link-local, are redirected to the metadata process's port, as those of IPv4 are (`nat`); all others for it are
dropped, and that port is for redirected packets alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from neutrino.agent.l3.names import INTERNAL, device
from neutrino.agent.l3.parts.nat import FOR_METADATA, METADATA_IP6, METADATA_MARK, NOT_FOR_METADATA, sources
from neutrino.dataplane.netlink.values import Address, address
from neutrino.dataplane.nft.api import Chain, Hook
from neutrino.model.routing import Router

_MANGLE, _DSTNAT, _FILTER = -150, -100, 0


def metadata_addresses(router: Router, metadata_port: int) -> Iterator[Address]:
    for interface in router.interfaces if metadata_port else ():
        if interface.admin_state_up and any(each.version == 6 for each in interface.addresses):
            yield address(device(INTERNAL, interface.id), f"{METADATA_IP6}/64", nodad=True)


def metadata_chains(router: Router, metadata_port: int) -> tuple[Chain, ...]:
    if not any(metadata_addresses(router, metadata_port)):
        return ()
    asked = f"ip6 daddr {METADATA_IP6} tcp dport 80"
    marked = f"{asked} meta mark set {METADATA_MARK:#x}"
    marks = (
        f'iifname "{INTERNAL}*" ip6 saddr fe80::/10 {marked}',
        *(f'iifname "{name}" ip6 saddr {cidrs} {marked}' for name, cidrs in sources(router, 6)),
        f'iifname "{INTERNAL}*" {asked} {NOT_FOR_METADATA} drop',
    )
    guard = (f"{FOR_METADATA} accept", f"tcp dport {metadata_port} drop")
    redirected = f"{FOR_METADATA} {asked} redirect to :{metadata_port}"
    return (
        Chain("marks", marks, Hook("filter", "prerouting", _MANGLE)),
        Chain("arriving", (redirected,), Hook("nat", "prerouting", _DSTNAT)),
        Chain("to_here", guard, Hook("filter", "input", _FILTER)),
    )
