"""`neutrino takeover verify`: two servers, compared through their APIs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.cli.cloud import ApiError
from neutrino.cli.takeover.verify import CloudReader
from tests.support.commands import Done, run_neutrino
from tests.support.neutrino import Caller, Neutrino


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Neutrino, Neutrino]]:
    with Neutrino() as one, Neutrino() as other:
        yield one, other


def verify(theirs: str, ours: str, *options: str) -> Done:
    return run_neutrino(["takeover", "verify", "--neutron-url", theirs, "--endpoint", ours, *options])


def test_a_server_equals_itself(servers: tuple[Neutrino, Neutrino]) -> None:
    url = servers[0].url
    api = Caller(url)
    network = api.create("network", name="blue")
    api.create("port", network_id=network["id"])
    done = verify(url, url)
    assert done.status == 0, done.error + done.out
    assert done.out.endswith("0 differences\n")
    assert "verify: ports: 1" in done.error
    api.close()


def test_differences_are_listed_and_reported(servers: tuple[Neutrino, Neutrino], tmp_path: Path) -> None:
    theirs, ours = servers
    api = Caller(theirs.url)
    network = api.create("network", name="green")
    report = tmp_path / "report.json"
    done = verify(theirs.url, ours.url, "--report", str(report))
    assert done.status == 1
    (written,) = json.loads(report.read_text())
    assert {"collection": "networks", "object_id": network["id"], "attribute": ""}.items() <= next(
        one for one in written["differences"] if one["object_id"] == network["id"]
    ).items()
    (shown,) = json.loads(verify(theirs.url, ours.url, "--json").out)
    assert shown["counts"]["networks"] == written["counts"]["networks"]
    api.close()


def test_what_a_caller_may_not_list_is_left_out() -> None:
    """As quotas for a member; another error ends the command, and is not taken for a collection that is missing."""

    class Refusing:
        status = 403

        def get(self, path: str, **query: object) -> Any:
            raise ApiError(self.status, "refused")

    cloud: Any = Refusing()
    assert CloudReader(cloud).page("quotas", "quotas") is None
    cloud.status = 500
    with pytest.raises(ApiError):
        CloudReader(cloud).page("quotas", "quotas")


def test_a_wrong_sample(servers: tuple[Neutrino, Neutrino]) -> None:
    done = verify(servers[0].url, servers[1].url, "--sample", "-1")
    assert (done.status, "--sample is -1" in done.error) == (2, True)
