"""The server of tests without a particular state: its tenant networks are VLANs on physnet1."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.server import LiveServer

VLANS = {
    "DEFAULT": {
        "auth_strategy": "noauth",
        "agent_down_time": "3600",
        "vlan_transparent": "true",
        "vlan_qinq": "true",
    },
    "ml2": {"project_network_types": "vlan"},
    "placement": {"auth_type": "none", "endpoint": "http://127.0.0.1:1"},  # no agent reports anything for it
    "ml2_type_vlan": {"network_vlan_ranges": "physnet1:1000:4000"},
}


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    with LiveServer(VLANS) as live:
        yield live
