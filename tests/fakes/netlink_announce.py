"""An announcer in memory: it keeps what would have been sent."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from neutrino.dataplane.netlink.api import Netlink, NetlinkError


class FakeAnnouncer:
    """Keeps what was announced: namespace, device, address. With `netlink` it refuses what cannot be."""

    def __init__(self, netlink: Netlink | None = None) -> None:
        self._netlink = netlink
        self.announced: list[tuple[str, str, str]] = []

    def announce(self, namespace: str, device: str, addresses: Iterable[str], *, router: bool = False) -> None:
        if self._netlink is not None:
            found = self._netlink.read_device(namespace, device)
            if found is None or not found.up:
                raise NetlinkError(f"{namespace or 'host'}: {device}: addresses cannot be announced: it is not up")
        self.announced += [(namespace, device, str(ipaddress.ip_address(address))) for address in addresses]
