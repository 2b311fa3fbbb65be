"""The table: ratios the right way round, the smaller factors of database servers, nothing claimed that was not measured."""

from __future__ import annotations

import pytest

from qa.bench.report import PEERS, Row, compare, document, markdown, missed

RESULT = {
    "start": {"p50_ms": 710.0},
    "load": {"operations": {"create_port": {"p50_ms": 6.0}, "create_port_together": {"per_s": 465.0}}},
}


def rows(database: str) -> dict[str, Row]:
    return {row.peer.operation: row for row in compare(database, RESULT)}


def test_a_row_says_ratio_wanted_and_met() -> None:
    row = rows("sqlite")["start to first 200"]
    assert (row.ratio, row.wanted, row.met) == (10.0, 5, True)


def test_a_time_is_better_when_smaller_and_a_rate_when_bigger() -> None:
    found = rows("sqlite")
    assert [
        found[name].ratio for name in ("start to first 200", "create port, 4 clients on one network")
    ] == pytest.approx([10, 50])


def test_a_database_server_has_to_reach_the_same_for_some_and_sixty_per_cent_of_the_others() -> None:
    for name, wanted in (("create port", 40), ("start to first 200", 3)):
        assert [rows(database)[name].wanted for database in ("mariadb", "postgresql")] == [wanted, wanted]
    assert rows("sqlite")["start to first 200"].wanted == 5
    assert missed({"sqlite": RESULT, "mariadb": RESULT}) == ["sqlite: create port", "mariadb: create port"]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    row = rows("sqlite")["create router"]
    assert (row.ratio, row.met) == (None, None)
    assert "| create router | 56.0 ms | not measured | – | 20 × | – |" in markdown("sqlite", RESULT)


def test_the_table_shows_every_figure_once() -> None:
    table = markdown("sqlite", RESULT).splitlines()
    assert len(table) == 2 + len(PEERS) == 2 + len({peer.path for peer in PEERS})
    assert "| start to first 200 | 7.10 s | 710 ms | 10.0 × | 5 × | yes |" in table
    assert document({"sqlite": RESULT}).startswith("### sqlite\n\n| operation |")
