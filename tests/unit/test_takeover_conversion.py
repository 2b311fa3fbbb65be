"""The steps of a host's conversion: what refuses it, what turns it back, and what a killed agent leaves."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.guard.decide import FOREIGN_FLOWS
from neutrino.agent.runtime.role import Drift
from neutrino.agent.takeover import conversion as module
from neutrino.agent.takeover.commands import Commands
from neutrino.agent.takeover.control import Request, ask, serving
from neutrino.agent.takeover.conversion import Conversion, Host
from neutrino.agent.takeover.look import Look
from neutrino.agent.takeover.neutron_agents import NeutronAgent, running_agents, unit_of_cgroups
from neutrino.agent.takeover.phase import Phase, read_phase, write_phase
from neutrino.agent.takeover.snapshot import (
    HostSnapshot,
    SavedBridge,
    SavedNamespace,
    SnapshotError,
    read_snapshot,
    write_snapshot,
)
from neutrino.agent.takeover.stopped_agents import StoppedAgents
from neutrino.agent.takeover.works import Works
from neutrino.dataplane.netlink.values import address, route, rule
from neutrino.dataplane.openflow.api import Meter
from neutrino.dataplane.probes.api import Loss, Probe
from neutrino.dataplane.process.api import ForeignProcess, ProcessError
from neutrino.model.takeover import Action

PROBE = Probe("tap1", 5, "fa:16:3e:00:00:01", "10.0.0.5", "10.0.0.1")
NAMESPACE = SavedNamespace(
    {4: "*nat\nCOMMIT\n"},
    ("lo", "qr-1"),
    frozenset({address("qr-1", "10.0.0.1/24")}),
    frozenset({route("0.0.0.0/0", "qr-1", "10.0.0.254")}),
    frozenset({rule(57481, source="10.0.0.5/32", table=16)}),
)
SNAPSHOT = HostSnapshot(
    "2026-11-18T10:00:00+00:00",
    {"br-int": SavedBridge(("cookie=0x1,table=0,priority=0 actions=drop",), {7: Meter(100)})},
    {"qrouter-1": NAMESPACE},
)


class FakeGate:
    def __init__(self) -> None:
        self.is_open = False
        self.problems = {FOREIGN_FLOWS: "flows of Neutron"}

    def admit(self, cause: str) -> None:
        assert cause == FOREIGN_FLOWS
        self.is_open, self.problems = True, {}

    async def opened(self) -> None:
        assert self.is_open


@dataclasses.dataclass
class FakeFeed:
    position: int = 7
    is_synced: bool = True

    @property
    def offered(self) -> FakeFeed:
        return self


class FakeRole:
    name = "l2"
    position: int | None = 7

    def applied(self) -> int | None:
        return self.position


class FakeProber:
    since_answer = 0.0
    closed = False

    def start(self, probes: object) -> None: ...

    def losses(self) -> list[Loss]:
        return [Loss(PROBE, 100, 0, 0.06, self.since_answer)]

    def silent(self, seconds: float) -> list[Probe]:
        return [PROBE] if self.since_answer > seconds else []

    def close(self) -> None:
        self.closed = True


class FakeUnits:
    """Units of systemd: an agent whose unit is stopped is gone, and is there when it is started."""

    def __init__(self, agents: list[NeutronAgent]) -> None:
        self.agents = agents
        self.stopped: dict[str, NeutronAgent] = {}
        self.fails = False

    def stop(self, names: Sequence[str]) -> None:
        if self.fails:
            raise ProcessError("systemctl stop: it hangs")
        self.stopped |= {agent.unit: agent for agent in self.agents if agent.unit in names}
        self.agents[:] = [agent for agent in self.agents if agent.unit not in names]

    def start(self, names: Sequence[str]) -> None:
        self.agents += [self.stopped.pop(name) for name in names if name in self.stopped]


class Place:
    """A host with everything faked; `commands` as the agent has it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.gate, self.feed, self.role, self.prober = FakeGate(), FakeFeed(), FakeRole(), FakeProber()
        self.agents: list[NeutronAgent] = []
        self.drifts: list[list[Drift]] = []  # of each look; none are left when it is empty
        self.saved = self.restored = 0
        self.said: list[str] = []
        self.ended, self.comparing, self.looked = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.units = FakeUnits(self.agents)
        host = Host(
            lambda: self.agents,
            self.save,
            lambda: read_phase(state),
            lambda phase: write_phase(state, phase),
            lambda: self.prober,
            lambda: self.drifts.pop(0) if self.drifts else [],
        )
        gate: Any = self.gate
        feed: Any = self.feed
        roles: Any = [self.role]
        self.commands = Commands(
            Conversion(host, gate, feed, roles),
            Works(),
            StoppedAgents(state, self.units),
            host.read_phase,
            host.write_phase,
            lambda: read_snapshot(state),
            self.restore,
            self.ended.set,
            self.compare,
        )

    def save(self) -> HostSnapshot:
        self.saved += 1
        write_snapshot(self.state, SNAPSHOT)
        return SNAPSHOT

    def restore(self, say: Callable[[str], None]) -> list[str]:
        self.restored += 1
        assert read_phase(self.state) is Phase.RETURNING, "an agent that is killed now must go on with it"
        return []

    async def compare(self) -> Look:
        self.comparing.set()
        await self.looked.wait()
        return Look(packets=9, ports=1, of_ports=1, differences=("tap1 differs",), differing=1)

    async def ask(self, action: str, *, stop_agents: bool = False) -> tuple[int | None, str]:
        answer = await self.commands.handle(Request(action, stop_agents), self.said.append)
        return answer.status, answer.text

    async def returning(self) -> None:
        """What the agent does when its roles have ended."""
        await self.ended.wait()
        await self.commands.return_host()


