"""The servers that the conformance tests ask: live processes of the command that users start, on SQLite."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from neutrino.model.agents import DHCP, L3, AgentState
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from tests.conformance.recording.settings import (
    AGENTS_HOST,
    AGENTS_ZONE,
    EXTERNAL_CIDR,
    SETTINGS,
    Settings,
    configuration,
)
from tests.support.ports import free_port, listening
from tests.support.process import TemporaryServer


class LiveServer(TemporaryServer):
    """`with LiveServer(settings) as server:` serves the Networking API at `server.url` without authentication."""

    name = "api"

    def __init__(self, settings: Settings, port: int | None = None) -> None:
        super().__init__()
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{self.directory / 'neutrino.sqlite'}"
        self._settings = settings

    def start(self) -> None:
        here = {
            "DEFAULT": {"bind_port": str(self.port), "state_path": str(self.directory), "api_workers": "2"},
            "database": {"connection": self.database},
        }
        config = self.write("neutrino.conf", configuration(here, self._settings))
        command = Path(sys.executable).with_name("neutrino")
        self.spawn([command, "server", "--config-file", config], ready=lambda: listening(self.port))

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """The body of the answer to an administrator; a refusal fails the test that asked."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json", "X-Project-Id": "ad" * 16, "X-Roles": "admin", **(headers or {})}
        request = urllib.request.Request(f"{self.url}{path}", data, head, method=method)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as response:
                content = response.read()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from None
        return json.loads(content) if content else None


class RecordedServer(LiveServer):
    """A server in the state in which the recorded one was when it was asked the first question."""

    def __init__(self, port: int | None = None) -> None:
        # The agents report once, below; a replay by hand may come hours later.
        lasting = {"DEFAULT": {**SETTINGS["DEFAULT"], "agent_down_time": str(365 * 24 * 3600)}}
        super().__init__({**SETTINGS, **lasting}, port)

    def start(self) -> None:
        super().start()
        self._make_external_network()
        db = Database(self.database)
        try:
            Registry(db).report_all(
                [
                    AgentState(kind, binary, AGENTS_HOST, topic, AGENTS_ZONE, start_flag=True)
                    for kind, binary, topic in (
                        (DHCP, "neutron-dhcp-agent", "dhcp_agent"),
                        (L3, "neutron-l3-agent", "l3_agent"),
                    )
                ]
            )
        finally:
            db.close()

    def _make_external_network(self) -> None:
        # Clients of every project see it and its subnet in their lists.
        network = self.ask("POST", "/v2.0/networks", {"network": {"name": "public", "router:external": True}})
        subnet = {
            "network_id": network["network"]["id"],
            "ip_version": 4,
            "cidr": EXTERNAL_CIDR,
            "enable_dhcp": False,
        }
        self.ask("POST", "/v2.0/subnets", {"subnet": subnet})
