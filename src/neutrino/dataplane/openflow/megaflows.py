"""The megaflow cache of the userspace datapath, and how to flush it.

The datapath caches the decision for a class of packets as a megaflow. When flows change, the switch revalidates all
megaflows, within half a second. Open vSwitch before 3.2 does that wrongly where two megaflows cover one packet: it updates
one of them, and the other stays for as long as packets match it, so that a removed rule would go on letting packets in.
Flushing the cache avoids that: every packet is looked up in the flows again.
"""

from __future__ import annotations

import re
from typing import Protocol

from neutrino.dataplane.openflow.api import OpenFlowError
from neutrino.dataplane.openflow.unixctl import DEFAULT_RUN_DIRECTORY, ControlConnection, ControlError, control_socket

_FIXED_IN = (3, 2)
_VERSION = re.compile(r"\(Open vSwitch\) (\d+)\.(\d+)")


class MegaflowCache(Protocol):
    def flush(self) -> None:
        """Have every later packet looked up in the current flows; OpenFlowError if the switch cannot be reached."""
        ...


class OvsMegaflowCache:
    """Of the userspace datapath. `run_directory`: where ovs-vswitchd has its sockets."""

    def __init__(self, run_directory: str = "", *, timeout: float = 10) -> None:
        self._run_directory = run_directory or DEFAULT_RUN_DIRECTORY
        self._timeout = timeout

    def flush(self) -> None:
        try:
            with ControlConnection(control_socket(self._run_directory), self._timeout) as control:
                if not revalidates_correctly(control.call("version")):
                    control.call("revalidator/purge")
        except ControlError as error:
            raise OpenFlowError(f"the megaflow cache cannot be flushed: {error}") from error


def revalidates_correctly(version: str) -> bool:
    """Whether a switch of this version needs no flush; an unknown version may need it."""
    found = _VERSION.search(version)
    return found is not None and (int(found[1]), int(found[2])) >= _FIXED_IN
