"""A cloud whose takeover from Neutron is not completed: it is read, hosts report, and nothing else changes."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino import request_ids
from neutrino.model.agents import DATAPLANE, DHCP
from neutrino.server import errors
from neutrino.server.backend import build_backend, host_reports
from neutrino.server.db import tables as t
from neutrino.server.frozen import KEPT_SECONDS, Frozen
from neutrino.server.hosts.queries import HostQueries
from neutrino.server.main import Server
from neutrino.server.scheduling.scheduler import Sweeper
from neutrino.takeover import checks, opening
from neutrino.takeover.finishing import finish
from tests.api.agents import report, set_clock, switch
from tests.api.client import Api
from tests.api.conftest import configuration_text, start
from tests.api.dhcp import dhcp_ports
from tests.support.commands import run_neutrino

AT = "2026-11-18T10:00:00Z"
OVS_OF_NEUTRON = {"bridge_mappings": {}, "tunnel_types": ["vxlan"]}


@pytest.fixture
def server(another_server: Any) -> Server:
    made: Server = another_server()
    return made


@pytest.fixture
def admin(server: Server) -> Api:
    return Api(server.app).as_admin()


def imported(server: Server, key: str = "1", **values: Any) -> None:
    """As after an import of Neutron's database, in all processes."""
    row = {
        "source": "neutron@db",
        "release": "2026.1",
        "started_at": AT,
        "finished_at": AT,
        "final": True,
        "counts": "{}",
    }
    with server.db.transaction() as tx:
        tx.insert(t.takeovers, [{"id": key, **row, **values}])
    asked_again(server)


def asked_again(server: Server) -> None:
    """As a second later."""
    server.db.is_frozen = Frozen(server.db)


@pytest.mark.every_database
def test_writes_are_refused_and_reads_are_answered(server: Server, admin: Api) -> None:
    network, stranger = admin.network(), Api(server.app).as_stranger()
    port = admin.port(network)
    imported(server)
    for answer in (
        admin.post("/networks", {"network": {}}),
        admin.post("/ports", {"ports": [{"network_id": network["id"]}]}),
        admin.put(f"/ports/{port['id']}", {"port": {"name": "other"}}),
        admin.put(f"/networks/{network['id']}/tags/one", None),
        admin.put(f"/quotas/{admin.project}", {"quota": {"port": 7}}),
        admin.delete(f"/ports/{port['id']}"),
        stranger.post("/security-groups", {"security_group": {"name": "x"}}),
    ):
        answer.refused(503, "CloudFrozen")
        assert answer.headers["retry-after"] == "30"
    admin.post("/networks", {"network": {"name": 7}}).expect(400)
    admin.get(f"/ports/{port['id']}").expect(200)
    assert [one["id"] for one in admin.all("/networks")] == [network["id"]]
    assert stranger.all("/security-groups") == [], "a list creates no default group"
    assert stranger.all("/security-group-rules") == []
    assert stranger.all("/fwaas/firewall_groups") == []


def test_a_running_server_learns_of_it_within_a_second(server: Server, admin: Api) -> None:
    now = 100.0
    server.db.is_frozen = Frozen(server.db, lambda: now)
    admin.network()
    frozen = server.db.is_frozen
    imported(server)
    server.db.is_frozen = frozen
    assert not frozen()
    now += KEPT_SECONDS
    admin.post("/networks", {"network": {}}).refused(503, "CloudFrozen")


def test_what_the_server_writes_for_itself(server: Server, admin: Api) -> None:
    """Traces are answered: their questions to hosts are rows of the server, not of the cloud."""
    network = admin.network()
    admin.subnet(network)
    port = admin.port(network)
    imported(server)
    admin.post("/traces", {"trace": {"source_port_id": port["id"], "destination_address": "10.0.0.9"}}).expect(201)
    token = request_ids.CURRENT.set("req-1")
    try:
        with pytest.raises(errors.CloudFrozen), server.db.transaction():
            pass
        question = HostQueries(server.db, server.registry)._insert("flows", {"h1": b"{}"}, 1.0)
    finally:
        request_ids.CURRENT.reset(token)
    with server.db.read() as connection:
        assert connection.execute(sa.select(t.host_queries.c.id)).scalars().all() == [question["h1"]]


