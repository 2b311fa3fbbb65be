"""Parts of the takeover that need no database: families' functions, comparison of answers, reports."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.takeover.checks import Refused
from neutrino.takeover.comparison import Difference, compare, read_answers
from neutrino.takeover.deviations import Action, Deviations
from neutrino.takeover.exporter import OWN_TABLES
from neutrino.takeover.families import families
from neutrino.takeover.families.networks import identity
from neutrino.takeover.families.ports import canonical
from neutrino.takeover.family import Chunk, Pair, Shown, flag, paired, standard, timestamp
from neutrino.takeover.following import follow
from neutrino.takeover.report import Report
from neutrino.takeover.source import Source, SourceError
from neutrino.takeover.writer import Counts, unique_names


@pytest.fixture
def chunk() -> Chunk:
    with sa.create_engine("sqlite://").connect() as connection:
        return Chunk(Source(connection), "ports", [], Deviations())


def test_times_are_those_of_the_api() -> None:
    assert timestamp(datetime(2026, 1, 2, 3, 4, 5, 678)) == "2026-01-02T03:04:05Z"  # as drivers give it
    assert timestamp("2026-01-02 03:04:05") == "2026-01-02T03:04:05Z"
    assert timestamp(None) == ""


def test_pairs_have_defaults_for_null_and_for_columns_that_a_release_lacks() -> None:
    columns = (Pair("ours", "theirs"), Pair("mtu", "mtu", 0), Pair("qinq", "qinq", False))
    assert paired({"theirs": 1, "mtu": None}, columns) == {"ours": 1, "mtu": 0, "qinq": False}


def test_flags_of_missing_rows_have_their_default() -> None:
    assert flag(None, "port_security_enabled", True) is True
    assert flag({"port_security_enabled": 0}, "port_security_enabled", True) is False


def test_rows_without_standard_attributes_are_repaired() -> None:
    deviations = Deviations()
    row = {"id": "a", "standard_attr_id": 1, "standard_resource_type": None, "name": None, "project_id": None}
    values = standard(row, deviations, "networks")
    assert (values["name"], values["project_id"], values["revision_number"]) == ("", "", 0)
    assert [one.action for one in deviations] == [Action.REPAIRED]


def test_no_json_is_repaired(chunk: Chunk) -> None:
    assert chunk.decoded("a", "profile", '{"a": 1}', {}) == {"a": 1}
    assert chunk.decoded("a", "profile", "", {}) == {}
    assert len(chunk.deviations) == 0
    assert chunk.decoded("a", "profile", "{", {}) == {}
    assert [str(one) for one in chunk.deviations] == ["repaired: ports a: profile is no JSON: taken as empty"]


@pytest.mark.parametrize(
    ("segment", "wanted"),
    [
        (("vlan", "physnet1", 100), "vlan/physnet1/100"),
        (("vxlan", None, 7), "vxlan/7"),
        (("flat", "physnet1", None), "flat/physnet1"),
        (("local", None, None), "local/own-id"),
    ],
)
def test_identities_of_segments(segment: tuple[str, str | None, int | None], wanted: str) -> None:
    names = ("network_type", "physical_network", "segmentation_id")
    assert identity({**dict(zip(names, segment, strict=True)), "id": "own-id"}) == wanted


def test_addresses_are_canonical() -> None:
    assert canonical("2001:DB8:0::1") == "2001:db8::1"
    assert canonical("nonsense") == "nonsense"


def test_families_come_after_what_they_refer_to() -> None:
    written: set[sa.Table] = set()
    main = {family.tables[0].table for family in families()}
    for family in families():
        for owned in family.tables:
            for key in owned.table.foreign_keys:
                wanted = key.column.table
                own = {one.table for one in family.tables}
                assert wanted in written | own or wanted not in main, f"{family.name}: {owned.table}, {wanted}"
        written |= {one.table for one in family.tables}


def test_tables_of_objects_have_a_family() -> None:
    """A new kind of object must not be forgotten by the import."""
    own = {owned.table.name for family in families() for owned in family.tables}
    # Attributes of third parties' drivers have no place in Neutron either: an export refuses them.
    apart = OWN_TABLES | {"network_attributes", "subnet_attributes", "port_attributes"}
    assert set(t.metadata.tables) - own == apart


def test_unique_keys_of_a_table_are_found_once() -> None:
    assert unique_names(t.network_segments) == [["identity"]]
    assert ["network_id", "mac_address"] in unique_names(t.ports)


# --- comparison and report --------------------------------------------------------------------------------------------


def test_answers_are_compared_by_attribute() -> None:
    theirs = {"networks": [{"id": "a", "name": "x", "subnets": ["1", "2"]}, {"id": "b"}]}
    ours = {"networks": [{"id": "a", "name": "y", "subnets": ["2", "1"], "more": 1}, {"id": "c"}]}
    assert sorted(compare(theirs, ours)) == [
        Difference("networks", "a", "name", '"x"', '"y"'),
        Difference("networks", "b", "", "present", "missing"),
        Difference("networks", "c", "", "missing", "present"),
    ]


def test_allowed_differences_do_not_count() -> None:
    theirs = {"routers/r/l3-agents": [{"id": "a", "alive": True}], "trunks": [{"id": "t", "status": "DOWN"}]}
    ours = {"routers/r/l3-agents": [{"id": "a", "alive": False}, {"id": "b"}], "trunks": [{"id": "t", "status": "UP"}]}
    assert list(compare(theirs, ours)) == []
    assert len(list(compare(theirs, ours, {}))) == 3


def test_reports_of_agents_differ_on_converted_hosts_only() -> None:
    theirs = {"agents": [{"id": "1", "started_at": "a", "admin_state_up": True, "configurations": {"devices": 1}}]}
    ours = {"agents": [{"id": "1", "started_at": "b", "admin_state_up": True, "configurations": {"devices": 1}}]}
    assert [one.attribute for one in compare(theirs, ours)] == ["started_at"]
    ours["agents"][0]["configurations"] = {"devices": 2, "problems": {}}
    assert list(compare(theirs, ours)) == []
    ours["agents"][0]["admin_state_up"] = False
    assert [one.attribute for one in compare(theirs, ours)] == ["admin_state_up"]


def test_collections_that_a_server_lacks_are_left_out() -> None:
    def get(path: str) -> dict[str, object]:
        if path == "trunks":
            raise RuntimeError("404")
        return {"ports": [{"id": "p"}], "bindings": [{"host": "h"}]}

    shown = [Shown("trunks"), Shown("ports", parts=(("ports/{id}/bindings", "bindings"),))]
    assert read_answers(get, shown) == {"ports": [{"id": "p"}], "ports/p/bindings": [{"host": "h"}]}


def test_reports_list_every_deviation() -> None:
    report = Report("import", "mysql+pymysql://ro@db/neutron", "2026.2", "2026-01-01T00:00:00Z")
    report.counts = {"ports": Counts(read=3, created=2)}
    for number in range(30):
        report.deviations.leave_out("ports", number, "belongs to nothing")
        report.deviations.leave_out("ports", number, "belongs to nothing")
    document = json.loads(report.to_json())
    assert len(document["deviations"]) == 30
    assert document["families"]["ports"] == {"read": 3, "created": 2, "updated": 0, "deleted": 0}
    text = report.to_text()
    assert "ports: 3 (2 created, 0 updated, 0 deleted)" in text
    assert "and 10 more" in text


# --- the import as a mirror -------------------------------------------------------------------------------------------


def test_a_mirror_repeats_the_import_and_outlives_failures() -> None:
    report = Report("import", "db", "2026.2", "")
    report.counts = {"ports": Counts(read=3, created=2)}
    rounds = iter([report, SourceError("gone"), SourceError("gone"), report])
    lines: list[str] = []
    pauses: list[float] = []

    def import_once() -> Report:
        one = next(rounds)
        if isinstance(one, Exception):
            raise one
        return one

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(import_once, 60.0, wait, lines.append)
    assert pauses == [60.0, 120.0, 240.0, 60.0]
    assert [line.partition("Z: ")[2] for line in lines] == [
        "2 created, 0 updated, 0 deleted; 0 deviations",
        "failed, next try in 120 s: gone",
        "failed, next try in 240 s: gone",
        "2 created, 0 updated, 0 deleted; 0 deviations",
    ]


def test_a_mirror_ends_if_it_would_be_refused_again() -> None:
    def import_once() -> Report:
        raise Refused("completed")

    with pytest.raises(Refused):
        follow(import_once, 1.0, lambda seconds: None, lambda line: None)


def test_rows_that_are_refused_are_said_in_each_round() -> None:
    report = Report("import", "db", "2026.2", "")
    report.deviations.refuse("networksegments", "a", "twice")
    lines: list[str] = []

    def wait(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(lambda: report, 1.0, wait, lines.append)
    assert "1 rows, as refused: networksegments a: twice" in lines[0]
