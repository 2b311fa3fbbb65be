"""`neutrino history`: the changes of an object as the operator sees them, from a real server and its feed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from neutrino.cli.history.command import COLLECTIONS, lines
from neutrino.cli.main import main
from neutrino.server import features
from neutrino.server.db import tables as t
from tests.support.neutrino import Caller, Neutrino
from tests.support.process import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({"feed": {"run": True}}) as made:
        yield made


@pytest.fixture(scope="module")
def api(server: Neutrino) -> Iterator[Caller]:
    made = Caller(server.url)
    yield made
    made.close()


def run(server: Neutrino, *words: str) -> int:
    return main(["history", "--endpoint", server.url, *words])


def test_a_port_by_name(server: Neutrino, api: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    port = api.create("port", network_id=api.create("network", name="blue")["id"], name="web")
    api("PUT", f"/v2.0/ports/{port['id']}", {"port": {"description": "x"}})

    def actions() -> list[str]:
        capsys.readouterr()
        assert run(server, "--json", "port", "web") == 0
        return [row["action"] for row in json.loads(capsys.readouterr().out)["changes"]]

    wait_until(lambda: actions() == ["created", "updated"], timeout=30, what="the history", failed=lambda: None)
    assert run(server, "web") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["POSITION", "TIME", "KIND", "ACTION", "USER", "REQUEST"]
    assert [line.split()[2:4] for line in table[1:3]] == [["port", "created"], ["port", "updated"]]
    assert all(line.split()[5].startswith("req-") for line in table[1:3])
    assert [line.strip() for line in table[3:]] == ['description: "" → "x"']


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (("port", "nothing"), 1, "there is no port named nothing"),
        (("nothing",), 1, "there is no object named nothing"),
        (("pork", "web"), 2, "'pork' is none of the kinds"),
        (("agent", "h1"), 2, "is given by its id"),
    ],
)
def test_errors(
    server: Neutrino, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, text: str
) -> None:
    assert run(server, *words) == status
    assert text in capsys.readouterr().err


def test_every_kind_of_the_log_is_known() -> None:
    """Also those of features: a name is looked up in a collection that the API has."""
    assert features.installed()
    assert set(COLLECTIONS) == {"agent", *(history.kind for history in t.histories().values())}


def test_a_trunk_by_name(server: Neutrino, api: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    port = api.create("port", network_id=api.create("network")["id"])
    made = api.create("trunk", port_id=port["id"], name="uplink")

    def found() -> list[str]:
        capsys.readouterr()
        assert run(server, "--json", "trunk", "uplink") == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["object_id"] == made["id"]
        return [row["action"] for row in answer["changes"]]

    wait_until(lambda: found()[:1] == ["created"], timeout=30, what="the history", failed=lambda: None)


@pytest.mark.parametrize("kind", sorted(kind for kind, collection in COLLECTIONS.items() if collection))
def test_each_collection_exists(kind: str, server: Neutrino, api: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, kind, "nothing") == 1
    assert f"there is no {kind.replace('_', ' ')} named nothing" in capsys.readouterr().err
    answer = api("GET", f"/v2.0/{COLLECTIONS[kind]}")
    assert answer.status_code == 200, answer.text
    assert COLLECTIONS[kind].rpartition("/")[2].replace("-", "_") in answer.json()


def test_two_objects_of_one_name(server: Neutrino, api: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        api.create("network", name="twice")
    assert run(server, "twice") == 2
    assert "2 objects are named twice: network " in capsys.readouterr().err


def test_a_log_whose_beginning_was_removed() -> None:
    row = {"position": 9, "at": "2026-01-01T00:00:00Z", "kind": "port", "action": "updated", "request_id": None}
    named = list(lines("p1", [{**row, "user_id": "8c7b\x1b[2J", "request_id": "req-1"}], 0))[-1]
    assert named.split()[-1] == "req-1"
    assert "\x1b" not in named
    moved = {"name": "name", "old": "a\x1b[2J", "new": None}
    values = list(lines("p1", [{**row, "changed": [moved]}], 0))[-1]
    assert values.split() == ["name:", '"a\\u001b[2J"', "→", "null"]
    text = list(lines("p1", [row], 5))
    assert "oldest changes have been removed" in text[0]
    assert "a host's report" in text[-1]
    assert len(list(lines("p1", [{**row, "action": "created"}], 5))) == 2
    assert list(lines("p1", [], 0)) == ["The change log has no change of p1."]
