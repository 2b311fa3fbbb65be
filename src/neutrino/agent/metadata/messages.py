"""Messages between the agent and the metadata proxy: one packet of a Unix socket each. Pure.

The proxy sends first: its listeners (`ListenerStates`, several), then `Hello`. An agent replies `TakeOver` and controls the
proxy from then on; a client that only reads (`--dry-run`) sends nothing. Descriptors travel with `Listen`, in the order of
`sockets`.
"""

from typing import Final, Literal

import msgspec

METADATA_IPV4: Final = "169.254.169.254"
METADATA_IPV6: Final = "fe80::a9fe:a9fe"
WELL_KNOWN_PORT: Final = 80

SocketKind = Literal["ipv4", "ipv6", "netlink"]
ANY_DEVICE: Final = ""
MAX_PORTS: Final = 200  # in one message: a packet has room for a few hundred
MAX_LISTENERS: Final = 200


class Instance(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port of an instance, with the identity that Nova knows it by."""

    port_id: str
    network_id: str
    mac: str
    addresses: tuple[str, ...]
    instance_id: str
    project_id: str = ""


class RateLimit(msgspec.Struct, frozen=True):
    """Limits per source, in two windows: requests and seconds."""

    versions: tuple[int, ...] = ()  # IP versions that are limited; empty: none
    base: tuple[int, int] = (10, 10)
    burst: tuple[int, int] = (10, 10)


class Timeouts(msgspec.Struct, frozen=True):
    connect: float = 30
    client: float = 32
    server: float = 32
    request: float = 30
    keep_alive: float = 30


class ProxySettings(msgspec.Struct, frozen=True):
    """The configuration. Secrets and keys are only sent here, never in a file or argument of the process."""

    nova_host: str = "127.0.0.1"
    nova_port: int = 8775
    tls: bool = False
    insecure: bool = False
    ca: str = ""  # PEM
    certificate: str = ""  # PEM, with its key
    secret: str = ""
    timeouts: Timeouts = Timeouts()
    limit: RateLimit = RateLimit()
    connections: int = 1024  # of one namespace

    def __repr__(self) -> str:
        return f"ProxySettings({self.nova_host}:{self.nova_port})"  # no secrets in logs


class Sources(msgspec.Struct, frozen=True):
    """The networks whose instances are served in a namespace.

    The network of a source is that of the device that its packets arrive by. An address alone proves nothing: a tenant
    who may add routes to a router can direct the responses to another network's address to an own instance.
    """

    links: dict[str, str]  # device, or ANY_DEVICE where there is only one → network
    routed: tuple[str, ...] = ()  # further networks, whose instances come through a router
    project_id: str = ""  # of `routed`, only instances of this project are served

    def network(self, device: str) -> str | None:
        return self.links.get(device, self.links.get(ANY_DEVICE))


class ListenerState(msgspec.Struct, frozen=True):
    """The proxy's listeners in one namespace; its inode tells it from a deleted one of the same name."""

    inode: int
    port: int
    ipv6: bool  # whether that was requested; a host may have none
    sockets: tuple[SocketKind, ...]
    sources: Sources


class ListenerStates(msgspec.Struct, frozen=True, tag="has"):
    listening: dict[str, ListenerState]  # by namespace


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    release: str
    ports: int = 0


class TakeOver(msgspec.Struct, frozen=True, tag="take"):
    """The sender is the agent from now on; an earlier one is disconnected."""


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    settings: ProxySettings


class Listen(msgspec.Struct, frozen=True, tag="listen"):
    """Replaces existing listeners of the namespace `key`."""

    key: str
    listening: ListenerState


class SetSources(msgspec.Struct, frozen=True, tag="sources"):
    """Keeps the sockets."""

    key: str
    sources: Sources


class Close(msgspec.Struct, frozen=True, tag="close"):
    key: str


class UpdatePorts(msgspec.Struct, frozen=True, tag="ports"):
    """`begin`: a snapshot of all ports follows, up to `end`; the old ones are served until then."""

    put: tuple[Instance, ...] = ()
    gone: tuple[str, ...] = ()
    step: Literal["", "begin", "end"] = ""


ProxyMessage = ListenerStates | Hello
AgentMessage = TakeOver | Configure | Listen | SetSources | Close | UpdatePorts
PROXY_MESSAGES: Final[msgspec.json.Decoder[ProxyMessage]] = msgspec.json.Decoder(ProxyMessage)
AGENT_MESSAGES: Final[msgspec.json.Decoder[AgentMessage]] = msgspec.json.Decoder(AgentMessage)
