"""`neutrino trace` without a server: arguments, lookup of ports, exit status, text."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from neutrino.cli.cloud import ApiError, Cloud
from neutrino.cli.errors import CommandError
from neutrino.cli.main import main
from neutrino.cli.parser import Parser
from neutrino.cli.trace import arguments, command
from neutrino.cli.trace.render import Style, render
from neutrino.model.trace import Cause
from neutrino.server.features import catalogue

ID = "5c0fd3b1-1111-4444-8888-00000000000"
PORTS: list[dict[str, Any]] = [
    {"id": f"{ID}1", "name": "web", "network_id": "n1", "fixed_ips": [{"ip_address": "10.0.0.5"}]},
    {"id": f"{ID}2", "name": "db", "network_id": "n1", "fixed_ips": [{"ip_address": "10.0.0.7"}]},
    {"id": f"{ID}3", "name": "db", "network_id": "n2", "fixed_ips": [{"ip_address": "10.0.0.5"}]},
    {"id": f"{ID}4", "name": "", "network_id": "n2", "fixed_ips": [{"ip_address": "fd00::4"}]},
]
FLOATING_IPS = [
    {"floating_ip_address": "203.0.113.20", "port_id": f"{ID}2"},
    {"floating_ip_address": "203.0.113.21", "port_id": None},
]


class Api(Cloud):
    def __init__(self) -> None:
        super().__init__(None)

    def list(self, collection: str, **filters: Any) -> Any:
        if collection == "floatingips":
            yield from (fip for fip in FLOATING_IPS if fip["floating_ip_address"] == filters["floating_ip_address"])
            return
        assert collection == "ports"
        for port in PORTS:
            addresses = {f"ip_address={fixed['ip_address']}" for fixed in port["fixed_ips"]}
            if all(value in addresses if key == "fixed_ips" else port[key] == value for key, value in filters.items()):
                yield port


def parse(*words: str) -> argparse.Namespace:
    parser = Parser()
    arguments.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["web", "--to", f"{ID}2"], {"source_port_id": f"{ID}1", "destination_port_id": f"{ID}2", "protocol": "icmp"}),
        (["fd00::4", "--to", "web"], {"source_port_id": f"{ID}4", "destination_port_id": f"{ID}1", "protocol": "icmp"}),
        (
            ["203.0.113.20", "--to", "203.0.113.9"],
            {"source_port_id": f"{ID}2", "destination_address": "203.0.113.9", "protocol": "icmp"},
        ),
        (
            ["web", "--to", "10.0.0.5", "--protocol", "tcp", "--port", "80", "--source-port", "9", "--size", "1500"],
            {
                "source_port_id": f"{ID}1",
                "destination_address": "10.0.0.5",
                "protocol": "tcp",
                "destination_port": 80,
                "source_port": 9,
                "packet_size": 1500,
            },
        ),
        (
            ["--from", "external", "--to", "203.0.113.9", "--ip-version", "4", "--flows"],
            {
                "source": "external",
                "destination_address": "203.0.113.9",
                "protocol": "icmp",
                "ip_version": 4,
                "flows": True,
            },
        ),
        (
            ["web", "--to", "web", "--source-address", "10.0.0.9", "--source-mac", "02:00:00:00:00:01"],
            {
                "source_port_id": f"{ID}1",
                "destination_port_id": f"{ID}1",
                "protocol": "icmp",
                "source_address": "10.0.0.9",
                "source_mac": "02:00:00:00:00:01",
            },
        ),
    ],
)
def test_the_request(words: list[str], wanted: dict[str, Any]) -> None:
    assert command.request(Api(), parse(*words))[0] == wanted


def test_ports_have_the_names_that_were_given_also_if_the_packet_does_not_reach_them() -> None:
    asked, names = command.request(Api(), parse("web", "--to", f"{ID}4"))
    answer = {**asked, "verdict": "dropped", "cause": "port-admin-down", "steps": [], "destination_address": "fd00::4"}
    assert render(answer, names=names).startswith(f"icmp from web to {ID}4 (fd00::4)\n")
    asked, names = command.request(Api(), parse("10.0.0.7", "--to", "web"))
    assert render({**answer, **asked}, names=names).startswith("icmp from db to web (fd00::4)\n")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nobody", "--to", "web"], "SOURCE: there is no port nobody"),
        ([f"{ID}9", "--to", "web"], f"SOURCE: there is no port {ID}9"),
        (["10.0.0.99", "--to", "web"], "there is no port 10.0.0.99"),
        (["203.0.113.21", "--to", "web"], "there is no port 203.0.113.21"),
        (["web", "--to", "db"], f"--to: 2 ports match db, name one by its id: {ID}2 db (10.0.0.7, network n1); {ID}3"),
        (["10.0.0.5", "--to", "web"], "SOURCE: 2 ports match 10.0.0.5"),
    ],
)
def test_ports_that_do_not_exist_or_are_ambiguous(words: list[str], text: str) -> None:
    with pytest.raises(CommandError) as caught:
        command.request(Api(), parse(*words))
    assert text in str(caught.value)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "--to", "web"],
        ["trace", "web", "--from", "external", "--to", "web"],
        ["trace", "web"],
        ["trace", "web", "--to", "db", "--port", "70000"],
        ["trace", "web", "--to", "db", "--ip-version", "5"],
        ["trace", "web", "--to", "db", "--from", "mars"],
    ],
    ids=" ".join,
)
def test_wrong_arguments_have_the_status_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(words)
    except SystemExit as end:  # of argparse
        status = int(str(end.code))
    assert status == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "back", "status"),
    [
        ("delivered", "delivered", 0),
        ("delivered", None, 0),
        ("delivered", "dropped", 1),
        ("dropped", None, 1),
        ("unknown", "dropped", 1),
        ("unknown", "delivered", 3),
        ("delivered", "unknown", 3),
    ],
)
def test_the_exit_status_is_that_of_the_worse_direction(verdict: str, back: str | None, status: int) -> None:
    assert command.exit_status({"verdict": verdict, "return_verdict": back}) == status


@pytest.mark.parametrize(
    ("error", "status"), [(ApiError(400, "bad"), 2), (ApiError(404, "none"), 2), (ApiError(503, "later"), 3)]
)
def test_an_error_of_the_api_is_never_a_drop(error: ApiError, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def post(*_: object) -> Any:
        raise error

    api = Api()
    monkeypatch.setattr(command.cloud, "connect", lambda args: api)
    monkeypatch.setattr(Cloud, "post", post)
    assert main(["trace", "web", "--to", "10.0.0.7"]) == status


def test_an_unreachable_api_is_not_a_drop(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "web", "--to", "db", "--endpoint", "http://127.0.0.1:1"]) == 3
    assert "cannot be used" in capsys.readouterr().err


# --- the text -----------------------------------------------------------------------------------------------------------

TRACE: dict[str, Any] = {
    "source_port_id": f"{ID}1",
    "source_address": "10.0.0.5",
    "destination_port_id": f"{ID}2",
    "destination_address": "10.0.0.7",
    "protocol": "tcp",
    "destination_port": 5432,
    "verdict": "dropped",
    "cause": "security-group-ingress",
    "summary": "No ingress rule of security group db allows TCP port 5432.",
    "steps": [
        {
            "kind": "port",
            "host": "h1",
            "resource_type": "port",
            "resource_id": f"{ID}1",
            "resource_name": "web",
            "result": "pass",
            "text": "Port web is bound to host h1.",
            "flows": ["table=60, priority=100"],
        },
        {"kind": "tunnel", "host": "", "result": "info", "text": "vxlan"},
        {
            "kind": "security-group-ingress",
            "host": "h2",
            "resource_type": "security_group",
            "resource_id": "g",
            "resource_name": "d\033[31mb",
            "result": "drop",
            "text": "No rule.",
            "flows": [],
        },
    ],
    "drift": [{"host": "h2", "text": "flow missing"}],
    "fixes": {"security-group-ingress": "Add an ingress rule."},
    "lag": ["h2 is 3 changes behind"],
    "differences": [],
    "hosts": {"h1": {"position": 4}, "h2": {"error": "timeout"}},
}


def test_the_text_names_steps_verdict_cause_and_what_to_do() -> None:
    text = render(TRACE)
    assert text.splitlines()[0] == f"tcp from web (10.0.0.5) to {ID}2 (10.0.0.7) port 5432"
    for line in (
        " on h1",
        "  pass   port [port web]: Port web is bound to host h1.",
        " on h2",
        "  drop   security-group-ingress [security group d?[31mb]: No rule.",
        "verdict: dropped (security-group-ingress)",
        "  No ingress rule of security group db allows TCP port 5432.",
        "  to do: Add an ingress rule.",
        "  h2: flow missing",
        "  h2 is 3 changes behind",
        "  h2: timeout",
    ):
        assert line in text.splitlines()
    assert "table=60" not in text
    assert "reply" not in text
    assert "table=60, priority=100" in render(TRACE, flows=True)


def test_the_text_for_a_member_has_no_hosts() -> None:
    text = render({**TRACE, "steps": [{**step, "host": ""} for step in TRACE["steps"]], "hosts": {}})
    assert " on h" not in text
    assert "between hosts" not in text


def test_the_title_names_what_is_known() -> None:
    outside = {"source": "external", "source_address": None, "source_port_id": None, "destination_port_id": None}
    assert render({**TRACE, **outside}).splitlines()[0] == "tcp from external to 10.0.0.7 port 5432"


def test_the_text_of_a_reply() -> None:
    text = render(
        {
            **TRACE,
            "return_verdict": "dropped",
            "return_cause": "no-route",
            "return_steps": TRACE["steps"][:1],
            "fixes": {**TRACE["fixes"], "no-route": "Add a route."},
        }
    )
    assert "reply: dropped (no-route)" in text
    assert "to do: Add a route." in text


def test_colours_are_ours_alone() -> None:
    assert "\033" not in render(TRACE)
    coloured = render(TRACE, Style(colours=True))
    assert "\033[31;1mdropped\033[0m" in coloured
    assert "d?[31mb" in coloured


def test_every_cause_is_a_known_problem() -> None:
    assert set(Cause) - set(catalogue()) == {Cause.NONE, Cause.OTHER}
