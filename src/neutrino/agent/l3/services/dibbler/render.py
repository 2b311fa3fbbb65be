"""Prefix delegation: addresses and configuration of a router's DHCPv6 clients, and what they report. Pure.

    qg-… ── fe80::A, client of subnet A ──▶ DHCPv6 server: a prefix for A ──▶ notify ──▶ file and fifo ──▶ agent ──▶ server

Each subnet has a client of its own, so that its prefix is requested, renewed and released independently. A DHCPv6
server replies to one port of the client's address, so each client has its own link-local address on the gateway device.
A client's DUID is derived from the subnet's id: another host that takes over the router gets the same prefix.
"""

import hashlib
import ipaddress
import uuid

from neutrino.agent.l3.names import EXTERNAL, device
from neutrino.model.routing import Router

PROVISIONAL = "::/64"  # reported to the server when there is no prefix any more
PREFIX_FILE, NOTIFY_FIFO, SCRIPT_FILE = "prefix", "news", "notify"
_LENGTH = 64
_LINK_LOCAL = ipaddress.IPv6Address("fe80::")
_LOCAL = ~(0x02 << 56)  # clears the universal bit: the interface identifier is not derived from a MAC

# The client runs this script with the event as argument and the prefix in its environment. It is not run when a prefix
# is not renewed in time, so the valid lifetime is written too. The fifo is opened for reading as well: opening it for
# writing alone would block while no agent reads it.
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
[ ! -p ../../{NOTIFY_FIFO} ] || pwd 1<>../../{NOTIFY_FIFO}
"""


def asked_here(router: Router) -> bool:
    """Whether the router's DHCPv6 clients run on this host, if it is the active one."""
    outside = router.gateway is not None and router.gateway.admin_state_up
    return bool(outside and router.delegations and (router.centralized or not router.distributed))


def source_address(subnet_id: str) -> str:
    """The link-local address of a subnet's client."""
    digest = hashlib.blake2b(subnet_id.encode(), digest_size=8).digest()
    return str(_LINK_LOCAL + (int.from_bytes(digest, "big") & _LOCAL))


def render_client(router: Router, subnet_id: str, vendor_pen: int, script: str) -> str:
    """dibbler-client's configuration for one subnet."""
    assert router.gateway is not None, "prefix delegation needs a gateway"
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
    """The first /64 of the prefix that a client's script wrote `age` seconds ago; empty if it has expired.

    ValueError for a prefix that is smaller than a subnet.
    """
    network, _, lifetime = text.strip().partition(" ")
    given = ipaddress.IPv6Network(network, strict=False)
    if str(given) == PROVISIONAL or (lifetime.isdigit() and age > int(lifetime)):
        return ""
    if given.prefixlen > _LENGTH:
        raise ValueError(f"{given} is too small: a subnet needs a /{_LENGTH}")
    return str(next(given.subnets(new_prefix=_LENGTH)))
