"""`neutrino takeover host HOST…` at a server: hosts are converted through the feed, on real Open vSwitches."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from neutrino.model.takeover import QUERY
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.hosts.queries import HostQueries
from neutrino.server.hosts.registry import Registry
from tests.functional.test_agent_guards import FEED, GuardedAgent, flows, leave_neutron, local_ip, make_bridges
from tests.support.agent import run_command
from tests.support.neutrino import Neutrino
from tests.support.neutron_flows import BRIDGES, COOKIE
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until

AT = "2026-11-18T10:00:00Z"
ALLOWED = {"agent": {"remote_takeover": True}}


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino(FEED) as running:
        yield running


@pytest.fixture(scope="module")
def db(server: Neutrino) -> Iterator[Database]:
    """With the row of a final import."""
    opened = Database(server.database)
    row = {"id": "1", "source": "neutron@db", "release": "2026.1", "started_at": AT, "finished_at": AT}
    with opened.transaction() as tx:
        tx.insert(t.takeovers, [{**row, "final": True, "counts": "{}"}])
    yield opened
    opened.close()


class Host:
    """A host of Neutron's agents, with an agent of ours that is held."""

    def __init__(self, server: Neutrino, name: str, number: int, settings: dict[str, dict[str, object]]) -> None:
        self.name = name
        self.switch = OpenVSwitch()
        self._server, self._settings = server, {"ovs": local_ip(number), **settings}

    def start(self, stack: contextlib.ExitStack) -> None:
        stack.enter_context(self.switch)
        make_bridges(self.switch)
        leave_neutron(self.switch)
        self.agent = stack.enter_context(GuardedAgent(self._server, self.switch, self.name, self._settings))
        self.agent.wait_held("foreign_flows")

    @property
    def flows(self) -> set[str]:
        return {line for bridge in BRIDGES for line in flows(self.switch, bridge)}

    @property
    def is_neutrons(self) -> bool:
        return any(f"{COOKIE:#x}" in line for line in self.flows)


@contextlib.contextmanager
def hosts(server: Neutrino, *names: str, first: int, settings: dict[str, dict[str, object]]) -> Iterator[list[Host]]:
    with contextlib.ExitStack() as stack:
        made = [Host(server, name, first + number, settings) for number, name in enumerate(names)]
        for host in made:
            host.start(stack)
        yield made


def takeover(server: Neutrino, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(server, ["takeover", "host", *arguments, "--config-file", str(server.config)])


def test_hosts_are_converted_and_given_back(server: Neutrino, db: Database) -> None:
    with hosts(server, "f1", "f2", first=11, settings=ALLOWED) as (one, two):
        before = one.flows
        dry = takeover(server, "f1", "f2", "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert f"f1:   br-int - cookie={COOKIE:#x}" in dry.stdout
        assert dry.stdout.splitlines()[-1] == "2 done"
        compared = takeover(server, "f1", "--compare")
        assert compared.returncode == 0, compared.stderr
        assert "f1: 0 packets of 0 ports compared" in compared.stdout
        assert one.flows == before, "a look changes nothing"

        # Two commands at once, of which each awaits what the other has begun.
        with ThreadPoolExecutor() as pool:
            both = [pool.submit(takeover, server, "f1", "f2") for _ in range(2)]
            done = [each.result() for each in both]
        for each in done:
            assert each.returncode == 0, each.stdout + each.stderr
            assert each.stdout.splitlines()[-1] == "2 done"
        assert not one.is_neutrons
        assert not two.is_neutrons
        assert one.agent.log.count("takeover: saved: ") == 1, "it was converted once"

        again = takeover(server, "--all")
        assert (again.returncode, again.stdout) == (0, "all hosts are converted\n")
        assert "f2: converted before" in takeover(server, "f2").stdout

        back = takeover(server, "f1", "f2", "--back", "--batch", "1")
        assert back.returncode == 0, back.stdout + back.stderr
        assert back.stdout.count("start Neutron's agents again") == 2
        assert one.flows == before
        assert two.is_neutrons


def test_a_conversion_goes_on_without_the_command_and_is_awaited_by_the_next(server: Neutrino, db: Database) -> None:
    with hosts(server, "f3", first=13, settings=ALLOWED) as (host,):
        command = [sys.executable, "-m", "neutrino.cli.main", "takeover", "host", "f3"]
        with subprocess.Popen([*command, "--config-file", str(server.config)], stdout=subprocess.DEVNULL) as first:
            begun = "nothing is in the way"
            wait_until(lambda: begun in host.agent.log, timeout=60, what="its start", failed=lambda: None)
            first.kill()
        done = takeover(server, "f3")
        assert done.returncode == 0, done.stdout + done.stderr
        assert not host.is_neutrons
        assert host.agent.log.count("takeover: saved: ") == 1


def test_what_hosts_refuse(server: Neutrino, db: Database) -> None:
    with hosts(server, "f4", first=14, settings={}) as (host,):
        before = host.flows
        done = takeover(server, "f4")
        assert done.returncode == 1
        assert (
            "f4: refused: this host is not converted through the feed: set [agent] remote_takeover = true"
            in done.stdout
        )
        host.agent.reload(ALLOWED)
        wait_until(lambda: "configuration reloaded" in host.agent.log, timeout=60, what="it", failed=lambda: None)
        name = "exec -a neutron-l3-agent sleep 600"
        with subprocess.Popen(["bash", "-c", name]) as neutrons:
            try:
                for options in ((), ("--stop-neutron-agents",)):
                    done = takeover(server, "f4", *options)
                    assert done.returncode == 1
                    assert f"neutron-l3-agent (pid {neutrons.pid})" in done.stdout
                assert neutrons.poll() is None, "what is no service is not ended"
            finally:
                neutrons.kill()
        assert host.flows == before
        host.agent.end()
        unreachable = takeover(server, "f4")
        assert unreachable.returncode == 3, unreachable.stdout
        assert "f4: unreachable: host f4 has not answered" in unreachable.stdout
        mixed = takeover(server, "f4", "nowhere")
        assert mixed.returncode == 2
        assert "no agent in the database: nowhere" in mixed.stderr


def test_a_question_that_was_asked_before_or_has_no_ticket_starts_nothing(server: Neutrino, db: Database) -> None:
    """As a row of a killed command that is sent later, or a copy of an earlier question."""
    with hosts(server, "f5", first=15, settings=ALLOWED) as (host,):
        asks = HostQueries(db, Registry(db))

        def ask(**question: object) -> dict[str, object]:
            answer: dict[str, object] = json.loads(asks.ask("f5", QUERY, json.dumps(question).encode(), 20))
            return answer

        assert "work" not in ask(action="convert")
        assert "starts nothing" in str(ask(action="convert", ticket="made up")["refused"])
        ticket = str(ask(action="dry-run")["ticket"])
        first = ask(action="dry-run", ticket=ticket)
        assert isinstance(first["work"], dict)
        assert first["work"]["id"] == ticket
        assert "starts nothing" in str(ask(action="convert", ticket=ticket)["refused"])
        assert host.is_neutrons
        assert "host f5 cannot answer" in str(takeover_error(asks, b'{"action": "explode"}'))


def takeover_error(asks: HostQueries, question: bytes) -> object:
    return asks.ask_all(QUERY, {"f5": question}, 20)["f5"]
