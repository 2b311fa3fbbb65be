"""Neutron in one run with ours: its configuration, whose turn it is, and the tables of ratios."""

from __future__ import annotations

import configparser
import json
from pathlib import Path
from typing import Any

import pytest

from qa.bench.neutron import configuration, rounds, table
from qa.bench.neutron.__main__ import main, sizes
from qa.bench.neutron.configuration import Place

PLACE = Place(Path("/x"), 9696, "mysql+pymysql://u:p$w@127.0.0.1:3306/neutron", "amqp://u:p@127.0.0.1:5672//")
PASTE = """[composite:neutronapi_v2_0]
use = call:neutron.auth:pipeline_factory
noauth = cors fake_project_id extensions neutronapiapp_v2_0
keystone = cors authtoken keystonecontext extensions neutronapiapp_v2_0

[composite:neutronversions_composite]
noauth = cors neutronversions
keystone = cors neutronversions
"""


def parsed(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(default_section="none")  # [DEFAULT] is a section as others
    parser.read_string(text)
    return parser


def side(millis: list[float], *, ports: int = 1000) -> dict[str, Any]:
    return {
        "starts_ms": millis,
        "memory": {f"ports_{ports}": {"pss_mb": millis[0], "rss_mb": 2 * millis[0]}},
        "operations": {
            "create_port": [{"p50_ms": each} for each in millis],
            f"list_{ports}_all": [{"p50_ms": each} for each in millis],
            f"list_{ports}_walk": [{"p50_ms": each} for each in millis],
            "create_port_together": [{"p50_ms": 1.0, "per_s": 1000 / each} for each in millis],
        },
        "processor_seconds": {"routers": [each / 1000 for each in millis]},
    }


SIDES = {"neutron": side([900.0, 100.0, 400.0]), "mariadb": side([20.0, 1.0, 10.0])}


def test_the_files_name_database_broker_and_port() -> None:
    conf = parsed(configuration.neutron_conf(PLACE))
    # oslo.config reads a dollar sign as a reference.
    assert conf["database"]["connection"] == "mysql+pymysql://u:p$$w@127.0.0.1:3306/neutron"
    assert conf["DEFAULT"]["transport_url"] == "rabbit://u:p@127.0.0.1:5672/"
    assert set(conf["quotas"].values()) == {"-1"}
    uwsgi = parsed(configuration.uwsgi(PLACE))["uwsgi"]
    assert (uwsgi["http-socket"], uwsgi["processes"]) == ("127.0.0.1:9696", "2")
    assert parsed(configuration.ml2_conf())["ml2"]["mechanism_drivers"] == "openvswitch,l2population"


def test_the_project_comes_from_the_headers_and_no_token_is_validated() -> None:
    paste = parsed(configuration.paste(PASTE))
    assert paste["composite:neutronapi_v2_0"]["noauth"] == "cors keystonecontext extensions neutronapiapp_v2_0"
    assert paste["composite:neutronversions_composite"]["noauth"] == "cors neutronversions"


def test_a_step_goes_to_ours_before_and_after_neutron() -> None:
    assert rounds.around(["neutron", "mariadb", "sqlite"]) == ["mariadb", "sqlite", "neutron", "sqlite", "mariadb"]


def test_who_starts_first_changes_from_round_to_round() -> None:
    sides = ["neutron", "mariadb"]
    assert [rounds.in_turn(sides, number)[0] for number in range(3)] == ["neutron", "mariadb", "neutron"]


def test_ratios_are_of_medians_over_the_rounds() -> None:
    found = {row.peer.operation: row for row in table.rows(SIDES, "mariadb", 1000)}
    row = found["create port"]
    assert (row.peer.figure, row.ours, row.ratio, row.wanted, row.met) == (400.0, 10.0, 40.0, 40, True)
    assert found["create port, 4 clients on one network"].ratio == pytest.approx(40)
    assert found["start to first 200"].ratio == 40


def test_targets_of_the_largest_lists_are_applied_to_the_lists_of_the_run() -> None:
    assert {row.peer.operation for row in table.rows(SIDES, "mariadb", 1000)} == {
        "create port",
        "create port, 4 clients on one network",
        "list 1,000 ports, all fields",
        "start to first 200",
        "memory, 1,000 ports, PSS",
        "memory, 1,000 ports, RSS",
    }
    assert (sizes(1000, False).list_sizes, sizes(5000, False).list_sizes) == ((1000,), (1000, 5000))


def test_a_missed_target_is_said() -> None:
    slow = {**SIDES, "mariadb": side([20.0, 1.0, 10.1])}
    assert "mariadb: create port" in table.missed(slow, 1000)
    assert "| create port | 400 ms | 10.1 ms | 39.6 × | 5.0 to 900.0 | 40 × | **no** |" in table.document(slow, 1000)
    assert "mariadb: create port" not in table.missed(SIDES, 1000)


def test_the_spread_of_a_rate_is_the_right_way_round() -> None:
    (rate,) = [peer for peer in table.peers(SIDES["neutron"], 1000) if peer.more_is_better]
    assert table.spread(SIDES["neutron"], SIDES["mariadb"], rate) == pytest.approx((5, 900))


def test_the_table_of_processor_time_has_every_step() -> None:
    assert "| routers | 0.40 s | 0.01 s | 40.0 × |" in table.document(SIDES, 1000)


def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--databases", "oracle"], ["--ports", "20"], ["--rounds", "0"], ["--rounds", "5"]):
        with pytest.raises(SystemExit):
            main(options)
    assert "choose among sqlite, postgresql, mariadb" in capsys.readouterr().err


def test_the_tables_of_an_incomplete_run_say_what_was_not_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = {**SIDES["mariadb"], "processor_seconds": {}, "operations": {}}
    file = tmp_path / "raw.json"
    file.write_text(json.dumps({"ports": 1000, "sides": {**SIDES, "mariadb": ours}}))
    assert main(["--show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "| create port | 400 ms | not measured | – | – | 40 × | – |" in shown
    assert "| routers | 0.40 s | not measured | – |" in shown
