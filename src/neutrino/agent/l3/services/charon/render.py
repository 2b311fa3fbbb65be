"""The configuration of charon for a router, and its connections as VICI messages. Pure.

A connection's name in charon is its id with a digest of all that it consists of: one that has changed in any way has
another name. So what a running charon has is compared by names alone, and connections that stay are not touched.
"""

import hashlib
from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

import msgspec

from neutrino.dataplane.protocols.vici.protocol import Message
from neutrino.model.routing import Router
from neutrino.model.vpn import IkePolicy, IpsecPolicy, VpnConnection

CHARON: Final = "charon-systemd"  # unlike charon it has no pid file of its own, so that several run on one host
SOCKET: Final = "vici"
CHARON_TABLE: Final = 220  # charon's default: its routes into tunnels
CHARON_MARK: Final = 0x42  # of packets of charon's own sockets: they are not sent into a tunnel again
_PLUGINS: Final = (
    *("random", "nonce", "aes", "sha1", "sha2", "hmac", "kdf", "xcbc", "cmac", "ctr", "ccm", "gcm", "curve25519"),
    *("gmp", "openssl", "vici", "socket-default"),
)
_GROUPS: Final = {
    f"group{number}": name
    for number, name in {
        2: "modp1024",
        5: "modp1536",
        14: "modp2048",
        15: "modp3072",
        16: "modp4096",
        17: "modp6144",
        18: "modp8192",
        19: "ecp256",
        20: "ecp384",
        21: "ecp521",
        22: "modp1024s160",
        23: "modp2048s224",
        24: "modp2048s256",
        25: "ecp192",
        26: "ecp224",
        27: "ecp224bp",
        28: "ecp256bp",
        29: "ecp384bp",
        30: "ecp512bp",
        31: "curve25519",
    }.items()
}
_DPD: Final = {"hold": "restart", "restart": "restart", "restart-by-peer": "restart", "clear": "clear"}


def served(router: Router) -> tuple[VpnConnection, ...]:
    """The connections whose tunnels this host ends, if it is the active one of an HA router."""
    if router.gateway is None or (router.distributed and not router.centralized):
        return ()
    enabled = (
        connection for service in router.vpn_services for connection in service.connections if connection.admin_state_up
    )
    return tuple(each for each in enabled if _local_address(router, each) is not None)


def _local_address(router: Router, connection: VpnConnection) -> str | None:
    """The gateway's address of the peer's IP version, which the API shows as that of the VPN service."""
    addresses = router.gateway.addresses if router.gateway is not None else ()
    return min((address.ip_address for address in addresses if address.version == connection.version), default=None)


class Loaded(NamedTuple):
    """A connection as charon gets it."""

    connection_id: str
    key: Message  # of load-shared
    connection: Message  # of load-conn
    children: tuple[str, ...]
    initiates: bool


def connections(router: Router, secret: bytes) -> dict[str, Loaded]:
    """Return the connections by name.

    `secret` keys the digests: names end in logs, and a digest must not help to guess a pre-shared key.
    """
    return {_name(each, router, secret): _loaded(each, router, secret) for each in served(router)}


def _name(connection: VpnConnection, router: Router, secret: bytes) -> str:
    text = msgspec.json.encode((connection, _local_address(router, connection)))
    return f"{connection.id}.{hashlib.blake2b(text, key=secret, digest_size=8).hexdigest()}"


def connection_id(name: str) -> str:
    return name.partition(".")[0]


def _loaded(connection: VpnConnection, router: Router, secret: bytes) -> Loaded:
    name, address = _name(connection, router, secret), _local_address(router, connection)
    assert address is not None, "only such connections are served"
    own = connection.local_id or address
    children = dict(_children(connection))
    ike = {
        "version": str(connection.ike.version),
        "aggressive": "yes" if connection.ike.aggressive else "no",
        "local_addrs": [address],
        "remote_addrs": [connection.peer_address],
        "proposals": [ike_proposal(connection.ike)],
        "mobike": "no",
        "keyingtries": "0",
        "unique": "replace",
        **_times(connection.ike.lifetime, "over_time"),
        **_dead_peer(connection),
        "local": {"auth": "psk", "id": own},
        "remote": {"auth": "psk", "id": connection.peer_id},
        "children": children,
    }
    key = {"id": name, "type": "IKE", "data": connection.psk, "owners": [connection.peer_id, own]}
    return Loaded(connection.id, key, {name: ike}, tuple(children), connection.initiates)


