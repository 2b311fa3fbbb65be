"""Metrics of a host with all roles: what instances and operators do shows in the agent's and the server's numbers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.lab import network, open_group, wait_until
from tests.support.lab_control import Lab
from tests.support.lab_dhcp import pid
from tests.support.lab_metadata import curl, wait_for_metadata
from tests.support.metrics import Scrape, parse


@pytest.fixture(scope="module")
def blue(lab: Lab) -> dict[str, Any]:
    """A network with DHCP and an instance of its name, which has metadata."""
    open_group(lab)
    network(lab, "blue", ["10.0.0.0/24"], enable_dhcp=True)
    lab.vm("blue", network="blue", host="h1", security_groups=["open"])
    wait_for_metadata(lab, "blue")
    found: dict[str, Any] = lab.api.list("network", name="blue")[0]
    return found


def scrape(lab: Lab) -> Scrape:
    """From inside the host: the agent listens on its loopback."""
    return parse(lab.run("h1", ["curl", "-sS", "--noproxy", "*", "http://127.0.0.1:9698/metrics"]).stdout)


def wait_for(lab: Lab, reached: Callable[[Scrape], bool], what: str) -> Scrape:
    last: list[Scrape] = []

    def holds() -> bool:
        last[:] = [scrape(lab)]
        return reached(last[0])

    wait_until(holds, 30, what)
    return last[0]


def test_what_instances_ask_for(lab: Lab, blue: dict[str, Any]) -> None:
    known = max(0.0, scrape(lab).value("neutrino_agent_metadata_requests_total", status="2xx"))
    assert curl(lab, "blue")[0] == 200
    found = wait_for(
        lab,
        lambda now: now.value("neutrino_agent_metadata_requests_total", status="2xx") >= known + 1,
        "the metadata request is not counted",
    )
    wait_for(
        lab,
        lambda now: (
            now.value("neutrino_agent_dhcp_requests_total", ip_version="4") >= 2  # DISCOVER, REQUEST
            and now.value("neutrino_agent_ports", state="wired") >= 2  # the instance's and the DHCP port
        ),
        "the DHCP requests or the ports are not counted",
    )
    assert found.value("neutrino_agent_processes", program="dnsmasq") == 1
    assert found.value("neutrino_agent_processes", program="neutrino-metadata") == 1
    assert found.value("neutrino_agent_reconcile_duration_seconds_count", role="dhcp", result="done") >= 1


def test_a_killed_daemon_is_counted(lab: Lab, blue: dict[str, Any]) -> None:
    before = max(0.0, scrape(lab).value("neutrino_agent_process_respawns_total", program="dnsmasq"))
    killed = pid(lab, "h1", blue["id"])
    assert killed
    os.kill(killed, signal.SIGKILL)
    wait_for(
        lab,
        lambda now: now.value("neutrino_agent_process_respawns_total", program="dnsmasq") == before + 1,
        "the respawn is not counted",
    )


def test_flows_deleted_by_hand_are_counted(lab: Lab) -> None:
    before = scrape(lab).value("neutrino_agent_drift_repaired_total", role="l2")
    lab.run("h1", ["ovs-ofctl", "-O", "OpenFlow14", "del-flows", "br-int", "table=71"])
    wait_for(
        lab, lambda now: now.value("neutrino_agent_drift_repaired_total", role="l2") > before, "no repair is counted"
    )


def test_ha_routers_by_their_state(lab: Lab) -> None:
    router = lab.api.create("router", name="ha", ha=True)
    try:
        wait_for(
            lab,
            lambda now: now.value("neutrino_agent_ha_routers", state="active") == 1,
            "the router is not active",
        )
        wait_for(
            lab, lambda now: now.value("neutrino_agent_processes", program="keepalived") == 1, "keepalived does not run"
        )
    finally:
        lab.api.delete("router", router["id"])


def test_one_request_in_all_logs(lab: Lab, blue: dict[str, Any]) -> None:
    """`openstack … --debug` prints the id of a request: with it the operator finds its lines on the server and the host."""
    (subnet,) = lab.api.list("subnet", network_id=blue["id"])
    lab.api.update("subnet", subnet["id"], dns_nameservers=["192.0.2.53"])
    changes = lab.api.request("GET", f"/v2.0/changes?object_id={subnet['id']}", None)["changes"]
    request_id = changes[-1]["request_id"]
    assert request_id.startswith("req-")

    def lines() -> list[str]:
        return [line for line in _log(lab, "h1-agent") if request_id in line]

    wait_until(lambda: any("of dnsmasq" in line for line in lines()), 60, "the agent's log has no line of the request")
    wait_until(
        lambda: any(request_id in line and "PUT /v2.0/subnets" in line for line in _log(lab, "server")),
        20,
        "the server's log has no line of the request",
    )


def _log(lab: Lab, name: str) -> list[str]:
    return (lab.paths.logs / f"{name}.log").read_text(errors="replace").splitlines()
