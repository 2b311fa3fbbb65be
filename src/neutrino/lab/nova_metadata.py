"""A stand-in for Nova's metadata service: checks signatures as Nova does, and serves each instance its own identity.

    python -m neutrino.lab.nova_metadata --port 8775 --secret-file FILE

Hosts of a lab reach nothing outside it, so each runs one on its loopback. Like Nova, it trusts X-Instance-ID only with a
valid signature.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT = 8775
VERSIONS = ("2012-08-10", "2018-08-27", "latest")
EC2_VERSIONS = ("1.0", "2009-04-04", "latest")


class MetadataRequest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: NovaMetadata

    def do_GET(self) -> None:
        instance_id = self.authenticated()
        if instance_id is not None:
            found = self.find(self.path.partition("?")[0].strip("/"), instance_id)
            self.reply(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK, (found or "").encode())

    do_HEAD = do_GET

    def authenticated(self) -> str | None:
        """The instance's id if its signature is valid; else None, and the request is answered with 400 or 403."""
        instance_id, project_id = self.headers.get("X-Instance-ID"), self.headers.get("X-Tenant-ID")
        signature = self.headers.get("X-Instance-ID-Signature")
        if not instance_id or not project_id or not signature or not self.headers.get("X-Forwarded-For"):
            self.reply(HTTPStatus.BAD_REQUEST)
            return None
        expected = hmac.new(self.server.secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, signature):  # in constant time, as Nova does
            self.reply(HTTPStatus.FORBIDDEN)
            return None
        return instance_id

    def find(self, path: str, instance_id: str) -> str | None:
        """A file, the listing of a directory, or None."""
        name = f"vm-{instance_id[:8]}"
        data = {"uuid": instance_id, "project_id": self.headers["X-Tenant-ID"], "hostname": name, "name": name}
        openstack = {"meta_data.json": json.dumps(data), "network_data.json": "{}"}
        ec2 = {"instance-id": instance_id, "local-ipv4": self.headers["X-Forwarded-For"], "hostname": name}
        files = {f"openstack/{version}/{file}": text for version in VERSIONS for file, text in openstack.items()}
        files |= {f"{version}/meta-data/{file}": text for version in EC2_VERSIONS for file, text in ec2.items()}
        if path in files:
            return files[path]
        below = f"{path}/" if path else ""
        listed = {file.removeprefix(below).partition("/")[0] for file in files if file.startswith(below)}
        return "\n".join(sorted(listed)) or None

    def reply(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """No access log: instances that start poll the service."""


class NovaMetadata(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024  # instances that start at once all connect at once

    def __init__(self, address: tuple[str, int], secret: str, handler: type[MetadataRequest] = MetadataRequest) -> None:
        super().__init__(address, handler)
        self.secret = secret


def main(server_class: type[NovaMetadata] = NovaMetadata) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--secret-file", required=True)
    args = parser.parse_args()
    with server_class(("127.0.0.1", args.port), Path(args.secret_file).read_text().strip()) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
