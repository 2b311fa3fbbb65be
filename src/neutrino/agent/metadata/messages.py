"""Messages of the control protocol between the agent and the metadata proxy. Pure.

The proxy sends `Hello` when an agent connects, and nothing after it. An agent replies `TakeOver` and controls the proxy
from then on; a client that only reads (`--dry-run`) replies nothing.
"""

from typing import Final

import msgspec

METADATA_IPV4: Final = "169.254.169.254"
METADATA_IPV6: Final = "fe80::a9fe:a9fe"
WELL_KNOWN_PORT: Final = 80
ANY_DEVICE: Final = ""


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


class Listener(msgspec.Struct, frozen=True):
    """What the proxy listens on in one namespace, and the instances that it serves there."""

    sources: Sources
    port: int
    address: str = ""  # of IPv4; empty: any
    ipv6: bool = False  # whether that is requested; a host may have none
    inode: int = 0  # of the namespace: sockets keep listening in a deleted one, whose name a new one may have


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    release: str
    listeners: dict[str, Listener] = {}  # by namespace


class TakeOver(msgspec.Struct, frozen=True, tag="take"):
    """The sender is the agent from now on; an earlier one is disconnected."""

    settings: ProxySettings


class SetListener(msgspec.Struct, frozen=True, tag="listen"):
    """Replaces the listener of a namespace; None: closes it.

    Descriptors that come with it are the sockets: of IPv4, rtnetlink, and IPv6 where the host has it. Without descriptors
    the sockets stay, and only the sources differ.
    """

    namespace: str
    listener: Listener | None


class UpdatePorts(msgspec.Struct, frozen=True, tag="ports"):
    put: tuple[Instance, ...] = ()
    gone: tuple[str, ...] = ()
    snapshot: bool = False  # `put` is all there is: other ports are forgotten


AgentMessage = TakeOver | SetListener | UpdatePorts
PROXY_MESSAGES: Final = msgspec.json.Decoder(Hello)
AGENT_MESSAGES: Final[msgspec.json.Decoder[AgentMessage]] = msgspec.json.Decoder(AgentMessage)
