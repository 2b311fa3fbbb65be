"""What `neutrino takeover host` asks of the agent: check, dry run, convert, and give the host back."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence

from neutrino.agent.takeover.control import BACK, CHECK, CONVERT, DONE, DRY_RUN, REFUSED, Answer
from neutrino.agent.takeover.conversion import Conversion, Failed, Refused, Say
from neutrino.agent.takeover.phase import Phase
from neutrino.agent.takeover.snapshot import SnapshotError

LOG = logging.getLogger(__name__)
START_AGAIN = "start Neutron's agents again"


@dataclasses.dataclass(eq=False)
class Commands:
    """Belongs to the agent's event loop. The host is given back between two runs of the roles."""

    conversion: Conversion
    read_phase: Callable[[], Phase]
    write_phase: Callable[[Phase], None]
    check_snapshot: Callable[[], object]  # SnapshotError if there is nothing to restore
    restore: Callable[[Say], Sequence[str]]  # the problems; blocking
    end_roles: Callable[[], None]

    def __post_init__(self) -> None:
        self.is_returning = False
        self._returned = asyncio.Event()
        self._say: Say = _log
        self._problems: Sequence[str] = ()

    async def handle(self, action: str, say: Say) -> Answer:
        def tell(text: str) -> None:
            _log(text)
            say(text)

        try:
            match action:
                case "check":
                    await self.conversion.check(tell)
                    return Answer("", DONE)
                case "dry-run":
                    await self.conversion.dry_run(say)
                    return Answer("nothing was changed", DONE)
                case "convert":
                    return await self._convert(tell)
                case "back":
                    return await self._give_back(tell)
        except (Refused, SnapshotError) as error:
            return Answer(str(error), REFUSED)
        return Answer(f"unknown action {action!r}: {CHECK}, {DRY_RUN}, {CONVERT} or {BACK}", REFUSED)

    async def complete(self) -> None:
        """What an agent that was killed has left: a conversion is completed."""
        try:
            await self.conversion.complete()
        except Failed as error:  # nobody waits for it: the roles go on, and the operator can give the host back
            LOG.error("the conversion is not completed: %s. `neutrino takeover host --back` gives the host back", error)

    async def return_host(self) -> None:
        """Restore the snapshot. The roles have ended."""
        self._problems = await asyncio.to_thread(self.restore, self._say)
        await asyncio.to_thread(self.write_phase, Phase.NONE)
        self._returned.set()

    async def _convert(self, say: Say) -> Answer:
        try:
            outcome = await self.conversion.convert(say)
        except Refused:
            raise
        except Exception as error:  # whatever it is, a host that is half converted is worse than Neutron's
            LOG.exception("the conversion failed")
            if await asyncio.to_thread(self.read_phase) is Phase.NONE:
                return Answer(f"not converted, and nothing was changed: {error}", REFUSED)
            say(f"failed: {error}; turning back")
            back = await self._give_back(say)
            return Answer(f"not converted: {error}. {back.text}", REFUSED)
        for problem in outcome.problems:
            say(f"problem: {problem}")
        return Answer(outcome.text(), DONE)

    async def _give_back(self, say: Say) -> Answer:
        if await asyncio.to_thread(self.read_phase) is Phase.NONE:
            raise Refused("this host is not converted: it has Neutron's flows, or never had any")
        await asyncio.to_thread(self.check_snapshot)
        self._say, self.is_returning = say, True
        await asyncio.to_thread(self.write_phase, Phase.RETURNING)
        self.end_roles()
        await self._returned.wait()
        for problem in self._problems:
            say(f"problem: {problem}")
        text = "the host is as it was before the conversion" if not self._problems else "not everything is restored"
        return Answer(f"{text}: {START_AGAIN}", REFUSED if self._problems else DONE)


def _log(text: str) -> None:
    LOG.info("takeover: %s", text)
