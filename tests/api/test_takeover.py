"""The import of a recorded database of Neutron: answers as Neutron's own, differences, faults, dirty rows, refusals.

tests/data/takeover is written by `python -m qa.takeover.record`, which builds a cloud through the API of a real Neutron.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.feed import read_routers
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import timestamp
from neutrino.takeover import checks, run
from neutrino.takeover.comparison import compare, read_answers
from neutrino.takeover.deviations import Action
from neutrino.takeover.families import collections
from neutrino.takeover.report import Report
from neutrino.takeover.source import SourceError, WrongAddress, parse_url
from tests.api.client import Api
from tests.api.conftest import configuration_text, start
from tests.faults import integrity
from tests.support.commands import run_neutrino
from tests.support.databases import copied_database, create_schema, prepared_database
from tests.support.neutron_database import load, recorded_answers

OPTIONS = run.Options(dns_domain="example.org.")
UNLIMITED = {
    f"quota_{name}": "-1"
    for name in ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule")
}
ADMIN = "0c" * 16  # the project of the recorder


@pytest.fixture
def source(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[sa.Engine]:
    """The recorded database of Neutron."""
    engine = sa.create_engine(copied_database(request, database, tmp_path, load))
    yield engine
    engine.dispose()


@pytest.fixture
def db(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Iterator[Database]:
    """A database of ours without objects."""
    made = Database(prepared_database(request, database, tmp_path))
    yield made
    made.close()


@pytest.fixture
def imported_db(request: pytest.FixtureRequest, database: str, tmp_path: Path, source: sa.Engine) -> Iterator[Database]:
    """One after the import: on SQLite a copy, as each import computes the same for a second."""
    if database == "sqlite":
        made = Database(copied_database(request, database, tmp_path, import_recorded))
    else:
        made = Database(prepared_database(request, database, tmp_path))
        imported(source, made)
    yield made
    made.close()


def import_recorded(url: str, options: run.Options = OPTIONS) -> Database:
    """Import the recorded database into this one; it is returned closed, with all in its file."""
    with tempfile.TemporaryDirectory() as directory:
        recorded = sa.make_url(f"sqlite:///{directory}/neutron.sqlite")
        load(recorded)
        create_schema(url)
        made = Database(url)
        run.run(recorded, made, options)
        made.close()
    return made


def imported(source: sa.Engine, db: Database, options: run.Options = OPTIONS, progress: Any = None) -> Report:
    return run.run(source.url, db, options, *([progress] if progress else []))


def execute(source: sa.Engine, *statements: str) -> None:
    with source.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def rows(db: Database) -> dict[str, list[Any]]:
    """All rows of ours, but for the log of changes and of imports."""
    apart = {"changes", "change_head", "takeovers", "server_processes"}
    with db.read() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(sa.select(table)).all()))
            for table in t.metadata.sorted_tables
            if table.name not in apart
        }


def some_id(source: sa.Engine, table: str, condition: str = "1 = 1", column: str = "id") -> str:
    statement = f"SELECT {column} FROM {table} WHERE {condition} ORDER BY {column}"
    with source.connect() as connection:
        return str(connection.execute(sa.text(statement)).scalars().first())


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_api_answers_as_neutron_did(source: sa.Engine, db: Database, tmp_path: Path) -> None:
    report = imported(source, db)
    assert list(report.deviations) == []
    assert report.release == "2026.2"
    integrity.check(db)
    server = start(tmp_path, db.url.render_as_string(hide_password=False), {"quotas": UNLIMITED})
    try:
        api = Api(server.app, ADMIN).as_admin()

        def get(path: str) -> Any:
            response = api.get(f"/{path}")
            if response.status != 200:
                raise RuntimeError(response.body)
            return response.body

        differences = list(compare(recorded_answers(), read_answers(get, collections())))
    finally:
        server.close()
    assert differences == []


def test_hosts_get_ha_and_distributed_routers(imported_db: Database) -> None:
    with imported_db.read() as connection:
        records = [record for _, record in read_routers(connection, None)]
        macs = connection.execute(sa.select(t.dvr_host_macs.c.mac_address)).scalars().all()
    memberships = [router.ha for record in records for router in record.values() if router.ha is not None]
    assert len(memberships) == 2  # the other HA router is distributed, and has no gateway
    assert sorted(macs) == [f"fa:16:3f:00:00:{number:02x}" for number in range(4)]


@pytest.mark.every_database
def test_a_second_import_writes_nothing(source: sa.Engine, db: Database) -> None:
    first = imported(source, db)
    before = rows(db)
    second = imported(source, db)
    assert first.written > 100
    assert second.written == 0
    assert rows(db) == before


@pytest.mark.every_database
def test_a_dry_run_writes_nothing(source: sa.Engine, db: Database) -> None:
    before = rows(db)
    report = imported(source, db, run.Options(dns_domain="example.org.", dry_run=True))
    assert report.counts["ports"].created == report.counts["ports"].read > 0
    assert rows(db) == before


@pytest.mark.every_database
def test_what_neutron_changes_is_changed(source: sa.Engine, imported_db: Database) -> None:
    db = imported_db
    port = some_id(source, "ports", "name = 'vm3'")
    parent = some_id(source, "trunks", column="port_id")
    first, second = (some_id(source, "ports", f"name = '{name}'") for name in ("vm1", "vm2"))
    with source.connect() as connection:
        macs = dict(connection.execute(sa.text("SELECT id, mac_address FROM ports")).all())
    execute(
        source,
        f"UPDATE ports SET mac_address = '{macs[second]}' WHERE id = '{first}'",
        f"UPDATE ports SET mac_address = '{macs[first]}' WHERE id = '{second}'",
        *_deleted(port),
        "DELETE FROM tap_flows",
        "DELETE FROM tap_services",
        "DELETE FROM subports",
        "DELETE FROM trunks",
        *_deleted(parent),
        "UPDATE networks SET name = 'renamed' WHERE name = 'vlan'",
        "DELETE FROM qos_port_policy_bindings",
    )
    report = imported(source, db)
    assert (report.counts["ports"].updated, report.counts["ports"].deleted) == (2, 2)
    assert report.counts["networks"].updated == 1
    integrity.check(db)
    with db.read() as connection:
        now = dict(connection.execute(sa.select(t.ports.c.id, t.ports.c.mac_address)).all())
        deleted = connection.execute(
            sa.select(t.changes.c.object_id).where(t.changes.c.deleted, t.changes.c.kind == "port")
        )
        assert set(deleted.scalars()) == {port, parent}
    assert (now[first], now[second]) == (macs[second], macs[first])
    assert port not in now
    assert imported(source, db).written == 0


def _deleted(port: str) -> list[str]:
    tables = ("ipallocations", "securitygroupportbindings", "ml2_port_bindings", "ml2_port_binding_levels")
    own = [f"DELETE FROM {table} WHERE port_id = '{port}'" for table in tables]
    standard = f"(SELECT standard_attr_id FROM ports WHERE id = '{port}')"
    return [*own, f"DELETE FROM standardattributes WHERE id IN {standard}", f"DELETE FROM ports WHERE id = '{port}'"]


@pytest.mark.every_database
def test_a_killed_import_is_completed_by_the_next(source: sa.Engine, db: Database, imported_db: Database) -> None:
    wanted = rows(imported_db)
    for stop in ("write: ports", "write: floating IPs"):
        with pytest.raises(KeyboardInterrupt):
            imported(source, db, progress=_stopping(stop))
    imported(source, db)
    assert rows(db) == wanted


def _stopping(at: str) -> Callable[[str, int, int], None]:
    def progress(step: str, done: int, total: int) -> None:
        if step == at:
            raise KeyboardInterrupt

    return progress


# --- dirty rows -------------------------------------------------------------------------------------------------------

# Each: statements on Neutron's database, with {names} of ids, and what is said of it.
DIRT: dict[str, tuple[tuple[str, ...], Action, str]] = {
    "network without standard attributes": (
        ("UPDATE networks SET standard_attr_id = 99999 WHERE name = 'vlan'",),
        Action.REPAIRED,
        "no standard attributes",
    ),
    "standard attributes without object": (
        ("INSERT INTO standardattributes (id, resource_type, revision_number) VALUES (88888, 'ports', 1)",),
        Action.LEFT_OUT,
        "does not exist",
    ),
    "address without port": (
        ("UPDATE ipallocations SET port_id = NULL WHERE ip_address = (SELECT MIN(ip_address) FROM ipallocations)",),
        Action.LEFT_OUT,
        "of no port",
    ),
    "port on no network": (
        ("UPDATE ports SET network_id = 'gone' WHERE name = 'no-address'",),
        Action.LEFT_OUT,
        "network_id gone does not exist",
    ),
    "address on no subnet": (
        ("UPDATE ipallocations SET subnet_id = 'gone' WHERE ip_address = (SELECT MAX(ip_address) FROM ipallocations)",),
        Action.LEFT_OUT,
        "subnet that does not exist",
    ),
    "network without segment": (
        ("DELETE FROM networksegments WHERE network_type = 'geneve'",),
        Action.REPAIRED,
        "no segment",
    ),
    "segment twice": (
        ("UPDATE networksegments SET segmentation_id = 1001 WHERE network_type = 'vxlan'",),
        Action.REFUSED,
        "vxlan/1001 is also the segment",
    ),
    "rule of equal meaning": (
        (
            "INSERT INTO securitygrouprules (id, project_id, security_group_id, direction, ethertype, protocol, "
            "remote_ip_prefix, standard_attr_id) SELECT 'equal', project_id, security_group_id, direction, ethertype, "
            "'6', remote_ip_prefix, NULL FROM securitygrouprules WHERE remote_address_group_id IS NOT NULL",
            "UPDATE securitygrouprules SET remote_address_group_id = (SELECT MIN(id) FROM address_groups) "
            "WHERE id = 'equal'",
        ),
        Action.REPAIRED,
        "both are kept",
    ),
    "rule with no prefix": (
        ("UPDATE securitygrouprules SET remote_ip_prefix = 'nonsense' WHERE remote_ip_prefix IS NOT NULL",),
        Action.REFUSED,
        "is no prefix",
    ),
    "two active bindings": (
        ("UPDATE ml2_port_bindings SET status = 'ACTIVE'",),
        Action.REPAIRED,
        "several ACTIVE bindings",
    ),
    "binding profile of no JSON": (
        ("UPDATE ml2_port_bindings SET profile = '{' WHERE host = 'compute-1'",),
        Action.REPAIRED,
        "is no JSON",
    ),
    "gateway port gone": (
        ("UPDATE routers SET gw_port_id = 'gone' WHERE name = 'legacy'",),
        Action.REPAIRED,
        "no gateway",
    ),
    "floating IP without its port": (
        ("UPDATE floatingips SET floating_port_id = 'gone' WHERE id = (SELECT MIN(id) FROM floatingips)",),
        Action.LEFT_OUT,
        "floating_port_id gone",
    ),
    "floating IP never completed": (
        ("UPDATE ports SET device_id = 'PENDING' WHERE device_owner = 'network:floatingip'",),
        Action.REPAIRED,
        "never completed",
    ),
    "two HA networks of a project": (
        (
            "INSERT INTO ha_router_networks (project_id, network_id) SELECT MIN(h.project_id), MIN(n.id) "
            "FROM ha_router_networks h, networks n WHERE n.name = 'gre'",
        ),
        Action.REPAIRED,
        "several HA networks",
    ),
    "policy of no QoS": (
        ("UPDATE qos_port_policy_bindings SET policy_id = 'gone'",),
        Action.REPAIRED,
        "qos_policy_id gone does not exist",
    ),
    "equal VRRP ids": (
        (
            "UPDATE router_extra_attributes SET ha_vr_id = 7 WHERE ha",
            "UPDATE ports SET network_id = (SELECT MIN(network_id) FROM ha_router_networks) "
            "WHERE device_owner = 'network:router_ha_interface'",
        ),
        Action.REFUSED,
        "is not the only one",
    ),
    "log of another kind": (
        ("UPDATE logs SET resource_type = 'snat'",),
        Action.LEFT_OUT,
        "has no place here",
    ),
    "quota without limit": (
        ("UPDATE quotas SET resource = NULL WHERE resource = 'network'",),
        Action.LEFT_OUT,
        "no limit",
    ),
    "service router": (
        ("UPDATE router_extra_attributes SET service_router = TRUE",),
        Action.REPAIRED,
        "service_router",
    ),
    "table without a place": (
        ("INSERT INTO evpn_networks (network_id, router_id) VALUES ('n', 'r')",),
        Action.REFUSED,
        "without a place",
    ),
    "linuxbridge agent": (
        ("UPDATE agents SET agent_type = 'Linux bridge agent' WHERE agent_type = 'Open vSwitch agent'",),
        Action.REFUSED,
        "linuxbridge cannot be taken over",
    ),
    "ports of OVN": (
        ("UPDATE ml2_port_binding_levels SET driver = 'ovn'",),
        Action.REFUSED,
        "is bound by ovn",
    ),
    "leaked segmentation id": (
        ("UPDATE ml2_vxlan_allocations SET allocated = TRUE WHERE vxlan_vni = 1019",),
        Action.NOTED,
        "without a segment",
    ),
    "leaked VLAN": (
        ("UPDATE ml2_vlan_allocations SET allocated = TRUE WHERE vlan_id = 101",),
        Action.NOTED,
        "without a segment",
    ),
    "another tunnel address": (
        ("INSERT INTO ml2_vxlan_endpoints (ip_address, udp_port, host) VALUES ('198.51.100.1', 4789, 'compute-1')",),
        Action.NOTED,
        "192.0.2.1 by its agent",
    ),
    "SR-IOV agent": (
        (
            "UPDATE agents SET agent_type = 'NIC Switch agent' "
            "WHERE agent_type = 'Metadata agent' AND host = 'compute-1'",
        ),
        Action.NOTED,
        "SR-IOV agent on compute-1",
    ),
    "port without MAC": (
        ("UPDATE ports SET mac_address = NULL WHERE name = 'no-address'",),
        Action.LEFT_OUT,
        "has no mac_address",
    ),
    "name too long": (
        (f"UPDATE networks SET name = '{'x' * 300}' WHERE name = 'vlan'",),
        Action.REFUSED,
        "longer than 255",
    ),
}


# Of the port that another dirt is about: checked in a database of its own.
_SAME_PORT = "port without MAC"


@pytest.fixture(scope="module")
def dirty_reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """By dirt, of few checks: what is refused is in one database, all else in another one."""
    refused = [dirt for dirt, (_, action, _) in DIRT.items() if action is Action.REFUSED]
    others = [dirt for dirt in DIRT if dirt not in (*refused, _SAME_PORT)]
    reports = {}
    for some in (refused, others, [_SAME_PORT]):
        url = sa.make_url(f"sqlite:///{tmp_path_factory.mktemp('dirty')}/neutron.sqlite")
        load(url)
        engine = sa.create_engine(url)
        for dirt in some:
            execute(engine, *DIRT[dirt][0])
        engine.dispose()
        reports |= dict.fromkeys(some, run.check(url, OPTIONS))
    return reports


@pytest.mark.parametrize("dirt", DIRT)
def test_dirty_rows_are_reported(dirty_reports: dict[str, Report], dirt: str) -> None:
    _, action, words = DIRT[dirt]
    report = dirty_reports[dirt]
    found = [one for one in report.deviations if one.action is action and words in one.reason]
    assert found, [str(one) for one in report.deviations]
    assert bool(report.deviations.refused) == (action is Action.REFUSED)


def test_only_what_is_refused_is_refused(dirty_reports: dict[str, Report]) -> None:
    words = [words for _, action, words in DIRT.values() if action is Action.REFUSED]
    for one in dirty_reports["segment twice"].deviations.refused:
        assert any(each in one.reason for each in words), str(one)


@pytest.mark.every_database
def test_a_dirty_database_is_imported_but_for_what_is_left_out(source: sa.Engine, db: Database) -> None:
    for statements, action, _ in DIRT.values():
        if action is not Action.REFUSED:
            execute(source, *statements)
    report = imported(source, db)
    assert {one.action for one in report.deviations} == {Action.REPAIRED, Action.LEFT_OUT, Action.NOTED}
    assert report.counts["ports"].created == report.counts["ports"].read - 1
    assert imported(source, db).written == 0


@pytest.mark.parametrize(
    "change",
    ["resource_id = 'gone'", "target_id = 'gone'", "resource_type = 'firewall_group', resource_id = 'gone'"],
)
def test_a_log_of_what_is_gone_is_left_out(source: sa.Engine, db: Database, change: str) -> None:
    """And not imported as a log of everything else."""
    execute(source, f"UPDATE logs SET {change}")
    (left_out,) = imported(source, db).deviations
    assert (left_out.action, left_out.reason.split()[-3:]) == (Action.LEFT_OUT, ["does", "not", "exist"])
    assert rows(db)["logs"] == []


def test_a_log_of_a_firewall_group_is_imported(source: sa.Engine, db: Database) -> None:
    group = some_id(source, "firewall_groups_v2")
    execute(source, f"UPDATE logs SET resource_type = 'firewall_group', resource_id = '{group}'")
    assert list(imported(source, db).deviations) == []
    with db.read() as connection:
        logs = t.metadata.tables["logs"]
        (row,) = connection.execute(sa.select(logs.c.firewall_group_id, logs.c.resource_id)).all()
    assert tuple(row) == (group, None)


def test_nothing_is_written_if_something_is_refused(source: sa.Engine, db: Database) -> None:
    execute(source, *DIRT["segment twice"][0])
    before = rows(db)
    report = imported(source, db)
    assert report.deviations.refused
    assert rows(db) == before


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (("DROP TABLE alembic_version",), "no table alembic_version"),
        (("DROP TABLE ports",), "no table ports"),
        (("UPDATE alembic_version SET version_num = 'abcdef' WHERE version_num = 'c7f8d9e0f1a2'",), "abcdef"),
        (("UPDATE alembic_version SET version_num = '5881373af7f5' WHERE version_num = 'c7f8d9e0f1a2'",), "Zed"),
        (("INSERT INTO alembic_version_fwaas (version_num) VALUES ('abcdef')",), "alembic_version_fwaas"),
    ],
)
def test_another_database_is_refused(source: sa.Engine, db: Database, statements: tuple[str, ...], words: str) -> None:
    execute(source, *statements)
    before = rows(db)
    with pytest.raises(checks.Refused, match=words):
        imported(source, db)
    assert rows(db) == before


def test_a_target_with_objects_of_its_own_is_refused(
    source: sa.Engine, db: Database, tmp_path: Path, database: str
) -> None:
    server = start(tmp_path, db.url.render_as_string(hide_password=False))
    try:
        admin = Api(server.app).as_admin()
        network = admin.make("network", name="ours")
        with pytest.raises(checks.Refused, match="not of Neutron"):
            imported(source, db, run.Options(allow_running=True))
        admin.delete(f"/networks/{network['id']}").expect(204)
    finally:
        server.close()


def test_an_object_that_was_created_here_is_not_deleted(
    source: sa.Engine, imported_db: Database, tmp_path: Path
) -> None:
    db = imported_db
    server = start(tmp_path, db.url.render_as_string(hide_password=False), {"quotas": UNLIMITED})
    server.db.is_frozen = lambda: False  # as in the second before a running server notices the first import
    try:
        network = Api(server.app, ADMIN).as_admin().make("network", name="ours")
    finally:
        server.close()
    with pytest.raises(checks.Refused, match=network["id"]):
        imported(source, db, run.Options(allow_running=True))


def test_a_running_server_is_refused(source: sa.Engine, db: Database) -> None:
    at = timestamp(4_000_000_000)
    row = {"id": "a", "host": "server-1", "kind": "api", "pid": 7, "release": "1", "started_at": at, "seen_at": at}
    with db.transaction() as tx:
        tx.execute(sa.insert(t.server_processes).values(row))
    with pytest.raises(checks.Refused, match="server-1"):
        imported(source, db)
    assert imported(source, db, run.Options(allow_running=True)).written > 0


def test_addresses_of_no_database_are_refused() -> None:
    with pytest.raises(WrongAddress):
        parse_url("nonsense")
    with pytest.raises(WrongAddress, match="sqlite"):
        parse_url("sqlite:////tmp/neutron.sqlite")
    assert parse_url("mysql://neutron@db/neutron?charset=utf8").drivername == "mysql+pymysql"


def test_an_unreachable_database_is_said_without_its_password(db: Database) -> None:
    url = parse_url("mysql+pymysql://neutron:hidden@127.0.0.1:1/neutron")
    with pytest.raises(SourceError) as caught:
        run.run(url, db, OPTIONS)
    assert "hidden" not in str(caught.value)
    assert caught.value.exit_status == 3


def test_a_release_without_templates_of_rules_keeps_ours(source: sa.Engine, db: Database) -> None:
    execute(source, "DROP TABLE securitygroupdefaultrules", "DROP TABLE firewall_groups_v2")
    assert imported(source, db).written > 0
    with db.read() as connection:
        assert len(connection.execute(sa.select(t.default_security_group_rules)).all()) == 4


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.mariadb
def test_command_imports_and_reports(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = copied_database(request, "mariadb", tmp_path, load)
    (tmp_path / "source").write_text(url)
    configuration = tmp_path / "neutrino.conf"
    configuration.write_text(configuration_text(f"sqlite:///{tmp_path}/ours.sqlite"))
    report = tmp_path / "report.json"
    common = ("--config-file", str(configuration), "--from-file", str(tmp_path / "source"))
    done = run_neutrino(["takeover", "check", *common, "--report", str(report)])
    assert done.status == 0, done.error
    assert json.loads(report.read_text())["families"]["ports"]["read"] > 0
    assert run_neutrino(["takeover", "import", *common, "--dry-run"]).status == 1
    done = run_neutrino(["takeover", "import", *common])
    assert done.status == 0, done.error
    assert "created" in done.out
    password = sa.make_url(url).password or ""
    for secret in (password, "not-a-real-secret"):
        assert secret not in done.out + done.error + report.read_text()
    assert run_neutrino(["takeover", "import", *common, "--dry-run"]).status == 0
    assert run_neutrino(["takeover", "check", "--config-file", str(configuration)]).status == 2