def test_nothing_is_moved_until_it_is_opened(server: Server, admin: Api) -> None:
    switch(server, "h1")
    report(server, DHCP, "h1", dhcp_port_by_server=True)
    network, waiting = admin.network(), admin.network()
    admin.subnet(network, "10.0.0.0/24")
    imported(server)
    placed = dhcp_ports(admin, network)
    assert [port["binding:host_id"] for port in placed] == ["h1"]
    sweeper = Sweeper([server.scheduler], server.registry, 30.0, threading.Event())
    set_clock(server, 10_000.0)
    backend = build_backend(server.conf)
    host_reports(backend).reported(switch(server, "h2"))
    backend.close()
    for _ in range(5):
        sweeper.sweep()
        set_clock(server, 30.0)
    assert dhcp_ports(admin, network) == placed
    server.db.is_frozen = lambda: False
    admin.subnet(waiting, "10.0.1.0/24")
    with server.db.transaction() as tx:
        tx.execute(t.network_dhcp_agents.delete().where(t.network_dhcp_agents.c.network_id == waiting["id"]))
    report(server, DHCP, "h2", dhcp_port_by_server=True)
    opening.open_writes(server.db, ["h1", "h2"])
    asked_again(server)
    sweeper.sweep()
    assert "h2" in [port["binding:host_id"] for port in dhcp_ports(admin, waiting)], "it lacked an agent"


def test_a_report_while_it_is_frozen_schedules_nothing(server: Server, admin: Api) -> None:
    network = admin.network()
    admin.subnet(network)
    imported(server)
    backend = build_backend(server.conf)
    try:
        reported = host_reports(backend).reported
        switch(server, "h1")
        made = report_alone(server, "h1")
        reported(made)
        assert dhcp_ports(admin, network) == []
    finally:
        backend.close()


def report_alone(server: Server, host: str) -> Any:
    scheduler, reported = server.scheduler, []
    original = scheduler.reported
    scheduler.reported = reported.append  # type: ignore[method-assign]
    try:
        return report(server, DHCP, host, dhcp_port_by_server=True)
    finally:
        scheduler.reported = original  # type: ignore[method-assign]


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"finished_at": None}, "not finished"),
        ({"final": False}, "not the final one"),
        ({"opened_at": AT}, "already"),
        (None, "nothing was imported"),
    ],
)
def test_what_cannot_be_opened(server: Server, values: dict[str, Any] | None, words: str) -> None:
    if values is not None:
        imported(server, **values)
    with pytest.raises(checks.Refused, match=words):
        opening.open_writes(server.db)


@pytest.mark.every_database
def test_hosts_that_are_not_converted_are_named(server: Server, admin: Api) -> None:
    switch(server, "converted", **{DATAPLANE: "up"})
    switch(server, "left", **OVS_OF_NEUTRON)
    imported(server, "1", final=False, started_at="2026-11-18T09:00:00Z")
    imported(server, "2")
    state = opening.read_state(server.db)
    assert (state.converted, state.left, state.is_frozen) == (("converted",), ("left",), True)
    with pytest.raises(checks.Refused, match=r"1 hosts have Neutron.*: left\."):
        opening.open_writes(server.db)
    admin.post("/networks", {"network": {}}).refused(503, "CloudFrozen")
    assert not opening.open_writes(server.db, ["left"]).is_frozen
    asked_again(server)
    admin.network()


def test_a_server_that_starts_while_it_is_frozen_begins_when_it_is_opened(server: Server) -> None:
    """Opened before the first sweep, too; once."""
    imported(server)
    begun: list[str] = []
    sweeper = Sweeper([server.scheduler], server.registry, 1.0, server.stop, {}, lambda: begun.append("plugins"))
    sweeper.sweep()
    assert begun == []
    opening.open_writes(server.db)
    asked_again(server)
    sweeper.sweep()
    sweeper.sweep()
    assert begun == ["plugins"]


def test_ports_whose_binding_failed_are_named_once_it_is_open(server: Server, admin: Api) -> None:
    network = admin.network()
    body = {"port": {"network_id": network["id"], "binding:host_id": "without-agent"}}
    port = admin.post("/ports", body).expect(201).body["port"]
    assert port["binding:vif_type"] == "binding_failed"
    imported(server)
    assert port["id"] not in opening.read_state(server.db).to_text()
    assert f"ports whose binding failed: {port['id']}" in opening.open_writes(server.db).to_text()


