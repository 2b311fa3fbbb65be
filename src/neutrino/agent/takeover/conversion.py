"""The conversion of this host, in order: refuse, save, probe, admit the roles, wait, verify; or turn back.

    held agent ──▶ checks ──▶ snapshot ──▶ probes ──▶ phase `converting`: roles replace what is Neutron's
                     │                                     │
                   refused: nothing is changed             ▼ everything applied, no differences, probes answered
                                                      phase `converted`        otherwise: turn back

An agent that is killed after the snapshot goes on converting when it is started again; `--back` returns from any step.
"""

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from neutrino.agent.guard.decide import FOREIGN_FLOWS
from neutrino.agent.guard.gate import Gate
from neutrino.agent.runtime.role import START, Drift, Role
from neutrino.agent.takeover.neutron_agents import NeutronAgent, remedy
from neutrino.agent.takeover.phase import Phase
from neutrino.agent.takeover.snapshot import HostSnapshot
from neutrino.dataplane.probes.api import Loss, ProbeError, Prober
from neutrino.feed.client import FeedClient

LOG = logging.getLogger(__name__)
APPLY_SECONDS: Final = 300.0
VERIFY_SECONDS: Final = 120.0
POLL_SECONDS: Final = 0.2
CONVERTED: Final = "this host is converted already"
SILENT_SECONDS: Final = 2.0  # without an answer to any probe of a way: it is broken
_SHOWN: Final = 5

Say = Callable[[str], None]


class Refused(Exception):
    """Why the host is not converted; nothing was changed."""


class Failed(Exception):
    """Why the conversion is not completed: the host has to be given back."""


@dataclasses.dataclass(frozen=True)
class Host:
    """What a conversion needs of the host. All callables block, and run in threads."""

    neutron_agents: Callable[[], Sequence[NeutronAgent]]
    save: Callable[[], HostSnapshot]  # reads the host and writes the snapshot
    read_phase: Callable[[], Phase]
    write_phase: Callable[[Phase], None]
    start_probes: Callable[[], Prober]
    find: Callable[[], Sequence[Drift]]  # what differs from the desired state


@dataclasses.dataclass(frozen=True)
class Outcome:
    seconds: float  # from the admission of the roles until no difference was left
    losses: tuple[Loss, ...] = ()
    problems: tuple[str, ...] = ()  # of single objects, which are not wired

    @property
    def lost(self) -> int:
        return sum(loss.lost for loss in self.losses)

    def text(self) -> str:
        sent = sum(loss.sent for loss in self.losses)
        longest = max((loss.longest for loss in self.losses), default=0.0)
        measured = (
            f"{self.lost} of {sent} probes on {len(self.losses)} ways lost, longest gap {longest * 1000:.0f} ms"
            if self.losses
            else "loss was not measured: no neighbour of a plugged instance answers probes"
        )
        return f"converted in {self.seconds:.1f} s; {measured}"


