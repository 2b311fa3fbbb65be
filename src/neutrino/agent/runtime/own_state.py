"""The agent's state directory: locked by the one that uses it, in a format that its release knows."""

import contextlib
import fcntl
import logging
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

from neutrino import daemon_files, private
from neutrino.errors import RefusedToStart

LOG = logging.getLogger(__name__)
STATE_FORMAT = 1  # raise it when a release writes state that the previous one would misread
LOCK, FORMAT = "agent.lock", "format"


class AgentRuns(RefusedToStart):
    """Another process has the directory."""


@contextlib.contextmanager
def own_state(state: Path) -> Iterator[None]:
    """Lock the state directory: two agents with one would undo each other's work."""
    private.own_directory(state, passable=True)  # dnsmasq drops its privileges and reads files below
    _check_owner(state)
    with _locked(state):
        _check_format(state)
        yield


@contextlib.contextmanager
def _locked(state: Path) -> Iterator[None]:
    while True:
        with daemon_files.opened(state / LOCK, os.O_RDWR | os.O_CREAT) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AgentRuns(f"another agent runs with state_path={state}") from None
            if os.fstat(
                descriptor
            ).st_nlink:  # else a teardown has removed the file since: the next agent locks another
                yield  # closing the file releases the lock, as the kernel does for a killed agent
                return


def _check_owner(state: Path) -> None:
    """Neutron's state_path often belongs to the user neutron, and stays so: its services use it."""
    found = os.stat(state)
    if os.geteuid() == 0 and found.st_uid != 0:
        text = "state_path=%s belongs to %s, who can become root through it: give it to root, or set another directory"
        LOG.warning(text, state, _user_name(found.st_uid))


def _user_name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"uid {uid}"


def _check_format(state: Path) -> None:
    """Refuse a directory that a newer release has written; else note this release's format."""
    try:
        found = int(daemon_files.read(state / FORMAT, 64) or 0)
    except (OSError, ValueError):
        found = 0
    if found > STATE_FORMAT:
        raise RefusedToStart(
            f"state_path={state} was written by a newer release (format {found}, this release knows {STATE_FORMAT}): "
            "run that release, or give this one an empty directory"
        )
    if found != STATE_FORMAT:
        daemon_files.write(state / FORMAT, f"{STATE_FORMAT}\n", mode=0o644)