def test_phases(server: Server) -> None:
    phases = [opening.read_state(server.db).phase]
    imported(server, "1", final=False, started_at="2026-11-18T08:00:00Z")
    phases.append(opening.read_state(server.db).phase)
    imported(server, "2")
    phases.append(opening.read_state(server.db).phase)
    opening.open_writes(server.db)
    phases.append(opening.read_state(server.db).phase)
    finish(server.db)
    assert [*phases, opening.read_state(server.db).phase] == ["none", "imported", "frozen", "open", "finished"]


@pytest.mark.every_database
def test_the_end_removes_agents_that_reported_nothing_since(server: Server, admin: Api) -> None:
    """One with a network on it stays, and is named."""
    for host in ("busy", "gone"):
        report(server, DHCP, host)
    network = admin.network()
    admin.subnet(network)
    agents = {one["host"]: one["id"] for one in admin.get("/agents").expect(200).body["agents"]}
    placed = t.network_dhcp_agents
    with server.db.transaction() as tx:
        tx.execute(sa.delete(placed))
        tx.execute(sa.insert(placed).values(network_id=network["id"], agent_id=agents["busy"], requested=False))
        tx.execute(sa.update(t.agents).values(heartbeat_timestamp="2026-11-18T09:00:00Z"))
    report(server, DHCP, "converted")
    imported(server, opened_at=AT)
    done = finish(server.db)
    assert (done.removed, done.serving) == (("DHCP agent on gone",), ("DHCP agent on busy",))
    assert {one["host"] for one in admin.get("/agents").body["agents"]} == {"busy", "converted"}
    for words in ("RabbitMQ", "neutron@db", "DHCP agent on busy"):
        assert words in done.to_text()
    with pytest.raises(checks.Refused, match="no way back"):
        opening.last_import_to_export(server.db)
    with pytest.raises(checks.Refused, match="finished already"):
        finish(server.db)


@pytest.mark.parametrize(
    ("values", "words"), [(None, "nothing was imported"), ({}, "takeover open"), ({"opened_at": AT}, "1 hosts have")]
)
def test_what_cannot_be_finished(server: Server, values: dict[str, Any] | None, words: str) -> None:
    switch(server, "left", **OVS_OF_NEUTRON)
    if values is not None:
        imported(server, **values)
    with pytest.raises(checks.Refused, match=words):
        finish(server.db)


@pytest.mark.parametrize("exported", [None, AT])
def test_no_host_is_converted_after_an_export(tmp_path: Path, exported: str | None) -> None:
    """Neutron serves the hosts that were given back, and changes objects that ours would not learn of."""
    url = f"sqlite:///{tmp_path}/ours.sqlite"
    server = start(tmp_path, url)
    configuration = tmp_path / "neutrino.conf"
    configuration.write_text(configuration_text(url))
    try:
        switch(server, "given-back", **OVS_OF_NEUTRON)
        imported(server, opened_at=AT, closed_at=AT, exported_at=exported)
        done = run_neutrino(["takeover", "host", "--all", "--config-file", str(configuration)])
    finally:
        server.close()
    assert (done.status, "exported to Neutron" in done.error) == (1, True), done


def test_the_commands(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/ours.sqlite"
    server = start(tmp_path, url)
    configuration = tmp_path / "neutrino.conf"
    configuration.write_text(configuration_text(url))
    common = ["--config-file", str(configuration)]
    try:
        done = run_neutrino(["takeover", "status", *common])
        assert (done.status, "no copy of Neutron's" in done.out) == (1, True)
        imported(server)
        done = run_neutrino(["takeover", "status", *common])
        assert done.status == 1
        assert "a final import of neutron@db (2026.1), finished at 2026-11-18T10:00:00Z" in done.out
        switch(server, "left", **OVS_OF_NEUTRON)
        done = run_neutrino(["takeover", "status", "--json", *common])
        assert done.status == 1
        assert json.loads(done.out) == {"phase": "frozen", "converted": [], "left": ["left"], "network_nodes": []}
        done = run_neutrino(["takeover", "open", *common])
        assert (done.status, "left" in done.error) == (1, True)
        assert run_neutrino(["takeover", "open", *common, "--despite-hosts", "left"]).status == 0
        assert run_neutrino(["takeover", "status", *common]).status == 0
        assert run_neutrino(["takeover", "finish", *common]).status == 1
        done = run_neutrino(["takeover", "finish", *common, "--despite-hosts", "left"])
        assert (done.status, "to remove by hand" in done.out) == (0, True)
        assert "phase: finished" in run_neutrino(["takeover", "status", *common]).out
    finally:
        server.close()
