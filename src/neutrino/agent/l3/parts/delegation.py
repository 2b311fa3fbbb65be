"""Prefixes that a router asks for outside, by DHCPv6: what its clients are told, and what they tell. Pure.

    qg-… ── fe80::A, client of subnet A ──▶ DHCPv6 server: a prefix for A ──▶ notify ──▶ file and fifo ──▶ agent ──▶ server

There is one client for each subnet, so that each prefix is asked for, renewed and given back by itself. All answers of a
DHCPv6 server go to one port of the client's address, so each has a link-local address of its own on the gateway's device.
A client is known to the DHCPv6 server by the subnet's id: another host that takes the router over gets the same prefix.
"""

from __future__ import annotations

import hashlib
import ipaddress
import uuid
from collections.abc import Iterator

from neutrino.agent.l3.names import EXTERNAL, device, router_namespace, snat_namespace
from neutrino.dataplane.netlink.values import Address, address
from neutrino.model.routing import Router

PROVISIONAL = "::/64"  # what the server is told when there is no prefix any more
PREFIX_FILE, NEWS_FIFO, SCRIPT_FILE = "prefix", "news", "notify"
_LENGTH = 64
_LINK_LOCAL = ipaddress.IPv6Address("fe80::")
_OWN_CHOICE = ~(0x02 << 56)  # of an interface identifier that is not made of a MAC

# The client calls this, which is in its directory, with what happened and the prefix in its environment; it says nothing
# when a prefix is not renewed in time, so the seconds for which it holds are noted. The fifo is opened for reading too:
# without an agent that reads it, opening it would wait.
NOTIFY = f"""#!/bin/sh
cd "${{0%/*}}" || exit 1
case "$1" in
add | update)
    [ -n "$PREFIX1" ] || exit 0
    printf '%s/%s %s\\n' "$PREFIX1" "${{PREFIX1LEN:-64}}" "$PREFIX1VALID" >{PREFIX_FILE}.new
    ;;
delete | expire)
    printf '%s\\n' {PROVISIONAL} >{PREFIX_FILE}.new
    ;;
*) exit 0 ;;
esac
mv {PREFIX_FILE}.new {PREFIX_FILE} || exit 1
[ ! -p ../../{NEWS_FIFO} ] || pwd 1<>../../{NEWS_FIFO}
"""


def asked_here(router: Router) -> bool:
    """Whether this host, if it is the active one, is where the router's prefixes are asked for."""
    outside = router.gateway is not None and router.gateway.admin_state_up
    return bool(outside and router.delegations and (router.centralized or not router.distributed))


def client_namespace(router: Router) -> str:
    """Where the gateway's device is."""
    return snat_namespace(router.id) if router.distributed else router_namespace(router.id)


def source_address(subnet_id: str) -> str:
    """The link-local address by which a subnet's client speaks."""
    digest = hashlib.blake2b(subnet_id.encode(), digest_size=8).digest()
    return str(_LINK_LOCAL + (int.from_bytes(digest, "big") & _OWN_CHOICE))


def client_addresses(router: Router) -> Iterator[Address]:
    if router.gateway is not None and asked_here(router):
        name = device(EXTERNAL, router.gateway.id)
        yield from (address(name, f"{source_address(each.subnet_id)}/64", nodad=True) for each in router.delegations)


def render_client(router: Router, subnet_id: str, vendor_pen: int, script: str) -> str:
    """The configuration of dibbler's client for one subnet."""
    assert router.gateway is not None, "prefixes are asked for outside"
    lines = [
        "log-level 5",
        "log-mode short",
        f"duid-type duid-en {vendor_pen} 0x{uuid.UUID(subnet_id).hex}",
        'downlink-prefix-ifaces "none"',
        f'script "{script}"',
        f'iface "{device(EXTERNAL, router.gateway.id)}" {{',
        f"    bind-to-address {source_address(subnet_id)}",
        "    pd 1",
        "}",
    ]
    return "\n".join(lines) + "\n"


def parse_prefix(text: str, age: float) -> str:
    """The first prefix for a subnet in what a client was given so many seconds ago; empty if it has none any more.

    ValueError if it is of no use.
    """
    network, _, holds = text.strip().partition(" ")
    given = ipaddress.IPv6Network(network, strict=False)
    if str(given) == PROVISIONAL or (holds.isdigit() and age > int(holds)):
        return ""
    if given.prefixlen > _LENGTH:
        raise ValueError(f"{given} is too small: a subnet needs a /{_LENGTH}")
    return str(next(given.subnets(new_prefix=_LENGTH)))
