"""The `transport_url` of OpenStack services: one scheme, several brokers, one virtual host.

    rabbit://user:password@host1:5672,user:password@host2:5672/virtual-host?ssl=1

No standard URL parser reads a list of hosts, hence this one. It never puts the URL in an error or a repr, since it
carries a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

SCHEMES = {"rabbit": False, "kombu": False, "amqp": False, "pyamqp": False, "amqps": True}
"""The schemes that mean RabbitMQ, and whether each means TLS by itself."""

DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671

_URL = re.compile(r"(?P<scheme>\w+)://(?P<netlocs>[^/?]*)(/(?P<virtual_host>[^?]*))?(\?(?P<query>.*))?")


class InvalidTransportURL(ValueError):
    """The URL cannot be used. The message never quotes it."""


@dataclass(frozen=True, slots=True)
class Broker:
    host: str
    port: int
    username: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class TransportURL:
    brokers: tuple[Broker, ...]
    virtual_host: str
    tls: bool


def parse_transport_url(text: str) -> TransportURL:
    """Read a transport URL; parts not given are those of a broker freshly installed on this host."""
    found = _URL.fullmatch(text.strip())
    if found is None or found["scheme"] not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        raise InvalidTransportURL(f"the transport URL must be scheme://..., the scheme one of {known}")
    flags = parse_qs(found["query"] or "")
    tls = SCHEMES[found["scheme"]] or flags.get("ssl", ["0"])[-1].lower() in ("1", "true", "yes", "on")
    brokers = tuple(_broker(netloc, tls) for netloc in found["netlocs"].split(","))
    return TransportURL(brokers, unquote(found["virtual_host"] or "") or "/", tls)


def _broker(netloc: str, tls: bool) -> Broker:
    credentials, _, address = netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    try:
        split = urlsplit(f"//{address}")
        host, port = split.hostname, split.port
    except ValueError:
        raise InvalidTransportURL("a broker's address in the transport URL is not host:port") from None
    return Broker(
        host=host or "localhost",
        port=port or (DEFAULT_TLS_PORT if tls else DEFAULT_PORT),
        username=unquote(username) or "guest",
        password=unquote(password) if credentials else "guest",
    )
