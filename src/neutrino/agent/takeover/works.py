"""What the takeover of this host is doing: conversions, the way back, dry runs. Outlives runs of the roles, and commands.

Whoever has started a work, by the socket of this host or through the feed: others see how far it is, and none is started
beside it.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from neutrino.agent.takeover.control import Answer
from neutrino.model.takeover import CHANGING, MAX_LINES, MAX_TEXT, Action, WorkState, line

KEPT: Final = 2000  # lines of a work
TICKETS: Final = 16
TICKET_SECONDS: Final = 60.0


class Work:
    """One run of an action. `say` takes its progress."""

    def __init__(self, name: str, timer: Callable[[], float]) -> None:
        self.id = name
        self._timer = timer
        self._started, self._ended = timer(), 0.0
        self._lines: list[str] = []
        self._total = 0
        self.answer: Answer | None = None

    @property
    def is_running(self) -> bool:
        return self.answer is None

    def say(self, text: str) -> None:
        for one in text.splitlines():
            self._total += 1
            if len(self._lines) < KEPT:
                self._lines.append(line(one))

    def end(self, answer: Answer) -> None:
        if self._total > KEPT:
            self._lines.append(f"… and {self._total - KEPT} more lines: run the command on the host to see them")
        self.answer, self._ended = answer, self._timer()

    def state(self, after: int = 0) -> WorkState:
        answer = self.answer
        return WorkState(
            id=self.id,
            seconds=(self._timer() if answer is None else self._ended) - self._started,
            lines=tuple(self._lines[after : after + MAX_LINES]),
            total=len(self._lines),
            status=answer.status if answer is not None else None,
            text=line(answer.text.replace("\n", "; "))[:MAX_TEXT] if answer is not None else "",
            given_back=answer is not None and answer.given_back,
        )


class Works:
    """The last work of each action. Belongs to the agent's event loop, or to one after another."""

    def __init__(self, timer: Callable[[], float] = time.monotonic) -> None:
        self._timer = timer
        self._last: dict[Action, Work] = {}
        self._tickets: deque[tuple[str, float]] = deque(maxlen=TICKETS)

    def begin(self, action: Action, name: str = "") -> Work:
        """A new work. The caller has looked whether another one runs, in the same step of the event loop."""
        self._last[action] = work = Work(name or secrets.token_hex(8), self._timer)
        return work

    def last(self, action: Action) -> Work | None:
        return self._last.get(action)

    def in_the_way(self, action: Action) -> tuple[Action, Work] | None:
        """What runs, and must end first: the host is changed by one work at a time."""
        others = CHANGING if action in CHANGING else {action}
        running = ((other, self._last.get(other)) for other in Action if other in others)
        return next(((other, work) for other, work in running if work is not None and work.is_running), None)

    def ticket(self) -> str:
        """A new one, good for one start within the next minute."""
        made = secrets.token_hex(16)
        self._tickets.append((made, self._timer() + TICKET_SECONDS))
        return made

    def redeem(self, ticket: str) -> bool:
        """Whether it may start a work; no more afterwards."""
        found = next((one for one in self._tickets if secrets.compare_digest(one[0].encode(), ticket.encode())), None)
        if found is None:
            return False
        self._tickets.remove(found)
        return self._timer() < found[1]