def run(state: Path, work: Callable[[Place], Coroutine[None, None, None]], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (
        ("POLL_SECONDS", 0.0),
        ("APPLY_SECONDS", 0.2),
        ("VERIFY_SECONDS", 0.2),
        ("SILENT_SECONDS", 0.05),
    ):
        monkeypatch.setattr(module, name, seconds)

    async def main() -> None:
        await work(Place(state))

    asyncio.run(main())


def test_a_host_is_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        place.drifts = [[Drift("l3", "qrouter-1 set route"), Drift("l2")], [Drift("l3", "", {"port": "no device"})]]
        status, text = await place.ask("convert")
        assert status == 0
        assert "0 of 100 probes on 1 ways lost, longest gap 60 ms" in text
        assert "problem: l3: port: no device" in place.said
        assert (read_phase(tmp_path), place.prober.closed, place.saved) == (Phase.CONVERTED, True, 1)
        assert await place.ask("convert") == (1, "this host is converted already")

    run(tmp_path, work, monkeypatch)


def test_what_refuses_a_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        place.agents.append(NeutronAgent("neutron-l3-agent", 12, "neutron-l3-agent.service"))
        place.gate.problems = {FOREIGN_FLOWS: "flows", "unknown_ports": "the server knows 0 of 61 ports"}
        place.feed.is_synced = False
        for action in ("check", "convert", "dry-run"):
            status, text = await place.ask(action)
            assert status == 1
            for part in ("systemctl stop neutron-l3-agent.service", "knows 0 of 61", "has not sent its objects"):
                assert part in text
        assert (place.saved, read_phase(tmp_path), place.gate.is_open) == (0, Phase.NONE, False)
        assert (await place.ask("explode"))[0] == 1

    run(tmp_path, work, monkeypatch)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda place: setattr(place.prober, "since_answer", 9.0), "tap1 (10.0.0.5) to 10.0.0.1"),
        (lambda place: setattr(place.role, "position", 3), "waiting for l2"),
        (lambda place: setattr(place, "drifts", [[Drift("l2", "br-int - flow")]] * 10000), "br-int - flow"),
        (lambda place: setattr(place.gate, "admit", None), "not callable"),
    ],
    ids=["a probe is silent", "not applied", "differences are left", "an error"],
)
def test_what_turns_a_conversion_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[[Place], None], reason: str
) -> None:
    async def work(place: Place) -> None:
        fault(place)
        returning = asyncio.create_task(place.returning())
        status, text = await place.ask("convert")
        await returning
        assert status == 1
        assert reason in text
        assert "as it was before the conversion" in text
        assert (place.restored, read_phase(tmp_path), place.prober.closed) == (1, Phase.NONE, True)

    run(tmp_path, work, monkeypatch)


def test_a_failure_before_the_roles_are_admitted_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(place: Place) -> None:
        (tmp_path / "takeover").mkdir()
        (tmp_path / "takeover" / "snapshot.json").mkdir()  # as a full disk: the snapshot cannot be written
        status, text = await place.ask("convert")
        assert status == 1
        assert "nothing was changed" in text
        assert (place.restored, place.gate.is_open) == (0, False)

    run(tmp_path, work, monkeypatch)


