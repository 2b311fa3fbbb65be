"""A client that calls the application directly: requests as a caller of some project and roles, answers as values."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode, urlsplit

PREFIX = "/v2.0"
MEMBER, ADMIN, SERVICE, READER = "member,reader", "admin,member,reader", "service", "reader"
Query = Mapping[str, Any] | list[tuple[str, Any]]


@dataclass(frozen=True)
class Response:
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def error(self) -> str:
        """The error's type, or an empty text."""
        return (
            str(self.body["NeutronError"]["type"])
            if isinstance(self.body, dict) and "NeutronError" in self.body
            else ""
        )

    @property
    def message(self) -> str:
        return str(self.body["NeutronError"]["message"])

    def expect(self, status: int) -> Response:
        assert self.status == status, f"{self.status}: {self.body}"
        return self

    def refused(self, status: int, kind: str = "") -> Response:
        self.expect(status)
        assert not kind or self.error == kind, f"{self.error}: {self.body}"
        return self


@dataclass(frozen=True)
class Api:
    """One caller. The `as_…` methods give others, who see what their project and roles let them."""

    app: Any
    project: str = field(default_factory=lambda: uuid.uuid4().hex)
    roles: str = MEMBER

    def as_admin(self) -> Api:
        return replace(self, roles=ADMIN)

    def as_member(self, project: str) -> Api:
        return replace(self, project=project, roles=MEMBER)

    def as_reader(self) -> Api:
        return replace(self, roles=READER)

    def as_service(self) -> Api:
        return replace(self, roles=SERVICE)

    def as_stranger(self) -> Api:
        """A member of a project without any objects yet."""
        return self.as_member(uuid.uuid4().hex)

    # --- requests -------------------------------------------------------------------------------------------------

    def get(self, path: str, query: Query | None = None, **rest: Any) -> Response:
        return self.call("GET", path, query=query, **rest)

    def post(self, path: str, body: Any = None, **rest: Any) -> Response:
        return self.call("POST", path, body, **rest)

    def put(self, path: str, body: Any = None, **rest: Any) -> Response:
        return self.call("PUT", path, body, **rest)

    def delete(self, path: str, body: Any = None, **rest: Any) -> Response:
        return self.call("DELETE", path, body, **rest)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Query | None = None,
        project: str | None = None,
        roles: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """`path` is below /v2.0, or a whole address such as a page's link."""
        parts = urlsplit(path)
        full = parts.path if parts.path.startswith(PREFIX) else PREFIX + parts.path
        text = parts.query or (urlencode(query, doseq=True) if query else "")
        raw = b"" if body is None else json.dumps(body).encode()
        who = {"X-Project-Id": project or self.project, "X-Roles": roles or self.roles, "X-User-Id": "somebody"}
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": full,
            "QUERY_STRING": text,
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "9696",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(raw)),
            "CONTENT_TYPE": "application/json",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(raw),
            "wsgi.errors": io.StringIO(),
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in {**who, **(headers or {})}.items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value
        started: list[Any] = []
        answer = self.app(environ, lambda status, out, *_: started.extend((status, out)))
        try:
            data = b"".join(answer)
        finally:
            if hasattr(answer, "close"):
                answer.close()
        status, out = started[0], started[1]
        return Response(int(status.split()[0]), json.loads(data) if data else None, dict(out))

    # --- what most tests need -------------------------------------------------------------------------------------

    def make(self, kind: str, collection: str = "", **values: Any) -> dict[str, Any]:
        """Create one object; its attributes may have colons written as double underscores."""
        collection = collection or PLURALS.get(kind, f"{kind}s")
        body = {kind: {name.replace("__", ":"): value for name, value in values.items()}}
        made: dict[str, Any] = self.post(f"/{collection}", body).expect(201).body[kind]
        return made

    def network(self, **values: Any) -> dict[str, Any]:
        return self.make("network", **values)

    def subnet(self, network: Mapping[str, Any], cidr: str | None = "10.0.0.0/24", **values: Any) -> dict[str, Any]:
        if cidr is not None:
            values["cidr"] = cidr
        values.setdefault("ip_version", 6 if cidr and ":" in cidr else 4)
        return self.make("subnet", network_id=network["id"], **values)

    def port(self, network: Mapping[str, Any], **values: Any) -> dict[str, Any]:
        return self.make("port", network_id=network["id"], **values)

    def show(self, kind: str, key: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.get(f"/{PLURALS.get(kind, f'{kind}s')}/{key}").expect(200).body[kind]
        return shown

    def change(self, kind: str, key: str, **values: Any) -> dict[str, Any]:
        body = {kind: {name.replace("__", ":"): value for name, value in values.items()}}
        changed: dict[str, Any] = self.put(f"/{PLURALS.get(kind, f'{kind}s')}/{key}", body).expect(200).body[kind]
        return changed

    def all(self, path: str, query: Query | None = None) -> list[dict[str, Any]]:
        collection = path.strip("/").replace("-", "_").rpartition("/")[2]
        found: list[dict[str, Any]] = self.get(path, query).expect(200).body[collection]
        return found


PLURALS = {
    "bgp_peer": "bgp-peers",
    "bgp_speaker": "bgp-speakers",
    "rbac_policy": "rbac-policies",
    "security_group": "security-groups",
    "security_group_rule": "security-group-rules",
    "address_scope": "address-scopes",
    "address_group": "address-groups",
    "service_profile": "service_profiles",
    "policy": "qos/policies",
    "firewall_group": "fwaas/firewall_groups",
    "firewall_policy": "fwaas/firewall_policies",
    "firewall_rule": "fwaas/firewall_rules",
    "metering_label": "metering/metering-labels",
    "metering_label_rule": "metering/metering-label-rules",
    "ndp_proxy": "ndp_proxies",
    "log": "log/logs",
    "local_ip": "local-ips",
    "tap_service": "taas/tap_services",
    "tap_flow": "taas/tap_flows",
    "tap_mirror": "taas/tap_mirrors",
    "ikepolicy": "vpn/ikepolicies",
    "ipsecpolicy": "vpn/ipsecpolicies",
    "endpoint_group": "vpn/endpoint-groups",
    "vpnservice": "vpn/vpnservices",
    "ipsec_site_connection": "vpn/ipsec-site-connections",
}
