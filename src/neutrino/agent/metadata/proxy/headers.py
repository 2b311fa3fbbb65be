"""What of a request reaches Nova, and of an answer the instance. Pure.

Nova believes the headers that say who asks, so none of the kind may come from an instance. A web server may read `_` in a
name as `-`: such names stay behind, as none of HTTP's own has one. Extension headers (X-…) of instances mean nothing to
Nova: all of them stay behind too, which also covers those that Nova may come to believe tomorrow.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from neutrino.agent.metadata.messages import Instance

Headers = list[tuple[bytes, bytes]]

_OF_THE_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    }
)
_NOT_BELIEVED = frozenset({b"forwarded", b"via", b"host"})


def sign(instance_id: str, secret: str) -> str:
    return hmac.new(secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()


def render_request(
    headers: Iterable[tuple[bytes, bytes]], host: str, source: str, instance: Instance, signature: str
) -> Headers:
    """The headers for Nova; the message's length or its chunks stay as they were."""
    given = list(headers)
    kept = [(name, value) for name, value in _passed(given) if not _is_ours_to_say(name)]
    kept += [(name, value) for name, value in given if name == b"transfer-encoding"]
    return [
        (b"host", host.encode()),
        *kept,
        (b"x-forwarded-for", source.encode()),
        (b"x-instance-id", instance.instance_id.encode()),
        (b"x-tenant-id", instance.project_id.encode()),
        (b"x-instance-id-signature", signature.encode()),
    ]


def framing_fault(version: bytes, headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Why it is not certain where a request ends; empty if it is.

    Two servers that read such a request differently see different requests after it on one connection, and connections to
    Nova are shared by instances. What else is doubtful (lengths that differ, other codings, blanks before a colon) is
    refused by h11.
    """
    names = {name for name, _ in headers}
    if b"transfer-encoding" not in names:
        return ""
    if b"content-length" in names:
        return "it has both Content-Length and Transfer-Encoding"
    return "Transfer-Encoding is for HTTP/1.1" if version < b"1.1" else ""


def render_response(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Those for the instance. How the body ends is said anew, for this connection."""
    return list(_passed(list(headers)))


def _passed(headers: Headers) -> Iterable[tuple[bytes, bytes]]:
    named = {
        part.strip().lower() for name, value in headers if name.lower() == b"connection" for part in value.split(b",")
    }
    for name, value in headers:
        if name.lower() not in _OF_THE_CONNECTION and (name.lower() not in named or name.lower() == b"content-length"):
            yield name, value


def _is_ours_to_say(name: bytes) -> bool:
    plain = name.lower()
    return plain in _NOT_BELIEVED or plain.startswith(b"x-") or b"_" in plain


def origin_form(target: bytes) -> bytes | None:
    """The path that is asked for, also where the whole address is given; None for what is no path."""
    if target.lower().startswith(b"http://"):
        slash = target.find(b"/", len(b"http://"))
        return target[slash:] if slash >= 0 else b"/"
    return target if target.startswith(b"/") else None