def test_back_needs_a_conversion_and_its_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        assert "not converted" in (await place.ask("back"))[1]
        write_phase(tmp_path, Phase.CONVERTED)
        status, text = await place.ask("back")
        assert (status, place.restored) == (1, 0)
        assert "there is no snapshot" in text
        place.save()
        returning = asyncio.create_task(place.returning())
        status, text = await place.ask("back")
        await returning
        assert (status, place.restored, read_phase(tmp_path)) == (0, 1, Phase.NONE)

    run(tmp_path, work, monkeypatch)


def test_an_agent_that_was_killed_goes_on_converting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        await place.commands.complete()
        assert not place.gate.is_open, "nothing was begun"
        write_phase(tmp_path, Phase.CONVERTING)
        place.gate.is_open = True  # by the phase, which the agent reads at its start
        await place.commands.complete()
        assert read_phase(tmp_path) is Phase.CONVERTED

    run(tmp_path, work, monkeypatch)


def test_a_phase_that_is_garbage_counts_as_none(tmp_path: Path) -> None:
    write_phase(tmp_path, Phase.CONVERTED)
    (tmp_path / "takeover" / "phase").write_text("perhaps")
    assert read_phase(tmp_path) is Phase.NONE


@pytest.mark.parametrize(
    "text", ["", "[]", '{"taken_at": 1}', '{"taken_at":"t","bridges":{},"namespaces":{},"format":9}']
)
def test_a_snapshot_that_cannot_be_used(tmp_path: Path, text: str) -> None:
    write_snapshot(tmp_path, SNAPSHOT)
    assert read_snapshot(tmp_path) == SNAPSHOT
    (tmp_path / "takeover" / "snapshot.json").write_text(text)
    with pytest.raises(SnapshotError):
        read_snapshot(tmp_path)


def test_neutrons_agents_are_recognised() -> None:
    class Processes:
        def inside(self, namespace: str) -> list[ForeignProcess]:
            assert namespace == "", "the host's own"
            python = ("/usr/bin/python3", "/usr/bin/neutron-dhcp-agent", "--config-file", "x")
            return [
                ForeignProcess(99999991, python),
                ForeignProcess(99999992, python),
                ForeignProcess(99999993, ("neutron-l3-agent: worker",)),
                ForeignProcess(99999994, ("/usr/sbin/dnsmasq",)),
                ForeignProcess(99999996, ("/usr/bin/python3", "/usr/bin/neutron-sriov-nic-agent")),
                ForeignProcess(99999995, ("vim", "neutron-server.conf")),
            ]

    processes: Any = Processes()
    assert sorted(agent.name for agent in running_agents(processes)) == ["neutron-dhcp-agent", "neutron-l3-agent"]
    assert "neutron-sriov-nic-agent" in {agent.name for agent in running_agents(processes, ("l2", "sriov"))}


def test_the_control_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        async with serving(tmp_path, place.commands.handle):
            assert (tmp_path / "takeover" / "control.sock").stat().st_mode & 0o777 == 0o600
            answers = await asyncio.to_thread(lambda: list(ask(tmp_path, Request("convert"))))
            assert answers[-1].status == 0
            assert [answer.text for answer in answers][:1] == ["nothing is in the way of the conversion"]
            answers = await asyncio.to_thread(lambda: list(ask(tmp_path, Request("x" * 100))))
            assert answers[-1].status == 1
        assert not (tmp_path / "takeover" / "control.sock").exists()

    run(tmp_path, work, monkeypatch)


AGENTS = [
    NeutronAgent("neutron-l3-agent", 12, "neutron-l3-agent.service"),
    NeutronAgent("neutron-openvswitch-agent", 13, "neutron-openvswitch-agent.service"),
]
STOPPED = "stopped neutron-l3-agent.service, neutron-openvswitch-agent.service"


def test_neutrons_agents_are_stopped_and_started_again_when_the_host_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(place: Place) -> None:
        place.agents += AGENTS
        status, text = await place.ask("convert")
        assert status == 1
        assert "--stop-neutron-agents" in text
        assert place.agents == AGENTS, "without the option nobody stops them"
        assert (await place.ask("convert", stop_agents=True))[0] == 0
        assert STOPPED in place.said
        assert place.agents == []
        assert (await place.ask("convert", stop_agents=True))[0] == 1
        assert place.agents == [], "a second command must not start them on a converted host"
        returning = asyncio.create_task(place.returning())
        status, text = await place.ask("back")
        await returning
        assert (status, text) == (0, "the host is as it was before the conversion")
        assert place.agents == AGENTS
        assert place.commands.stopped.names() == []

    run(tmp_path, work, monkeypatch)


