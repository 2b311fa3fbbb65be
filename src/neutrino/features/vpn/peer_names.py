"""Resolves the names of peers, if the operator allows it, all of a request within one time limit.

A lookup shows clients what the server's own DNS servers answer, so by default only addresses are accepted. A name has
several labels, and is looked up as it is: neither /etc/hosts nor the search domains of the server have a part in it.
Answers that mean the server itself or its link are none.

Clients choose the names, and with them the DNS servers that answer. Without the limit, names whose servers do not answer
would block the threads of the API, a bulk create of such names for hours.
"""

import socket
from collections.abc import Iterable
from concurrent import futures

from neutrino.features.vpn.errors import VPNPeerAddressNotResolved
from neutrino.server import errors
from neutrino.server.api import types

SECONDS = 5.0  # for all names of a request
_OWN = ("is_loopback", "is_link_local", "is_unspecified", "is_multicast")  # addresses of the server, or of no host
THREADS = 4  # of a process: a lookup that has run out of time keeps its thread until the resolver gives up


def lookup(name: str) -> str:
    """The first address of a name, as in Neutron; an OSError if it has none."""
    return str(socket.getaddrinfo(f"{name.rstrip('.')}.", None)[0][4][0])


class PeerNames:
    def __init__(self, is_enabled: bool) -> None:
        self._is_enabled = is_enabled
        self._threads = futures.ThreadPoolExecutor(THREADS, thread_name_prefix="peer-names")

    def addresses(self, given: Iterable[str]) -> dict[str, str]:
        """The addresses of peers by what a request gives: an address or a name. VPNPeerAddressNotResolved without one."""
        found: dict[str, str] = {}
        lookups: dict[str, futures.Future[str]] = {}
        try:
            for text in given:
                address = _canonical(text)
                if address is not None:
                    found[text] = address
                elif text not in lookups:
                    lookups[text] = self._threads.submit(lookup, self._name(text))
            futures.wait(lookups.values(), SECONDS)
            return found | {text: _result(text, future) for text, future in lookups.items()}
        finally:
            for future in lookups.values():
                future.cancel()

    def _name(self, text: str) -> str:
        try:
            name = types.DnsName().parse(text).rstrip(".")
        except types.Invalid:
            name = ""
        if not self._is_enabled:
            raise _unresolved(text, ": it is no address, and resolve_vpn_peer_names is off")
        if "." not in name:
            raise _unresolved(text)
        return name


def _unresolved(text: str, why: str = "") -> errors.ApiError:
    return VPNPeerAddressNotResolved(peer_address=text, why=why)


def _canonical(text: str) -> str | None:
    try:
        return str(types.ip(text))
    except ValueError:
        return None


def _result(text: str, future: futures.Future[str]) -> str:
    try:
        address = types.ip(future.result(timeout=0))
    except (OSError, ValueError, futures.TimeoutError):  # ValueError: a label that is too long
        raise _unresolved(text) from None
    if any(getattr(address, kind) for kind in _OWN):
        raise _unresolved(text)
    return str(address)
