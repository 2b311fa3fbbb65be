"""The extension contract of the DHCP role: from a served network to what its namespace and dnsmasq get besides.

An extension is what an entry point of `neutrino.agent.dhcp_extensions`, listed in `dhcp_extensions`, returns when it is
called with the configuration. Its contribution is rendered, planned, applied, verified and removed together with the
built-in ones, which use the same contract; `render.py` has the order. docs/design/dhcp-extensions.md has an example.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Protocol

from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.dhcp.network import ServedNetwork
from neutrino.agent.runtime.namespaces import DesiredDevice
from neutrino.dataplane.netlink.values import Address, Route

GROUP: Final = "neutrino.agent.dhcp_extensions"
DEVICE_PREFIX: Final = "ext-"  # of devices of extensions: one that is no longer contributed is deleted by its name
NAME_LENGTH: Final = 11  # characters of the port's id in a device's name
SET_TAG: Final = "set:"  # in a line of `host`: the client gets the tag
MAX_LINE_BYTES: Final = 1023  # and the line break
_PRINTABLE = re.compile(r"[\t -~]*")


def port_tag(port_id: str) -> str:
    """dnsmasq's tag of a port that has options of its own."""
    return f"port-{port_id}"


def subnet_tag(subnet_id: str) -> str:
    """dnsmasq's tag of requests from a subnet."""
    return f"subnet-{subnet_id}"


def plugged_name(network: ServedNetwork) -> str:
    """The device on the bridge."""
    assert network.own is not None, "the network is served"
    return f"tap{network.own.id[:NAME_LENGTH]}"


def device_name(network: ServedNetwork, settings: DhcpSettings) -> str:
    """The device in the namespace; the same one, but for a veth pair."""
    return plugged_name(network).replace("tap", "ns-", 1) if settings.use_veth else plugged_name(network)


@dataclass(frozen=True)
class Line:
    """A line of a file that dnsmasq reads.

    dnsmasq reads files in pieces of 1024 bytes. The rest of a longer line would be a line of its own, without the tag that
    restricts it to a port or subnet, and so apply to every client of the network: such a line is left out.
    """

    text: str
    owner: str  # the object that it is for, such as "port <id>": named in the problem when the line is left out
    refused: str = ""  # why its owner's values are no valid line

    @property
    def fault(self) -> str:
        """Why dnsmasq must not get the line; empty if it may."""
        if self.refused:
            return self.refused
        if not _PRINTABLE.fullmatch(self.text):
            return "it has characters that are not printable ASCII"
        if len(self.text) > MAX_LINE_BYTES:
            return f"it has {len(self.text)} bytes, and dnsmasq reads {MAX_LINE_BYTES}"
        return ""


@dataclass(frozen=True)
class Contribution:
    """Desired state of one network. Changed lines reload dnsmasq; changed arguments or addresses restart it."""

    arguments: tuple[str, ...] = ()  # of dnsmasq's command line
    hosts: tuple[Line, ...] = ()  # of `host` (--dhcp-hostsfile): which client gets which address and tags
    names: tuple[Line, ...] = ()  # of `addn_hosts` (--addn-hosts): addresses and their names
    options: tuple[Line, ...] = ()  # of `opts` (--dhcp-optsfile): DHCP options by tag
    problems: tuple[str, ...] = ()  # what of the network is left out, and why
    devices: tuple[DesiredDevice, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class DhcpExtension(Protocol):
    """Called for every network with DHCP on this host, at each reconciliation; must be quick and without side effects."""

    @property
    def name(self) -> str: ...

    def contribute(self, network: ServedNetwork, settings: DhcpSettings) -> Contribution: ...
