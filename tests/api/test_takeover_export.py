"""The way back: what changed here since the import, written into the recorded database of Neutron."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.tables import router_l3_agents
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import now
from neutrino.server.main import Server
from neutrino.takeover import checks, opening, run, target
from neutrino.takeover.comparison import compare, read_answers
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.exporter import Exporter, all_objects, written_tables
from neutrino.takeover.families import collections, families
from neutrino.takeover.finishing import finish
from neutrino.takeover.report import Report
from tests.api.client import Api
from tests.api.conftest import configuration_text, start
from tests.api.test_frozen import asked_again
from tests.api.test_takeover import (
    ADMIN,
    OPTIONS,
    UNLIMITED,
    db,
    execute,
    import_recorded,
    imported,
    imported_db,
    source,
)
from tests.support.commands import run_neutrino
from tests.support.databases import copied_database, prepared_database
from tests.support.neutron_database import load
from tests.support.takeover_changes import change_everything

__all__ = ["db", "imported_db", "source"]  # fixtures
HOSTS = ("compute-1", "compute-2", "network-1", "network-2")


FINAL = run.Options(OPTIONS.dns_domain, final=True)


def opened(source: sa.Engine, db: Database) -> None:
    """As after an import, whose hosts are out of use."""
    imported(source, db, FINAL)
    opening.open_writes(db, HOSTS)


@pytest.fixture
def opened_db(request: pytest.FixtureRequest, database: str, tmp_path: Path, source: sa.Engine) -> Iterator[Database]:
    """A database so: on SQLite a copy, as each import computes the same for a second."""
    if database == "sqlite":
        made = Database(copied_database(request, database, tmp_path, open_recorded))
    else:
        made = Database(prepared_database(request, database, tmp_path))
        opened(source, made)
    yield made
    made.close()


def open_recorded(url: str) -> None:
    import_recorded(url, FINAL)
    db = Database(url)
    opening.open_writes(db, HOSTS)
    db.close()


def exported(source: sa.Engine, db: Database, options: run.Options = OPTIONS) -> Report:
    return run.export(source.url, db, options)


def neutron(source: sa.Engine) -> dict[str, list[Any]]:
    """All rows of Neutron's."""
    with source.connect() as connection:
        quoted = connection.dialect.identifier_preparer.quote
        return {
            name: sorted(map(repr, connection.exec_driver_sql(f"SELECT * FROM {quoted(name)}").all()))
            for name in sa.inspect(connection).get_table_names()
        }


@contextmanager
def serving(db: Database, directory: Path) -> Iterator[Server]:
    server = start(directory, db.url.render_as_string(hide_password=False), SERVED)
    try:
        yield server
    finally:
        server.close()


SERVED: dict[str, Any] = {
    "quotas": {**UNLIMITED, "quota_rbac_policy": "-1"},
    "ml2": {"tenant_network_types": "vxlan"},
    "ml2_type_vlan": {"network_vlan_ranges": "physical:100:120"},
    "ml2_type_vxlan": {"vni_ranges": "1001:1020"},
    "ml2_type_flat": {"flat_networks": "public"},
}


def caller(server: Server) -> Callable[[str, str, object], Any]:
    api = Api(server.app, ADMIN).as_admin()

    def call(method: str, path: str, body: object = None) -> Any:
        response = api.call(method, f"/{path}", body)
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {response.body}")
        return response.body

    return call


def answers(server: Server) -> dict[str, Any]:
    call = caller(server)
    return read_answers(lambda path: call("GET", path), collections())


def make_alive(db: Database) -> None:
    with db.transaction() as tx:
        tx.execute(sa.update(t.agents).values(heartbeat_timestamp=now()))


def report_ha_routers(db: Database) -> None:
    """As hosts report new HA routers."""
    new = router_l3_agents.c.ha_port_id.is_not(None) & router_l3_agents.c.ha_state.is_(None)
    with db.transaction() as tx:
        tx.execute(sa.update(router_l3_agents).where(new).values(ha_state="standby"))


@pytest.mark.every_database
def test_every_object_of_the_import_has_neutrons_rows(source: sa.Engine, imported_db: Database) -> None:
    """The inverse of every family, on all objects: rows as Neutron wrote them."""
    db = imported_db
    with target.opened(source.url, written_tables(families()), dry_run=True) as opened_target:
        exporter = Exporter(db, opened_target, families(), all_objects(db, families()), Deviations())
        exporter.check()
        assert {name: one for name, one in exporter.counts.items() if one.written} == {}
        assert list(exporter.deviations) == []
        rows = sum(len(some) for family in families() for some in decomposed(exporter, family).values())
    assert rows > 400


def decomposed(exporter: Exporter, family: Any) -> Any:
    return exporter.decomposed(family, exporter.changes.get(family.name, ()))


