"""BGP speakers as hosts get them: the sessions of a speaker, and the routes that it announces."""

import re
from typing import Annotated, Final

import msgspec

from neutrino.model import fields
from neutrino.model.state import Object

AS_NUMBERS: Final = fields.within(1, 2**32 - 1)
_PASSWORD: Final = re.compile(r"[!-~]{0,80}\Z")  # it is a word of a line of bgpd's configuration


def is_password(value: str) -> bool:
    return _PASSWORD.match(value) is not None


class BgpPeer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    peer_ip: fields.Peer
    remote_as: Annotated[int, AS_NUMBERS]
    password: Annotated[str, is_password] = ""  # of TCP MD5 signatures; empty: none

    def __repr__(self) -> str:  # without the password: values end in logs
        return f"BgpPeer(peer_ip={self.peer_ip!r}, remote_as={self.remote_as!r})"


class BgpRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    destination: fields.Prefix
    next_hop: fields.Ip


class BgpSpeaker(Object, frozen=True, kw_only=True, omit_defaults=True):
    local_as: Annotated[int, AS_NUMBERS]
    ip_version: fields.IpVersion = 4  # of its routes; its sessions may be of the other version
    peers: tuple[BgpPeer, ...] = ()
    routes: tuple[BgpRoute, ...] = ()  # each destination once
