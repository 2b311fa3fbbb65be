"""Units of systemd that others have made: stopped and started by name."""

import re
from collections.abc import Sequence
from typing import Final, Protocol

from neutrino.dataplane.process.api import ProcessError
from neutrino.dataplane.program import ProgramError, run_program

SECONDS: Final = 180.0  # systemd itself kills a service that does not stop, after 90 s by default
_NAME: Final = re.compile(r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*\.service", re.ASCII)


class Units(Protocol):
    """ProcessError if one of the units cannot be stopped or started. Blocking."""

    def stop(self, names: Sequence[str]) -> None: ...

    def start(self, names: Sequence[str]) -> None: ...


class SystemdUnits:
    def stop(self, names: Sequence[str]) -> None:
        _call("stop", names)

    def start(self, names: Sequence[str]) -> None:
        _call("start", names)


def _call(verb: str, names: Sequence[str]) -> None:
    strange = [name for name in names if not _NAME.fullmatch(name)]
    if strange:  # patterns, which systemctl expands, or options
        raise ProcessError(f"{strange[0]!r} is not the name of a service")
    try:
        run_program(["systemctl", "--no-ask-password", verb, "--", *names], timeout=SECONDS)
    except ProgramError as error:
        raise ProcessError(f"systemctl {verb} {' '.join(names)}: {error}") from error