@pytest.mark.every_database
def test_nothing_changed_writes_nothing(source: sa.Engine, opened_db: Database) -> None:
    before = neutron(source)
    assert exported(source, opened_db).written == 0
    assert neutron(source) == before


@pytest.mark.every_database
def test_changes_are_imported_again_as_they_are(
    source: sa.Engine, opened_db: Database, request: pytest.FixtureRequest, database: str, tmp_path: Path
) -> None:
    make_alive(opened_db)
    with serving(opened_db, tmp_path) as server:
        change_everything(caller(server))
        report_ha_routers(opened_db)
        dry = exported(source, opened_db, run.Options(OPTIONS.dns_domain, dry_run=True))
        before = neutron(source)
        report = exported(source, opened_db)
        assert list(report.deviations) == []
        assert {name: vars(one) for name, one in dry.counts.items()} == {
            name: vars(one) for name, one in report.counts.items()
        }
        assert neutron(source) != before
        written = neutron(source)
        assert exported(source, opened_db).written == 0
        assert neutron(source) == written
        ours = answers(server)
    check_derived(source)
    other = Database(prepared_database(request, database, tmp_path))
    again = imported(source, other)
    assert list(again.deviations) == []
    with serving(other, tmp_path) as server:
        differences = list(compare(answers(server), ours))
    # Neutron stores no revision of address scopes, and does not show one.
    assert [one for one in differences if one.collection != "address-scopes"] == []
    other.close()


def check_derived(source: sa.Engine) -> None:
    """IPAM, segmentation ids and VRRP ids in use are those of the objects."""

    def rows(statement: str) -> list[Any]:
        with source.connect() as connection:
            return sorted(map(tuple, connection.execute(sa.text(statement))))

    join = "JOIN ipamsubnets s ON s.id = a.ipam_subnet_id"
    assert rows("SELECT subnet_id, ip_address FROM ipallocations") == rows(
        f"SELECT s.neutron_subnet_id, a.ip_address FROM ipamallocations a {join}"
    )
    assert rows("SELECT subnet_id, first_ip, last_ip FROM ipallocationpools") == rows(
        f"SELECT s.neutron_subnet_id, a.first_ip, a.last_ip FROM ipamallocationpools a {join}"
    )
    assert rows("SELECT id FROM subnets") == rows("SELECT neutron_subnet_id FROM ipamsubnets")
    for kind, column in (("vxlan", "vxlan_vni"), ("gre", "gre_id"), ("geneve", "geneve_vni"), ("vlan", "vlan_id")):
        assert rows(f"SELECT {column} FROM ml2_{kind}_allocations WHERE allocated") == rows(
            f"SELECT segmentation_id FROM networksegments WHERE network_type = '{kind}'"
        ), kind
    assert rows("SELECT ha_vr_id FROM router_extra_attributes WHERE ha") == rows(
        "SELECT vr_id FROM ha_router_vrid_allocations"
    )
    for name in ("ports", "networks", "subnets", "routers", "securitygrouprules", "floatingips", "portforwardings"):
        attributes = f"SELECT id FROM standardattributes WHERE resource_type = '{name}'"
        assert rows(attributes) == rows(f"SELECT standard_attr_id FROM {name}"), name


# --- what is left alone, and refused ----------------------------------------------------------------------------------


def test_what_the_import_left_out_stays(source: sa.Engine, db: Database, tmp_path: Path) -> None:
    execute(
        source,
        "UPDATE logs SET resource_type = 'snat'",
        "UPDATE networks SET name = NULL WHERE name = 'gre'",
        "UPDATE floatingips SET floating_port_id = 'gone' WHERE id = (SELECT MIN(id) FROM floatingips)",
    )
    opened(source, db)
    before = neutron(source)
    assert exported(source, db, run.Options(OPTIONS.dns_domain, dry_run=True)).written == 0
    with serving(db, tmp_path) as server:
        network = caller(server)("GET", "networks", None)["networks"][0]
        caller(server)("PUT", f"networks/{network['id']}", {"network": {"description": "changed"}})
    report = exported(source, db)
    assert (report.written, report.counts["networks"].updated) == (1, 1)
    now_there = neutron(source)
    assert {name for name, rows in now_there.items() if rows != before[name]} == {"standardattributes"}


def test_a_log_of_a_firewall_group_is_as_it_was(source: sa.Engine, db: Database) -> None:
    groups = "SELECT MIN(id) FROM firewall_groups_v2"
    execute(source, f"UPDATE logs SET resource_type = 'firewall_group', resource_id = ({groups})")
    opened(source, db)
    before = neutron(source)
    assert exported(source, db).written == 0
    with target.opened(source.url, written_tables(families()), dry_run=True) as opened_target:
        exporter = Exporter(db, opened_target, families(), all_objects(db, families()), Deviations())
        exporter.check()
        assert exporter.counts["logs"].written == 0
    assert neutron(source) == before