def _children(connection: VpnConnection) -> Iterator[tuple[str, Message]]:
    """Yield children: with IKEv2 one for all subnets of both sides; with IKEv1 one for each pair."""
    pairs = [(list(connection.local_cidrs), list(connection.peer_cidrs))]
    if connection.ike.version == 1:
        pairs = [([here], [there]) for here, there in product(connection.local_cidrs, connection.peer_cidrs)]
    proposals = {f"{connection.ipsec.protocol}_proposals": [ipsec_proposal(connection.ipsec)]}
    for number, (here, there) in enumerate(pairs):
        yield (
            f"net-{number}",
            {
                "local_ts": here,
                "remote_ts": there,
                "mode": connection.ipsec.mode,
                **proposals,
                **_times(connection.ipsec.lifetime, "life_time"),
                "start_action": "start" if connection.initiates else "none",
                "dpd_action": _DPD.get(connection.dpd_action, "clear") if connection.initiates else "clear",
            },
        )


def _times(lifetime: int, hard: str) -> dict[str, str]:
    """Keys are replaced before their lifetime ends: `over_time` counts from there, `life_time` from the start."""
    soft = max(lifetime * 9 // 10, 1)
    return {"rekey_time": f"{soft}s", hard: f"{lifetime - soft if hard == 'over_time' else lifetime}s"}


def _dead_peer(connection: VpnConnection) -> dict[str, str]:
    if connection.dpd_action == "disabled" or not connection.dpd_interval:
        return {}
    return {"dpd_delay": f"{connection.dpd_interval}s", "dpd_timeout": f"{connection.dpd_timeout}s"}


# --- proposals --------------------------------------------------------------------------------------------------------


def ike_proposal(policy: IkePolicy) -> str:
    cipher, auth = _word(policy.encryption_algorithm), _word(policy.auth_algorithm)
    return f"{cipher}-{'prf' if _is_aead(policy.encryption_algorithm) else ''}{auth}-{_group(policy.pfs)}"


def ipsec_proposal(policy: IpsecPolicy) -> str:
    auth, group = _word(policy.auth_algorithm), _group(policy.pfs)
    if policy.protocol == "ah":
        return f"{auth}-{group}"
    cipher = _word(policy.encryption_algorithm)
    return f"{cipher}-{group}" if _is_aead(policy.encryption_algorithm) else f"{cipher}-{auth}-{group}"


def _is_aead(cipher: str) -> bool:
    """Whether the cipher protects integrity itself."""
    return "gcm" in cipher or "ccm" in cipher


def _word(algorithm: str) -> str:
    """aes-128-gcm-16 is aes128gcm16."""
    return algorithm.replace("-", "")


def _group(pfs: str) -> str:
    return _GROUPS.get(pfs, pfs)  # charon refuses one that it does not know


# --- strongswan.conf --------------------------------------------------------------------------------------------------


def render_charon(directory: str, router: Router, *, userspace: bool) -> str:
    """`userspace`: charon encrypts by itself, through a TUN device, as the kernel has no ESP."""
    kernel = ("kernel-libipsec", "kernel-netlink") if userspace else ("kernel-netlink",)
    # Off unless a policy has aggressive mode: its first packets let an eavesdropper guess the key offline.
    aggressive = any(each.ike.aggressive for each in served(router))
    return f"""\
{CHARON} {{
  load = {" ".join((*_PLUGINS, *kernel))}
  install_virtual_ip = no
  i_dont_care_about_security_and_use_aggressive_mode_psk = {"yes" if aggressive else "no"}
  plugins {{
    vici {{
      socket = unix://{directory}/{SOCKET}
    }}
    kernel-netlink {{
      fwmark = !{CHARON_MARK:#x}
    }}
    socket-default {{
      fwmark = {CHARON_MARK:#x}
    }}
  }}
  journal {{
    default = -1
  }}
  filelog {{
    stderr {{
      default = 1
      flush_line = yes
    }}
  }}
}}
"""
