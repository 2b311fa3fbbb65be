"""VPN services as hosts get them: a part of the router that ends their tunnels."""

from typing import Annotated, Final

import msgspec

from neutrino.model import fields

_SECONDS: Final = fields.within(0, 2**31 - 1)
Algorithm = fields.Word


class IkePolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    auth_algorithm: Algorithm = "sha256"
    encryption_algorithm: Algorithm = "aes-128"
    pfs: Algorithm = "group5"
    lifetime: Annotated[int, _SECONDS] = 3600
    version: Annotated[int, fields.one_of(1, 2)] = 1
    aggressive: bool = False


class IpsecPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    auth_algorithm: Algorithm = "sha256"
    encryption_algorithm: Algorithm = "aes-128"
    pfs: Algorithm = "group5"
    lifetime: Annotated[int, _SECONDS] = 3600
    protocol: Annotated[str, fields.one_of("esp", "ah")] = "esp"
    mode: Annotated[str, fields.one_of("tunnel", "transport")] = "tunnel"


class VpnConnection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tunnel to a peer, between all subnets of both sides."""

    id: fields.Id
    peer_address: fields.Peer
    peer_id: fields.Word
    local_id: fields.WordOrEmpty = ""  # empty: the address of the gateway
    psk: str = ""  # empty on hosts that do not end the tunnel; without a check, whose message would have it
    local_cidrs: fields.Prefixes = ()
    peer_cidrs: fields.Prefixes = ()
    initiates: bool = True
    dpd_action: fields.Word = "hold"
    dpd_interval: Annotated[int, _SECONDS] = 30
    dpd_timeout: Annotated[int, _SECONDS] = 120
    admin_state_up: bool = True  # its own, and that of its service
    ike: IkePolicy = IkePolicy()
    ipsec: IpsecPolicy = IpsecPolicy()

    def __repr__(self) -> str:  # without the key: values end in logs
        return f"VpnConnection(id={self.id!r}, peer_address={self.peer_address!r})"

    @property
    def version(self) -> int:
        """The IP version of the outer packets."""
        return 6 if ":" in self.peer_address else 4


class VpnService(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: fields.Id
    connections: tuple[VpnConnection, ...] = ()