def test_only_what_operators_set_of_agents_is_written(source: sa.Engine, opened_db: Database) -> None:
    with opened_db.transaction() as tx:
        tx.execute(sa.update(t.agents).values(heartbeat_timestamp=now(), configurations="{}"))
        off = sa.update(t.agents).where(t.agents.c.host == "network-2", t.agents.c.agent_type == "L3 agent")
        tx.execute(off.values(admin_state_up=False))
    assert exported(source, opened_db).written == 1
    statement = sa.text("SELECT configurations FROM agents WHERE admin_state_up = FALSE")
    with source.connect() as connection:
        assert "agent_mode" in connection.execute(statement).scalar_one()


def test_an_export_that_fails_writes_nothing(
    source: sa.Engine, opened_db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(opened_db, tmp_path) as server:
        Api(server.app, ADMIN).as_admin().make("network", name="new")
    before = neutron(source)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("neutrino.takeover.derived.after_insertion", stop)
    with pytest.raises(KeyboardInterrupt):
        exported(source, opened_db)
    assert neutron(source) == before
    monkeypatch.undo()
    assert exported(source, opened_db).counts["networks"].created == 1


def test_another_neutron_is_refused(source: sa.Engine, opened_db: Database) -> None:
    execute(source, "DELETE FROM routers WHERE name = 'dvrha'")
    before = neutron(source)
    (refused,) = exported(source, opened_db).deviations.refused
    assert (refused.kind, "another Neutron" in refused.reason) == ("routers", True)
    execute(source, "UPDATE alembic_version SET version_num = 'b1bca967e19d' WHERE version_num = 'c7f8d9e0f1a2'")
    with pytest.raises(checks.Refused, match=r"2026\.1"):
        exported(source, opened_db)
    execute(source, "UPDATE alembic_version SET version_num = 'c7f8d9e0f1a2' WHERE version_num = 'b1bca967e19d'")
    assert neutron(source) == before


def test_objects_that_neutron_created_since_are_refused(source: sa.Engine, opened_db: Database) -> None:
    execute(
        source,
        "INSERT INTO standardattributes (id, resource_type, created_at, updated_at, revision_number) "
        "VALUES (99999, 'networks', '2999-01-01 00:00:00', '2999-01-01 00:00:00', 1)",
        "INSERT INTO networks (id, project_id, name, status, admin_state_up, standard_attr_id) "
        "VALUES ('later', 'p', 'later', 'ACTIVE', TRUE, 99999)",
    )
    (refused,) = exported(source, opened_db).deviations.refused
    assert (refused.object_id, "after the last import" in refused.reason) == ("later", True)


def test_kinds_that_only_we_have_are_refused(source: sa.Engine, opened_db: Database, tmp_path: Path) -> None:
    execute(source, "DROP TABLE meteringlabels")
    with serving(opened_db, tmp_path) as server:
        network = Api(server.app, ADMIN).as_admin().make("network", name="new")
    with opened_db.transaction() as tx:
        value = {"object_id": network["id"], "name": "more", "value": "1"}
        tx.execute(sa.insert(t.network_attributes).values(value))
    before = neutron(source)
    report = exported(source, opened_db)
    assert {one.kind for one in report.deviations.refused} == {"network_attributes", "metering_labels"} | {
        "metering_label_rules"
    }
    assert neutron(source) == before


@pytest.mark.every_database
def test_after_an_export_requests_write_in_neutron_only(source: sa.Engine, opened_db: Database, tmp_path: Path) -> None:
    """What Neutron changes then is imported again, and another takeover follows."""
    with serving(opened_db, tmp_path) as server:
        api = Api(server.app, ADMIN).as_admin()
        networks = [api.make("network", name=name) for name in ("kept", "changed", "deleted")]
        assert exported(source, opened_db, run.Options(OPTIONS.dns_domain, dry_run=True)).written == 3
        api.make("network", name="after a dry run")
        assert exported(source, opened_db).written == 4
        asked_again(server)
        api.post("/networks", {"network": {}}).refused(503, "CloudFrozen")
        assert opening.read_state(opened_db).phase is opening.Phase.EXPORTED
        with pytest.raises(checks.Refused, match="given this cloud back"):
            finish(opened_db)

        execute(
            source,
            "UPDATE networks SET name = 'by Neutron' WHERE name = 'changed'",
            f"DELETE FROM networksegments WHERE network_id = '{networks[2]['id']}'",
            "DELETE FROM networks WHERE name = 'deleted'",
        )
        with pytest.raises(checks.Refused, match="2 objects differ since the export of"):
            exported(source, opened_db)
        report = imported(source, opened_db, run.Options(OPTIONS.dns_domain, final=True))
        assert (report.counts["networks"].updated, report.counts["networks"].deleted) == (1, 1)
        names = {one["name"] for one in api.get("/networks").expect(200).body["networks"]}
        assert {"kept", "by Neutron", "after a dry run"} <= names
        assert opening.read_state(opened_db).phase is opening.Phase.FROZEN
        opening.open_writes(opened_db, HOSTS)
        asked_again(server)
        api.make("network", name="of the second takeover")
        assert exported(source, opened_db).counts["networks"].created == 1


def test_an_export_can_be_undone_by_opening_again(source: sa.Engine, opened_db: Database, tmp_path: Path) -> None:
    exported(source, opened_db)
    opening.open_writes(opened_db, HOSTS)
    assert opening.read_state(opened_db).phase is opening.Phase.OPEN
    with serving(opened_db, tmp_path) as server:
        Api(server.app, ADMIN).as_admin().make("network", name="new")
    assert exported(source, opened_db).counts["networks"].created == 1


def test_an_export_that_was_killed_is_completed_by_the_next(source: sa.Engine, opened_db: Database) -> None:
    """It ended between the commit in Neutron's database and the mark in ours: requests still may not write."""
    with opened_db.transaction() as tx:
        tx.execute(sa.update(t.takeovers).values(closed_at=now()))
    state = opening.read_state(opened_db)
    assert (state.phase, state.is_frozen, "run it again" in state.to_text()) == (opening.Phase.CLOSED, True, True)
    assert exported(source, opened_db).written == 0
    assert opening.read_state(opened_db).phase is opening.Phase.EXPORTED


def test_an_export_waits_until_servers_refuse_writes(source: sa.Engine, opened_db: Database, tmp_path: Path) -> None:
    waited: list[float] = []
    with opening.closed(opened_db, waited.append):
        assert waited == [], "no server runs"
    assert opening.read_state(opened_db).phase is opening.Phase.OPEN, "it was not completed"
    with opened_db.transaction() as tx:
        tx.execute(
            sa.insert(t.server_processes).values(
                id="1", kind="api", host="h", pid=1, release="", started_at=now(), seen_at=now()
            )
        )
    with opening.closed(opened_db, waited.append) as closing:
        closing.is_complete = True
    assert waited == [opening.NOTICE_SECONDS]


def test_before_open_there_is_nothing_to_export(source: sa.Engine, db: Database) -> None:
    with pytest.raises(checks.Refused, match="nothing was imported"):
        exported(source, db)
    imported(source, db, FINAL)
    with pytest.raises(checks.Refused, match="nothing to export"):
        exported(source, db)


def test_every_family_but_the_tags_of_rules_has_an_inverse() -> None:
    assert [family.name for family in families() if family.decompose is None] == ["tags of rules"]
    for family in families():
        assert bool(family.theirs) == (family.decompose is not None)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.mariadb
def test_command_exports_and_reports(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = copied_database(request, "mariadb", tmp_path, load)
    (tmp_path / "neutron").write_text(url)
    configuration = tmp_path / "neutrino.conf"
    configuration.write_text(configuration_text(f"sqlite:///{tmp_path}/ours.sqlite"))
    common = ["--config-file", str(configuration)]
    export = ["takeover", "export", *common, "--to-file", str(tmp_path / "neutron")]
    assert (
        run_neutrino(["takeover", "import", *common, "--from-file", str(tmp_path / "neutron"), "--final"]).status == 0
    )
    done = run_neutrino(export)
    assert (done.status, "nothing to export" in done.error) == (1, True)
    assert run_neutrino(["takeover", "open", *common, "--despite-hosts", ",".join(HOSTS)]).status == 0
    ours = Database(f"sqlite:///{tmp_path}/ours.sqlite")
    with ours.transaction() as tx:
        tx.execute(sa.update(t.networks).where(t.networks.c.name == "gre").values(name="renamed"))
    ours.close()
    assert run_neutrino([*export, "--dry-run"]).status == 1
    report = tmp_path / "report.json"
    done = run_neutrino([*export, "--report", str(report)])
    assert (done.status, "1 updated" in done.out) == (0, True), done.error
    assert json.loads(report.read_text())["families"]["networks"]["updated"] == 1
    assert (sa.make_url(url).password or "") not in done.out + done.error + report.read_text()
    assert run_neutrino([*export, "--dry-run"]).status == 0
    assert run_neutrino(["takeover", "export", *common]).status == 2
    assert (
        run_neutrino(["takeover", "export", *common, "--to", "mysql+pymysql://nobody@127.0.0.1:1/neutron"]).status == 3
    )