def test_neutrons_agents_run_again_after_a_conversion_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(place: Place) -> None:
        place.agents += AGENTS
        place.prober.since_answer = 9.0
        returning = asyncio.create_task(place.returning())
        answer = await place.commands.handle(Request("convert", stop_agents=True), place.said.append)
        await returning
        assert (answer.status, answer.given_back) == (1, True)
        assert place.agents == AGENTS

    run(tmp_path, work, monkeypatch)


def test_neutrons_agents_are_not_stopped_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        place.agents += AGENTS
        place.gate.problems["unknown_ports"] = "the server knows 0 of 61 ports"
        status, text = await place.ask("convert", stop_agents=True)
        assert (status, text) == (1, "the server knows 0 of 61 ports")
        assert STOPPED not in place.said
        del place.gate.problems["unknown_ports"]
        place.agents.append(NeutronAgent("neutron-dhcp-agent", 14))  # as in a container
        status, text = await place.ask("convert", stop_agents=True)
        assert status == 1
        assert "neutron-dhcp-agent (pid 14)" in text
        assert len(place.agents) == 3
        place.agents.pop()
        place.units.fails = True
        status, text = await place.ask("convert", stop_agents=True)
        assert (status, text) == (1, "systemctl stop: it hangs")
        assert (place.agents, place.saved) == (AGENTS, 0)

    run(tmp_path, work, monkeypatch)


def test_an_agent_that_was_killed_starts_neutrons_agents_if_nothing_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(place: Place) -> None:
        place.agents += AGENTS
        place.commands.stopped.stop(AGENTS)
        write_phase(tmp_path, Phase.CONVERTED)
        await place.commands.recover()
        assert place.agents == [], "on a converted host they stay stopped"
        write_phase(tmp_path, Phase.NONE)
        await place.commands.recover()
        assert place.agents == AGENTS

    run(tmp_path, work, monkeypatch)


def test_a_unit_is_one_of_the_system() -> None:
    for text, unit in (
        ("0::/system.slice/neutron-l3-agent.service\n", "neutron-l3-agent.service"),
        ("3:cpu:/x\n1:name=systemd:/neutron.slice/neutron-l3-agent.service\n0::/\n", "neutron-l3-agent.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/sshd.service\n", ""),
        ("0::/user.slice/user-1000.slice/session-1.scope\n", ""),
        ("0::/system.slice/docker-1234.scope\n", ""),
        ("0::/system.slice/docker.service/sshd.service\n", ""),
        ("8:pids:/system.slice/sshd.service\n", ""),
    ):
        assert unit_of_cgroups(text) == unit, text


def test_two_works_that_change_the_host_do_not_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        place.role.position = 3  # it waits
        first = asyncio.create_task(place.ask("convert"))
        await asyncio.sleep(0)
        for action in ("convert", "back"):
            status, text = await place.ask(action)
            assert status == 1
            assert "a conversion runs on this host already" in text
        place.role.position = 7
        assert (await first)[0] == 0

    run(tmp_path, work, monkeypatch)


def test_a_comparison_ends_when_a_conversion_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(place: Place) -> None:
        place.looked.set()
        assert await place.ask("compare") == (
            1,
            "9 packets of 1 ports compared, 1 differ; a conversion would make 0 changes",
        )
        assert place.said == ["tap1 differs"]
        place.looked.clear()
        place.comparing.clear()
        comparing = asyncio.create_task(place.ask("compare"))
        await place.comparing.wait()
        assert (await place.ask("convert"))[0] == 0
        assert await comparing == (1, "it was ended, as this host is about to be changed")

    run(tmp_path, work, monkeypatch)


def test_the_way_back_ends_the_completion_of_a_killed_agents_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(place: Place) -> None:
        place.save()
        write_phase(tmp_path, Phase.CONVERTING)
        place.gate.is_open, place.role.position = True, 3  # it waits
        completing = asyncio.create_task(place.commands.complete())
        while place.commands.works.last(Action.CONVERT) is None:
            await asyncio.sleep(0)
        assert "runs on this host already" in (await place.ask("convert"))[1]
        returning = asyncio.create_task(place.returning())
        assert (await place.ask("back"))[0] == 0
        await asyncio.gather(completing, returning, return_exceptions=True)
        assert read_phase(tmp_path) is Phase.NONE, "the completion must not write that the host is converted"

    run(tmp_path, work, monkeypatch)
