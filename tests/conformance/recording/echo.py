"""A server that answers from the recording itself, so that the replay can be tested without the one under test.

It takes the requests in the recorded order and gives the recorded answers with masks and names turned into values, as a
server would have chosen them. `tamper` may change any answer on its way out.
"""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.conformance.recording.exchange import Exchange

Tamper = Callable[[Exchange, int, Any], tuple[int, Any]]

_TOKEN = re.compile(r"\{([a-z][a-z0-9_]*)\}|<(uuid|hex|mac|time|req|url)>")
_PROJECT_OF = {"admin": "project_admin", "alice": "project_a", "bob": "project_b"}


def _untouched(exchange: Exchange, status: int, body: Any) -> tuple[int, Any]:
    return status, body


class _Values:
    """Real values for names and masks."""

    def __init__(self) -> None:
        self.named: dict[str, str] = {}

    def unmasked(self, text: str) -> str:
        return _TOKEN.sub(lambda match: self._named(match[1]) if match[1] else self._made_up(match[2]), text)

    def _named(self, name: str) -> str:
        return self.named.setdefault(name, str(uuid.uuid4()))

    def _made_up(self, kind: str) -> str:
        unique = uuid.uuid4()
        tail = unique.hex
        return {
            "uuid": str(unique),
            "hex": tail,
            "mac": f"fa:16:3e:{tail[0:2]}:{tail[2:4]}:{tail[4:6]}",
            "time": "2026-01-02T03:04:05Z",
            "req": f"req-{unique}",
            "url": "http://203.0.113.1:9696",
        }[kind]


@contextmanager
def echo_server(exchanges: Sequence[Exchange], tamper: Tamper = _untouched) -> Iterator[str]:
    """Serve one replay of these exchanges; gives the URL."""
    values, remaining = _Values(), iter(exchanges)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            exchange = next(remaining)
            status, body = self._body(exchange)
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _body(self, exchange: Exchange) -> tuple[int, Any]:
            name = _PROJECT_OF.get(self.headers["X-User-Id"])
            if name is not None:
                values.named[name] = self.headers["X-Project-Id"]
            for saved in exchange.step.save:
                values.named[saved] = str(uuid.uuid4())
            body = json.loads(values.unmasked(json.dumps(exchange.body)))
            if isinstance(body, dict) and isinstance(body.get("NeutronError"), dict):
                body["NeutronError"].setdefault("message", "refused")
            status = exchange.status if exchange.status < 500 else 400
            return tamper(exchange, status, body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = _answer

        def log_message(self, format: str, *args: object) -> None:
            """No log lines."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
