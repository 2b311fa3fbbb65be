"""The channel between `neutrino takeover host` and the agent of this host: a Unix socket that only root can open.

The command sends one line, `{"action": "convert"}`; the agent answers with lines, `{"text": …}` while it works, and at the
end `{"status": 0, "text": …}`, the status that the command exits with. The work goes on if the command is interrupted.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from neutrino import private
from neutrino.agent.takeover.phase import directory
from neutrino.feed.address import short_path

SOCKET: Final = "control.sock"
DONE, REFUSED, UNREACHABLE = 0, 1, 3
CHECK, DRY_RUN, COMPARE, CONVERT, BACK = "check", "dry-run", "compare", "convert", "back"
_MOST = 1 << 16  # bytes of a line
_LAST_SECONDS = 2.0


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    action: str
    stop_agents: bool = False  # of Neutron, before a conversion


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str = ""
    status: int | None = None  # None: the work goes on
    given_back: bool = False  # a conversion has failed, and the host is Neutron's again


class NotRunning(Exception):
    """The agent of this host cannot be reached."""


Handler = Callable[[Request, Callable[[str], None]], Awaitable[Answer]]
"""Does what a request names; its texts on the way are for the operator."""


def path_of(state_path: str | Path) -> Path:
    return directory(state_path) / SOCKET


@contextlib.asynccontextmanager
async def serving(state_path: str | Path, handler: Handler) -> AsyncIterator[None]:
    """Answer commands. The directory belongs to root and is closed for others, so the socket is as well."""
    path = path_of(state_path)
    private.own_directory(path.parent)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with short_path(str(path)) as short:
            listener.bind(short)
        os.chmod(path, 0o600)

        answering = set[asyncio.Task[None]]()

        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(_serve(reader, writer, handler))
            answering.add(task)
            task.add_done_callback(answering.discard)

        server = await asyncio.start_unix_server(serve, sock=listener, limit=_MOST)
        try:
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)
            if answering:  # the last lines of a command that is answered
                await asyncio.wait(answering, timeout=_LAST_SECONDS)
            for task in answering:
                task.cancel()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler) -> None:
    def send(answer: Answer) -> None:
        if not writer.is_closing():
            writer.write(msgspec.json.encode(answer) + b"\n")

    try:
        request = msgspec.json.decode(await reader.readline(), type=Request)
        send(await handler(request, lambda text: send(Answer(text))))
    except (msgspec.MsgspecError, ValueError, OSError) as error:
        send(Answer(f"the request cannot be read: {error}", REFUSED))
    finally:
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()


def ask(state_path: str | Path, request: Request) -> Iterator[Answer]:
    """The answers of the agent that runs with this state path; the last one has a status. Blocking, for the command."""
    path = path_of(state_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            with short_path(str(path)) as short:
                connection.connect(short)
        except OSError as error:
            raise NotRunning(f"no agent answers at {path}: {error.strerror}") from None
        connection.sendall(msgspec.json.encode(request) + b"\n")
        with connection.makefile("rb") as lines:
            for line in lines:
                yield msgspec.json.decode(line, type=Answer)
