"""Metrics and request ids of real processes: a server with several workers, its feed, and an agent on Open vSwitch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.metrics import catalog
from tests.support.agent import Agent, wait_for_status
from tests.support.memory import command, tree
from tests.support.metrics import scrape, wait_for
from tests.support.neutrino import Caller, Neutrino
from tests.support.openvswitch import OpenVSwitch
from tests.support.ports import free_port
from tests.support.process import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    address = f"127.0.0.1:{free_port()}"
    settings = {"DEFAULT": {"debug": True}, "feed": {"run": True}, "metrics": {"bind": address}}
    with Neutrino(settings, workers=2) as running:
        yield running


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as running:
        running.vsctl("add-br", "br-phys", "--", "set", "bridge", "br-phys", "datapath_type=dummy")
        yield running


@pytest.fixture(scope="module")
def agent(server: Neutrino, switch: OpenVSwitch) -> Iterator[Agent]:
    settings = {"DEFAULT": {"use_json": True}, "metrics": {"bind": f"127.0.0.1:{free_port()}"}}
    with Agent(server, switch, "h1", settings) as running:
        yield running


@pytest.fixture
def api(server: Neutrino, agent: Agent) -> Iterator[Caller]:
    caller = Caller(server.url)
    yield caller
    caller.close()


def metrics_of(process: Neutrino | Agent) -> str:
    return str(process.settings["metrics"]["bind"])


def plug(switch: OpenVSwitch, port_id: str) -> None:
    name = f"tap{port_id[:11]}"
    switch.vsctl(
        *("add-port", "br-int", name, "--", "set", "interface", name, "type=dummy", f"external_ids:iface-id={port_id}")
    )


def json_lines(agent: Agent) -> list[dict[str, Any]]:
    return [json.loads(line) for line in agent.log.splitlines() if line.startswith("{")]


def test_requests_of_all_workers_are_summed_up(server: Neutrino, api: Caller) -> None:
    name, labels = "neutrino_api_request_duration_seconds_count", {"resource": "networks", "method": "POST"}
    before = scrape(metrics_of(server))
    for number in range(6):
        fresh = Caller(server.url)  # a new connection, which either worker may accept
        fresh.create("network", name=f"n{number}")
        fresh.close()
    assert api("GET", "/v2.0/networks/unknown").status_code == 404
    assert api("GET", "/v2.0/nothing").status_code == 404
    expected = max(0.0, before.value(name, status="2xx", **labels)) + 6  # the first value is none
    after = wait_for(
        metrics_of(server),
        lambda now: (
            now.value(name, status="2xx", **labels) == expected
            and now.value(name, resource="networks", method="GET", status="4xx") >= 1
            and now.value(name, resource="other", status="4xx") >= 1
            and now.value("neutrino_api_workers") == 2  # the second one may start later
        ),
        "the counts of both workers",
    )
    assert after.value("neutrino_build_info", component="server") == 1
    assert after.value("neutrino_build_info", component="feed") == 1


def test_a_worker_that_dies_keeps_its_counts(server: Neutrino, api: Caller) -> None:
    name = "neutrino_api_request_duration_seconds_count"
    before = scrape(metrics_of(server))
    victims = [pid for pid in tree(server.pids[0]) if "worker" in command(pid)]
    os.kill(victims[0], signal.SIGKILL)
    after = wait_for(
        metrics_of(server),
        lambda now: now.value("neutrino_api_worker_respawns_total") == 1 and now.value("neutrino_api_workers") == 2,
        "a new worker",
    )
    assert after.value(name) >= before.value(name)


def test_one_request_id_from_the_api_to_the_agent(
    server: Neutrino, api: Caller, agent: Agent, switch: OpenVSwitch
) -> None:
    network = api.create("network", name="traced")
    created = api("POST", "/v2.0/ports", {"port": {"network_id": network["id"], "binding:host_id": "h1"}})
    key, request_id = created.json()["port"]["id"], created.headers["x-openstack-request-id"]
    plug(switch, key)
    wait_for_status(api, key, "ACTIVE")
    wait_until(
        lambda: any(f"port {key} is wired" in line["message"] for line in json_lines(agent)),
        timeout=30, what="the agent's line", failed=lambda: None,
    )  # fmt: skip
    (wired,) = [line for line in json_lines(agent) if f"port {key} is wired" in line["message"]]
    assert wired["context"]["request_id"] == request_id
    log = server.log
    (line,) = [line for line in log.splitlines() if '"POST /v2.0/ports' in line and request_id in line]
    assert "status: 201" in line
    assert f"port {key} by {request_id}" in log  # of the feed
    history = api("GET", f"/v2.0/changes?object_id={key}").json()["changes"]
    assert history[0]["request_id"] == request_id
    deleted = api("DELETE", f"/v2.0/ports/{key}").headers["x-openstack-request-id"]

    def left() -> bool:
        return any(
            line["context"].get("request_id") == deleted and f"port {key} has left this host" in line["message"]
            for line in json_lines(agent)
        )

    wait_until(left, timeout=30, what="the line of the deletion", failed=lambda: None)


def test_the_feed_and_its_hosts(server: Neutrino, api: Caller, agent: Agent) -> None:
    api.create("network", name="counted")
    found = wait_for(
        metrics_of(server),
        lambda now: (
            now.value("neutrino_feed_connected_hosts") == 1
            and now.value("neutrino_feed_host_lag_changes", host="h1") == 0
            # Read from the database, and kept for a while.
            and now.value("neutrino_agents", agent_type="Open vSwitch agent", state="alive") == 1
        ),
        "the host is connected, current and alive",
    )
    assert found.value("neutrino_changelog_position") > 0
    assert found.value("neutrino_changelog_changes_total", kind="network") >= 1
    assert found.value("neutrino_feed_reports_total", type="report", result="accepted") >= 1
    assert found.value("neutrino_ports", status="ACTIVE") >= 0
    assert found.value("neutrino_database_connections", process="feed") > 0
    wait_for(
        metrics_of(server),
        lambda now: now.value("neutrino_database_connections", process="api") >= 2,
        "the connections of both workers",
    )


def test_the_agent_and_a_repaired_flow(api: Caller, agent: Agent, switch: OpenVSwitch) -> None:
    api.create("network", name="logged")
    before = wait_for(
        metrics_of(agent),
        lambda now: (
            now.value("neutrino_agent_dataplane_up") == 1
            and now.value("neutrino_agent_feed_synced") == 1
            and now.value("neutrino_agent_feed_position") > 0
        ),
        "the agent is synced, and has received the change",
    )
    assert before.value("neutrino_agent_flows", bridge="br-int") > 20
    assert before.value("neutrino_agent_reconcile_duration_seconds_count", role="l2", result="done") > 0
    assert before.value("neutrino_agent_dhcp_requests_total", ip_version="4") == 0
    assert before.value("neutrino_build_info", component="agent") == 1
    repaired = before.value("neutrino_agent_drift_repaired_total", role="l2")
    switch.call("ovs-ofctl", "-O", "OpenFlow14", "del-flows", f"unix:{switch.directory}/br-int.mgmt", "table=60")
    wait_for(
        metrics_of(agent),
        lambda now: now.value("neutrino_agent_drift_repaired_total", role="l2") > (repaired if repaired > 0 else 0),
        "the repair is counted",
    )


def test_a_feed_without_a_server_serves_its_own(api: Caller, server: Neutrino) -> None:
    with Neutrino(
        {"metrics": {"bind": f"127.0.0.1:{free_port()}"}, "feed": {"bind": f"unix:{server.directory}/2.sock"}}
    ) as other:
        own = f"127.0.0.1:{free_port()}"
        config = other.write("feed.conf", other.config.read_text().replace(metrics_of(other), own))
        with subprocess.Popen(
            [str(other.program), "feed", "--config-file", str(config)], stderr=subprocess.DEVNULL
        ) as feed:
            try:
                wait_until(lambda: _answers(own), timeout=60, what="the feed's metrics", failed=lambda: None)
                assert scrape(own).value("neutrino_build_info", component="feed") == 1
                # The server of the machine shows them too, by the socket in their state directory.
                assert scrape(metrics_of(other)).value("neutrino_build_info", component="feed") == 1
            finally:
                feed.terminate()
        assert scrape(metrics_of(other)).value("neutrino_build_info", component="feed") != 1


def _answers(address: str) -> bool:
    try:
        return bool(scrape(address).names)
    except OSError:
        return False


def test_every_declared_metric_exists(server: Neutrino, api: Caller, agent: Agent) -> None:
    """The dashboard and the alert rules name declared metrics only (tests/unit/test_metrics.py)."""
    found = {**scrape(metrics_of(server)).types, **scrape(metrics_of(agent)).types}
    declared = {one.name: one.type for one in catalog.ALL}
    assert {name: type_ for name, type_ in found.items() if name.startswith("neutrino_")} == declared


def test_a_port_that_is_in_use_is_a_warning(server: Neutrino, api: Caller) -> None:
    with Neutrino({"metrics": {"bind": metrics_of(server)}}) as second:
        caller = Caller(second.url)
        assert caller("GET", "/v2.0/networks").status_code == 200
        caller.close()
        assert f"metrics are not served on {metrics_of(server)}: Address already in use" in second.log
