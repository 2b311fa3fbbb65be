"""Messages of the control protocol between the agent and the metadata proxy. Pure.

The proxy sends `Hello` when an agent connects, and nothing after it. An agent replies `TakeOver` and controls the proxy
from then on; a client that only reads (`--dry-run`) replies nothing.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from neutrino.agent.runtime.options import option

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


@dataclass(frozen=True)
class RateLimit:
    """Options of [metadata_rate_limiting]."""

    rate_limit_enabled: bool = option(False, "Limit the requests of each instance.")
    ip_versions: tuple[int, ...] = option((4,), "IP versions that are limited: 4, 6 or both.", choices=(4, 6))
    base_window_duration: int = option(10, "Seconds over which requests are counted.", min=1)
    base_query_rate_limit: int = option(10, "Maximum requests of one instance in that time.", min=1)
    burst_window_duration: int = option(10, "A second, shorter window, against bursts.", min=1)
    burst_query_rate_limit: int = option(10, "Maximum requests of one instance in that window.", min=1)


@dataclass(frozen=True)
class Timeouts:
    """Options of [metadata_haproxy]: named after the program that Neutron runs in its place, with the same meaning."""

    timeout_connect: int = option(30, "Seconds for a connection to Nova.", min=1)
    timeout_client: int = option(32, "Seconds that an instance may stall in a request or answer.", min=1)
    timeout_server: int = option(32, "Seconds that Nova may stall; slow vendor data needs more.", min=1)
    timeout_http_request: int = option(30, "Seconds for the head of a request.", min=1)
    timeout_http_keep_alive: int = option(30, "Seconds that a connection is kept for another request.", min=1)


@dataclass(frozen=True)
class ProxySettings:
    """The proxy's configuration. Secrets and keys are only sent here, never in a file or argument of the process."""

    nova_metadata_host: str = option(
        "127.0.0.1", "Host of Nova's metadata API.", "HostAddressOpt", deprecated_name="nova_metadata_ip"
    )
    nova_metadata_port: int = option(8775, "Its port.", "PortOpt")
    nova_metadata_protocol: str = option("http", "Its protocol.", choices=["http", "https"])
    nova_metadata_insecure: bool = option(False, "With https: accept any certificate.")
    metadata_proxy_shared_secret: str = option(
        "", "Secret that instance ids are signed with; Nova has the same.", secret=True
    )
    metadata_connections: int = option(
        1024,
        "Connections that the instances of one router or isolated network may have at a time; at most an eighth of"
        " the descriptors that the process may open. Of them, 64 for each source.",
        min=1,
    )
    ca: str = ""  # PEM
    certificate: str = ""  # PEM, with its key
    timeouts: Timeouts = Timeouts()
    limit: RateLimit = RateLimit()

    def __repr__(self) -> str:
        return f"ProxySettings({self.nova_metadata_host}:{self.nova_metadata_port})"  # no secrets in logs


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
