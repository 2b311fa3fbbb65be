"""What the agent and the metadata process say to each other, one packet of a Unix socket each. Pure.

The process speaks first: what it listens on (`Has`, several), then `Hello`. An agent answers `Take` and is from then on
the one that steers it; somebody who only looks says nothing. Descriptors travel with `Listen`, in the order of `sockets`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

METADATA_IPV4: Final = "169.254.169.254"
METADATA_IPV6: Final = "fe80::a9fe:a9fe"
WELL_KNOWN_PORT: Final = 80

SocketKind = Literal["ipv4", "ipv6", "netlink"]
ANY_DEVICE: Final = ""
MOST_PORTS: Final = 200  # in one message: a packet has room for a few hundred
MOST_LISTENING: Final = 200


class Instance(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port that may ask, and who it is to Nova."""

    port_id: str
    network_id: str
    mac: str
    addresses: tuple[str, ...]
    instance_id: str
    project_id: str = ""


class RateLimit(msgspec.Struct, frozen=True):
    """For each source: at most so many requests in so many seconds, twice."""

    versions: tuple[int, ...] = ()  # of the address that is asked; none: no limit
    base: tuple[int, int] = (10, 10)  # requests, seconds
    burst: tuple[int, int] = (10, 10)


class Timeouts(msgspec.Struct, frozen=True):
    connect: float = 30
    client: float = 32
    server: float = 32
    request: float = 30
    keep_alive: float = 30


class Settings(msgspec.Struct, frozen=True):
    """All that the operator says of it. Secrets and keys travel here, and are in no file of the process and no argument."""

    nova_host: str = "127.0.0.1"
    nova_port: int = 8775
    tls: bool = False
    insecure: bool = False
    ca: str = ""  # PEM
    certificate: str = ""  # PEM, with its key
    secret: str = ""
    timeouts: Timeouts = Timeouts()
    limit: RateLimit = RateLimit()
    connections: int = 1024  # of one namespace at a time

    def __repr__(self) -> str:
        return f"Settings({self.nova_host}:{self.nova_port})"  # it may be printed: secrets are not


class Sources(msgspec.Struct, frozen=True):
    """Whose requests are answered in a namespace.

    The network of a source is that of the device its packets arrive by. An address says nothing of it: whoever may add
    routes to a router can have the answers to another network's address sent to an instance of their own.
    """

    links: dict[str, str]  # device, or ANY_DEVICE where there is only one, to its network
    routed: tuple[str, ...] = ()  # further networks, whose instances ask through a router
    project_id: str = ""  # of these networks, the instances of this project alone

    def network(self, device: str) -> str | None:
        return self.links.get(device, self.links.get(ANY_DEVICE))


class Listening(msgspec.Struct, frozen=True):
    """What the process has of a namespace: which one of that name, which sockets, and whose requests are answered."""

    inode: int
    port: int
    ipv6: bool  # whether that was asked for; a host may have none
    sockets: tuple[SocketKind, ...]
    sources: Sources


class Has(msgspec.Struct, frozen=True, tag="has"):
    listening: dict[str, Listening]  # by key


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    release: str
    ports: int = 0


class Take(msgspec.Struct, frozen=True, tag="take"):
    """I am the agent, from now on."""


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    settings: Settings


class Listen(msgspec.Struct, frozen=True, tag="listen"):
    """In place of what is there under this key, if anything is."""

    key: str
    listening: Listening


class SetSources(msgspec.Struct, frozen=True, tag="sources"):
    """The same sockets, but other sources are answered."""

    key: str
    sources: Sources


class Close(msgspec.Struct, frozen=True, tag="close"):
    key: str


class Ports(msgspec.Struct, frozen=True, tag="ports"):
    """`begin`: what follows is all there is, up to `end`; what was known serves until then."""

    put: tuple[Instance, ...] = ()
    gone: tuple[str, ...] = ()
    step: Literal["", "begin", "end"] = ""


Said = Has | Hello
Asked = Take | Configure | Listen | SetSources | Close | Ports
SAID: Final[msgspec.json.Decoder[Said]] = msgspec.json.Decoder(Said)
ASKED: Final[msgspec.json.Decoder[Asked]] = msgspec.json.Decoder(Asked)
