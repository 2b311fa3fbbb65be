"""A stand-in for Nova's metadata service: it checks who asks as Nova does, and answers what a starting instance asks for.

    python -m neutrino.lab.metadata --port 8775 --secret-file FILE

Nova believes X-Instance-ID where its signature is right, and gives each instance its own data: so does this. What is under
/lab/ is for tests: the headers that arrived, an answer that takes its time, an answer of many bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 8775
MOST_PASSWORD = 1 << 20
VERSIONS = ("2012-08-10", "2018-08-27", "latest")
EC2_VERSIONS = ("1.0", "2009-04-04", "latest")


class NovaMetadata(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], secret: str) -> None:
        super().__init__(address, _Request)
        self.secret = secret
        self.passwords: dict[str, bytes] = {}  # as instances have set them
        self.asked: list[str] = []  # the instances that asked, in order


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: NovaMetadata

    def do_GET(self) -> None:
        instance_id = self._instance()
        if instance_id is None:
            return
        self.server.asked.append(instance_id)
        path = [part for part in self.path.partition("?")[0].split("/") if part]
        if path[:1] == ["lab"]:
            self._test(path[1:])
            return
        found = self._openstack(path[1:], instance_id) if path[:1] == ["openstack"] else self._ec2(path, instance_id)
        if found is None:
            self._say(HTTPStatus.NOT_FOUND, b"")
        else:
            self._say(HTTPStatus.OK, found.encode())

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """The one thing that an instance may tell: its password, sealed."""
        instance_id = self._instance()
        if instance_id is None:
            return
        body = self._body()
        if not self.path.endswith("/password") or len(body) > MOST_PASSWORD:
            self._say(HTTPStatus.BAD_REQUEST, b"")
            return
        self.server.passwords[instance_id] = body
        self._say(HTTPStatus.OK, b"")

    def _instance(self) -> str | None:
        """Who asks; None where it was refused."""
        instance_id, project_id = self.headers.get("X-Instance-ID"), self.headers.get("X-Tenant-ID")
        signature = self.headers.get("X-Instance-ID-Signature")
        if not instance_id or not project_id or not signature or not self.headers.get("X-Forwarded-For"):
            self._say(HTTPStatus.BAD_REQUEST, b"")
            return None
        right = hmac.new(self.server.secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right, signature):
            self._say(HTTPStatus.FORBIDDEN, b"")
            return None
        return instance_id

    def _openstack(self, path: list[str], instance_id: str) -> str | None:
        data = {
            "uuid": instance_id,
            "project_id": self.headers["X-Tenant-ID"],
            "hostname": f"vm-{instance_id[:8]}",
            "name": f"vm-{instance_id[:8]}",
        }
        if not path:
            return "\n".join(VERSIONS)
        if path[0] not in VERSIONS:
            return None
        password = self.server.passwords.get(instance_id, b"").decode(errors="replace")
        files = {"meta_data.json": json.dumps(data), "network_data.json": "{}", "password": password}
        return "\n".join(sorted(files)) if len(path) == 1 else files.get("/".join(path[1:]))

    def _ec2(self, path: list[str], instance_id: str) -> str | None:
        if not path:
            return "\n".join(EC2_VERSIONS)
        if path[0] not in EC2_VERSIONS:
            return None
        files = {
            "instance-id": instance_id,
            "local-ipv4": self.headers["X-Forwarded-For"],
            "hostname": f"vm-{instance_id[:8]}",
        }
        if len(path) == 1:
            return "meta-data"
        if path[1] != "meta-data":
            return None
        return "\n".join(sorted(files)) if len(path) == 2 else files.get("/".join(path[2:]))

    def _test(self, path: list[str]) -> None:
        what, _, argument = "/".join(path).partition("/")
        if what == "headers":
            self._say(HTTPStatus.OK, json.dumps(list(self.headers.items())).encode())
        elif what == "slow":
            time.sleep(float(argument))
            self._say(HTTPStatus.OK, b"at last\n")
        elif what == "bytes":
            self._chunks(int(argument))
        else:
            self._say(HTTPStatus.NOT_FOUND, b"")

    def _say(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _chunks(self, size: int) -> None:
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

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test that wants to know asks."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--secret-file", required=True)
    args = parser.parse_args()
    with NovaMetadata((args.address, args.port), Path(args.secret_file).read_text().strip()) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
