"""Nova's metadata service for tests: the lab's stand-in, plus passwords and paths below /lab/ that test the proxy.

/lab/headers returns the request's headers, /lab/slow/SECONDS answers late, /lab/bytes/N answers with N bytes in chunks.
"""

from __future__ import annotations

import json
import time
from http import HTTPStatus

from neutrino.lab.nova_metadata import MetadataRequest, main
from neutrino.lab.nova_metadata import NovaMetadata as StandIn

MAX_PASSWORD = 1 << 20


class _Request(MetadataRequest):
    server: NovaMetadata

    def do_GET(self) -> None:
        what, _, argument = self.path.removeprefix("/lab/").partition("/")
        if not self.path.startswith("/lab/"):
            super().do_GET()
        elif self.authenticated() is None:
            return
        elif what == "headers":
            self.reply(HTTPStatus.OK, json.dumps(list(self.headers.items())).encode())
        elif what == "slow":
            time.sleep(float(argument))
            self.reply(HTTPStatus.OK, b"at last\n")
        elif what == "bytes":
            self._reply_in_chunks(int(argument))
        else:
            self.reply(HTTPStatus.NOT_FOUND)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """An instance sets its password, encrypted."""
        instance_id = self.authenticated()
        if instance_id is None:
            return
        body = self._body()
        if not self.path.endswith("/password") or len(body) > MAX_PASSWORD:
            self.reply(HTTPStatus.BAD_REQUEST)
            return
        self.server.passwords[instance_id] = body
        self.reply(HTTPStatus.OK)

    def authenticated(self) -> str | None:
        instance_id = super().authenticated()
        if instance_id is not None:
            self.server.requested_by.append(instance_id)
        return instance_id

    def _reply_in_chunks(self, size: int) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while size > 0:
            part = min(size, 1 << 16)
            self.wfile.write(b"%x\r\n%s\r\n" % (part, b"x" * part))
            size -= part
        self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body


class NovaMetadata(StandIn):
    def __init__(self, address: tuple[str, int], secret: str) -> None:
        super().__init__(address, secret, _Request)
        self.passwords: dict[str, bytes] = {}  # by instance
        self.requested_by: list[str] = []  # the instances of the requests, in order


if __name__ == "__main__":
    main(NovaMetadata)
