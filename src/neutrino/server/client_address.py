"""The address of the client of a request, which the client cannot choose: the peer, or what trusted proxies have added."""

import logging
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from wsgiref.types import WSGIEnvironment

from neutrino.configuration.options import Configuration
from neutrino.errors import RefusedToStart

LOG = logging.getLogger(__name__)
FORWARDED_FOR: Final = "HTTP_X_FORWARDED_FOR"
MAX_PROXIES: Final = 8  # that a request passes
ClientAddress = Callable[[WSGIEnvironment], str]
Network = IPv4Network | IPv6Network


def client_address(conf: Configuration) -> ClientAddress:
    """How the address is found. RefusedToStart: a trusted proxy is neither an address nor a network."""
    proxies = trusted_proxies(conf)
    return _Proxied(proxies) if conf.oslo_middleware.enable_proxy_headers_parsing else peer


def trusted_proxies(conf: Configuration) -> tuple[Network, ...]:
    try:
        return tuple(ip_network(each, strict=False) for each in conf.oslo_middleware.trusted_proxies)
    except ValueError as error:
        raise RefusedToStart(f"[oslo_middleware] trusted_proxies: {error}") from error


def peer(environ: WSGIEnvironment) -> str:
    return str(environ.get("REMOTE_ADDR") or "-")


class _Proxied:
    """From the last address of X-Forwarded-For on: each proxy adds that of its peer, and the client may send any others.

    Not REMOTE_ADDR after oslo's proxy middleware, which takes the first address of Forwarded from everybody.
    """

    def __init__(self, proxies: Iterable[Network]) -> None:
        self._proxies = tuple(proxies)
        self._is_logged = False

    def __call__(self, environ: WSGIEnvironment) -> str:
        client, forwarded = peer(environ), environ.get(FORWARDED_FOR, "")
        if not forwarded:
            return client
        if not self._trusts(client):
            self._log_ignored(client)
            return client
        for text in reversed(forwarded.rsplit(",", MAX_PROXIES)[-MAX_PROXIES:]):
            address = _parsed(text.strip())
            if address is None:
                break
            client = str(address)
            if not self._trusts(client):
                break
        return client

    def _trusts(self, client: str) -> bool:
        address = _parsed(client)
        if address is None:  # a local process, by a Unix socket
            return client == "-"
        if address.version == 6 and address.ipv4_mapped is not None:  # of a socket for both versions
            address = address.ipv4_mapped
        return any(address in proxy for proxy in self._proxies)

    def _log_ignored(self, client: str) -> None:
        """Log it once: any client of the server can send the header."""
        if not self._is_logged:
            self._is_logged = True
            LOG.warning("X-Forwarded-For from %s is ignored: it is none of [oslo_middleware] trusted_proxies", client)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return None if "%" in text else ip_address(text)  # a zone ("fe80::1%…") could be any text
    except ValueError:
        return None