class Conversion:
    """Belongs to the agent's event loop."""

    def __init__(self, host: Host, gate: Gate, feed: FeedClient, roles: Sequence[Role]) -> None:
        self._host, self._gate, self._feed, self._roles = host, gate, feed, roles
        self._running = asyncio.Lock()

    async def check(self, say: Say) -> None:
        """Refused, with all reasons, if the host cannot be converted now."""
        reasons = await self._reasons()
        if reasons:
            raise Refused("\n".join(reasons))
        say("nothing is in the way of the conversion")

    def neutron_agents(self) -> Sequence[NeutronAgent]:
        """Those that run and have to be stopped. Blocking."""
        return self._host.neutron_agents()

    async def check_all_but_agents(self) -> None:
        """Refused if anything else than Neutron's agents is in the way."""
        reasons = await self._other_reasons()
        if reasons:
            raise Refused("\n".join(reasons))

    async def dry_run(self, say: Say) -> None:
        """Show what would be changed; nothing is."""
        reasons = await self._reasons()
        for drift in await asyncio.to_thread(self._host.find):
            if drift.role != START:
                say(f"{drift.role}: {len(drift.plan.splitlines())} changes")
                for line in drift.plan.splitlines():
                    say(f"  {line}")
                for name, problem in sorted(drift.problems.items()):
                    say(f"  problem of {name}: {problem}")
        if reasons:
            raise Refused("\n".join(reasons))

    async def convert(self, say: Say) -> Outcome:
        """Refused or Failed unless the host is converted afterwards."""
        if self._running.locked():
            raise Refused("this host is being converted already")
        async with self._running:
            await self.check(say)
            snapshot = await asyncio.to_thread(self._host.save)
            say(f"saved: {snapshot.text()}")
            prober = await self._probes(say)
            try:
                return await self._converted(prober, say)
            finally:
                if prober is not None:
                    await asyncio.to_thread(prober.close)

    async def complete(self, say: Say) -> Outcome | None:
        """Go on where a killed agent has ended: it had a snapshot, and its roles had been admitted."""
        async with self._running:
            if await asyncio.to_thread(self._host.read_phase) is not Phase.CONVERTING:
                return None
            await self._gate.opened()

            def tell(text: str) -> None:
                LOG.info("conversion: %s", text)
                say(text)

            outcome = await self._converted(None, tell)
            LOG.info("conversion: %s", outcome.text())
            return outcome

    async def _reasons(self) -> list[str]:
        others = await self._other_reasons()
        if others == [CONVERTED]:
            return others
        agents = await asyncio.to_thread(self._host.neutron_agents)
        if not agents:
            return others
        listed = ", ".join(agent.text() for agent in agents)
        return [f"Neutron's agents run on this host: {listed}. Stop them first: {remedy(agents)}", *others]

    async def _other_reasons(self) -> list[str]:
        phase = await asyncio.to_thread(self._host.read_phase)
        if phase is Phase.CONVERTED:
            return [CONVERTED]
        reasons = [text for cause, text in self._gate.problems.items() if cause != FOREIGN_FLOWS]
        if self._gate.is_open and phase is Phase.NONE:
            reasons.append("this agent works on this host already: it has no flows of Neutron's agents")
        elif not self._gate.is_open and (self._feed.offered is None or not self._feed.offered.is_synced):
            reasons.append("the server has not sent its objects yet: check [feed] server, and the log of the agent")
        return reasons

    async def _probes(self, say: Say) -> Prober | None:
        try:
            prober = await asyncio.to_thread(self._host.start_probes)
        except ProbeError as error:
            say(f"loss is not measured: {error}")
            return None
        say(f"probing {len(prober.losses())} ways between instances and their neighbours")
        return prober

    async def _converted(self, prober: Prober | None, say: Say) -> Outcome:
        started = time.monotonic()
        await asyncio.to_thread(self._host.write_phase, Phase.CONVERTING)
        self._gate.admit(FOREIGN_FLOWS)
        await self._wait_applied(prober, say)
        problems = await self._verify(prober, say)
        applied = time.monotonic()
        await self._watch(prober)
        losses = tuple(prober.losses()) if prober is not None else ()
        await asyncio.to_thread(self._host.write_phase, Phase.CONVERTED)
        return Outcome(applied - started, losses, problems)

    async def _wait_applied(self, prober: Prober | None, say: Say) -> None:
        """Until every role has applied all that the server has sent."""
        ends = time.monotonic() + APPLY_SECONDS
        reported = ""
        while True:
            positions = {role.name: role.applied() for role in self._roles}  # None: the role has none; verified below
            missing = [name for name, at in positions.items() if at is not None and at < self._feed.position]
            if self._gate.is_open and self._feed.is_synced and not missing:
                return
            text = f"waiting for {', '.join(missing) or 'the roles to start'}"
            if text != reported:
                say(text)
                reported = text
            self._check_probes(prober)
            if time.monotonic() > ends:
                raise Failed(f"not completed after {APPLY_SECONDS:.0f} s: {text}")
            await asyncio.sleep(POLL_SECONDS)

    async def _verify(self, prober: Prober | None, say: Say) -> tuple[str, ...]:
        """Wait until no differences to the desired state are left.

        Returns the problems of single objects, as of a port that Neutron could not wire either.
        """
        say("verifying")
        ends = time.monotonic() + VERIFY_SECONDS
        while True:
            drifts = await asyncio.to_thread(self._host.find)
            self._check_probes(prober)
            lines = [f"{drift.role}: {line}" for drift in drifts for line in drift.plan.splitlines()]
            if not lines:
                break
            if time.monotonic() > ends:
                listed = "; ".join(lines[:_SHOWN])
                raise Failed(f"{len(lines)} differences to what is desired are left: {listed}")
            await asyncio.sleep(POLL_SECONDS)
        return tuple(f"{drift.role}: {name}: {why}" for drift in drifts for name, why in sorted(drift.problems.items()))

    async def _watch(self, prober: Prober | None) -> None:
        """Every way that was answered before still is: long enough for one that has just broken to be noticed."""
        if prober is not None:
            await asyncio.sleep(SILENT_SECONDS)
            self._check_probes(prober)

    def _check_probes(self, prober: Prober | None) -> None:
        if prober is not None and (silent := prober.silent(SILENT_SECONDS)):
            listed = ", ".join(probe.text() for probe in silent[:_SHOWN])
            raise Failed(f"{len(silent)} ways are not answered any more: {listed}")
