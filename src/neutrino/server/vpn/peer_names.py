"""Resolves the names of peers, all of a request within one time limit.

Clients choose the names, and with them the DNS servers that answer. Without the limit, names whose servers do not answer
would block the threads of the API, a bulk create of such names for hours.
"""

import socket
from collections.abc import Iterable
from concurrent import futures

from neutrino.server import errors
from neutrino.server.api import types

SECONDS = 5.0  # for all names of a request
THREADS = 4  # of a process: a lookup that has run out of time keeps its thread until the resolver gives up


def lookup(name: str) -> str:
    """The first address of a name, as in Neutron; an OSError if it has none."""
    return str(socket.getaddrinfo(name, None)[0][4][0])


class PeerNames:
    def __init__(self) -> None:
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
                    lookups[text] = self._threads.submit(lookup, _name(text))
            futures.wait(lookups.values(), SECONDS)
            return found | {text: _result(text, future) for text, future in lookups.items()}
        finally:
            for future in lookups.values():
                future.cancel()


def _canonical(text: str) -> str | None:
    try:
        return str(types.ip(text))
    except ValueError:
        return None


def _name(text: str) -> str:
    try:
        name = types.DnsName().parse(text)
    except types.Invalid:
        name = ""
    if not name:
        raise errors.VPNPeerAddressNotResolved(peer_address=text)
    return name


def _result(text: str, future: futures.Future[str]) -> str:
    try:
        address = _canonical(future.result(timeout=0))
    except (OSError, ValueError, futures.TimeoutError):  # ValueError: a label that is too long
        address = None
    if address is None:
        raise errors.VPNPeerAddressNotResolved(peer_address=text)
    return address
