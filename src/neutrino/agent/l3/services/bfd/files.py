"""The files by which agent and speaker talk: what is to be supervised, and what was found.

    DIRECTORY/wanted/ROUTER   by the agent: the sessions of a router
    DIRECTORY/states/ROUTER   by the speaker, with each change: their states
    DIRECTORY/news            a fifo: the speaker writes the id of a router whose states have changed

Files outlive both processes: a speaker that was killed continues with the wanted sessions, without an agent, and an agent
that was restarted knows at once which next hops are lost.
"""

import os
from pathlib import Path

import msgspec

from neutrino import daemon_files, private

FORMAT = "1"  # of the files. A running speaker of another format is restarted, one of another release is not.
WANTED, STATES, NEWS = "wanted", "states", "news"


class WantedSession(msgspec.Struct, frozen=True, order=True):
    device: str
    local: str
    peer: str


class WantedSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted sessions of one router."""

    namespace: str
    interval: int  # microseconds
    multiplier: int
    fails_over: bool = False  # the addresses may be on another host: then nothing may be sent here
    sessions: tuple[WantedSession, ...] = ()


class SessionState(msgspec.Struct, frozen=True, order=True):
    device: str
    local: str
    peer: str
    state: str  # lower case, as `up`
    was_up: bool = False
    is_lost: bool = False


_WANTED = msgspec.json.Decoder(WantedSessions)
_STATES = msgspec.json.Decoder(tuple[SessionState, ...])


def encode(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def read_wanted(path: Path) -> WantedSessions | None:
    """None if there is no such file. ValueError for one that is not readable as such."""
    text = daemon_files.read(path)
    return _WANTED.decode(text) if text is not None else None


def read_states(path: Path) -> tuple[SessionState, ...]:
    """Those that are known: a file that is missing or damaged has none."""
    try:
        return _STATES.decode(daemon_files.read(path) or "[]")
    except ValueError:
        return ()


def replace(path: Path, text: str) -> None:
    """Atomic: a reader gets the old text or the new one."""
    private.make_directory(path.parent)
    new = path.parent.with_name(f".{path.parent.name}.{path.name}.new")  # not in the directory, whose files are listed
    daemon_files.write(path, text, new=new)


def notify(directory: Path, router_id: str) -> None:
    """Tell the agent, if one is running, that the states of a router have changed."""
    try:
        fifo = os.open(directory / NEWS, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # no agent reads it, or has ever created it
        return
    try:
        os.write(fifo, f"{router_id}\n".encode())
    except BlockingIOError:  # full: the agent hangs, and looks at all routers later
        pass
    finally:
        os.close(fifo)
