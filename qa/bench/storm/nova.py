"""Nova's end of the external events of a networking service: waits until a port is said to be plugged."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from qa.bench.client import LoadError

_PLUGGED = "network-vif-plugged"


class Events:
    """The ports that were said to be plugged."""

    def __init__(self) -> None:
        self.url = ""
        self._lock = threading.Lock()
        self._plugged: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    def wait(self, port: str, seconds: float) -> None:
        if not self._of(port).wait(seconds):
            raise LoadError(f"port {port} is not ACTIVE after {seconds:.0f} s")

    def take(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The events as Nova answers them."""
        for event in events:
            if event["name"] == _PLUGGED and event.get("status") == "completed":
                self._of(event["tag"]).set()
        return [{**event, "code": 200} for event in events]

    def _of(self, port: str) -> threading.Event:
        with self._lock:
            return self._plugged[port]


def configuration(events: Events) -> str:
    """The section of a server, ours or Neutron's, that has it send events here."""
    return f"[nova]\nauth_type = none\nendpoint = {events.url}\n"


@contextmanager
def serving() -> Iterator[Events]:
    events = Events()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps({"events": events.take(body["events"])}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.1))
    thread.start()
    events.url = f"http://127.0.0.1:{server.server_port}/v2.1"
    try:
        yield events
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
