"""What a switch remembers of its decisions, and how it is made to forget them.

A switch decides by flows once, and then for all packets alike by what it has decided. When flows change it goes through
what it remembers and puts it right, within half a second. On the userspace datapath of Open vSwitch before 3.2 that goes
wrong where two things that it remembers cover one packet: the new decision is written over the wrong one of the two, and
the old one stays for as long as packets come, so a rule that was removed would go on letting in those who do not stop.
Forgetting everything is the way out: packets are decided anew, by the flows that are there now.
"""

from __future__ import annotations

import re
from typing import Protocol

from neutrino.dataplane.openflow.api import OpenFlowError
from neutrino.dataplane.openflow.unixctl import ControlConnection, ControlError, control_socket

_DEFAULT_RUN_DIRECTORY = "/var/run/openvswitch"
_RIGHT_SINCE = (3, 2)
_VERSION = re.compile(r"\(Open vSwitch\) (\d+)\.(\d+)")


class MegaflowCache(Protocol):
    def forget(self) -> None:
        """Have every packet from now on decided by the flows that are there; OpenFlowError if that cannot be."""
        ...


class OvsMegaflowCache:
    """Those of the userspace datapath; `run_directory` is where ovs-vswitchd keeps its sockets."""

    def __init__(self, run_directory: str = "", *, timeout: float = 10) -> None:
        self._run_directory = run_directory or _DEFAULT_RUN_DIRECTORY
        self._timeout = timeout

    def forget(self) -> None:
        try:
            with ControlConnection(control_socket(self._run_directory), self._timeout) as control:
                if not revalidates_correctly(control.call("version")):
                    control.call("revalidator/purge")
        except ControlError as error:
            raise OpenFlowError(f"what the switch remembers cannot be put right: {error}") from error


def revalidates_correctly(said: str) -> bool:
    """Whether a switch that says this of its version needs no help. One that is not understood may need it."""
    found = _VERSION.search(said)
    return found is not None and (int(found[1]), int(found[2])) >= _RIGHT_SINCE
