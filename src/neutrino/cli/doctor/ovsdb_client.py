"""Reads rows of the Open vSwitch database by one JSON-RPC request (RFC 7047), without its programs."""

import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from neutrino.dataplane.ovsdb.api import ClientFiles
from neutrino.feed.address import short_path
from neutrino.model.objects import Object

SECONDS: Final = 5.0
MAX_BYTES: Final = 64 * 2**20
DATABASE: Final = "Open_vSwitch"


class NotReachable(Exception):
    """The database does not respond, or refuses the request."""


def select(
    address: str, tables: Mapping[str, Sequence[str]], seconds: float = SECONDS, tls: ClientFiles | None = None
) -> dict[str, list[Object]]:
    """Return the given columns of all rows of each table."""
    operations = [
        {"op": "select", "table": table, "where": [], "columns": list(columns)} for table, columns in tables.items()
    ]
    request = {"method": "transact", "params": [DATABASE, *operations], "id": 0}
    try:
        answer = _exchange(address, msgspec.json.encode(request), seconds, tls)
    except (OSError, ValueError) as error:
        raise NotReachable(str(getattr(error, "strerror", None) or error)) from None
    results = answer.get("result")
    if answer.get("error") or not isinstance(results, list):
        raise NotReachable(f"the database refuses the request: {answer.get('error')}")
    rows = {}
    for table, result in zip(tables, results, strict=False):
        if "rows" not in result:
            raise NotReachable(f"table {table}: {result.get('details') or result.get('error')}")
        rows[table] = [{name: plain(value) for name, value in row.items()} for row in result["rows"]]
    return rows


def _exchange(address: str, request: bytes, seconds: float, tls: ClientFiles | None) -> Object:
    kind, _, rest = address.partition(":")
    if kind == "unix":
        with short_path(rest) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(path)
            return _ask(connection, request)
    if kind not in ("tcp", "ssl"):
        raise ValueError(f"{address} is neither unix:/path nor tcp:host:port or ssl:host:port")
    host, _, port = rest.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), seconds) as connection:
        connection.settimeout(seconds)
        if kind == "tcp":
            return _ask(connection, request)
        with _context(tls).wrap_socket(connection) as encrypted:
            return _ask(encrypted, request)


def _context(tls: ClientFiles | None) -> ssl.SSLContext:
    if tls is None:
        raise ValueError("ssl: needs files")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # as Open vSwitch's clients
    context.load_verify_locations(tls.authority)
    context.load_cert_chain(tls.certificate, tls.key, password=lambda: "")  # an encrypted key fails, and asks nobody
    return context


def _ask(connection: socket.socket, request: bytes) -> Object:
    connection.sendall(request)
    data = bytearray()
    while len(data) < MAX_BYTES:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError("the connection was closed")
        data += part
        if data.endswith(b"}"):  # possibly the end of the answer: the protocol has no lengths
            try:
                answer: Object = msgspec.json.decode(bytes(data))
            except msgspec.DecodeError:
                continue
            return answer
    raise ValueError("the answer is too long")


def plain(value: object) -> object:
    """Simplify a value of RFC 7047: a set is a list, or its only member or None where it has no more than one."""
    if isinstance(value, list) and len(value) == 2:
        kind, inner = value
        if kind == "set":
            members = [plain(member) for member in inner]
            return members if len(members) > 1 else (members[0] if members else None)
        if kind == "map":
            return {str(key): item for key, item in inner}
        if kind in ("uuid", "named-uuid"):
            return inner
    return value


def several(value: object) -> list[str]:
    """Return the members of a set of strings that `plain` has simplified."""
    return [] if value is None else [str(member) for member in (value if isinstance(value, list) else [value])]
