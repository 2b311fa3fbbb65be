"""Run a command in new namespaces. A script for a bare interpreter: it imports the standard library only.

    isolate.py --mark TEXT --at DIR --ready FD [--host STATE] [--title NAME] COMMAND...

The new mount namespace has a tmpfs at DIR whose source is TEXT: the mark by which a lab finds its processes, inherited by
every child process whatever it does to its environment. With --host the command also gets a network namespace and a /run
of its own, so that named network namespaces, Open vSwitch's sockets and pid files are separate per host. STATE is the
lab's directory, which stays visible if it is below /run.

Errors are written to FD, which is closed with nothing written when the command starts.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import sys

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
RUN = "/run"

libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def _mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    names = (source.encode(), target.encode(), kind.encode())
    _check(libc.mount(*names, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def _mount_run(state: str) -> None:
    """Mount a tmpfs over /run, and the lab's directory back into it if it is below."""
    inside = os.path.realpath(state).startswith(f"{os.path.realpath(RUN)}/")
    directory = os.open(state, os.O_PATH | os.O_DIRECTORY)  # before the tmpfs hides it
    _mount("run", RUN, "tmpfs", 0, "mode=755")
    if inside:
        os.makedirs(state)
        _mount(f"/proc/self/fd/{directory}", state, "none", MS_BIND)
    os.close(directory)
    for name in ("netns", "openvswitch", "lock"):
        os.mkdir(f"{RUN}/{name}")


def _isolate(mark: str, at: str, host: str | None) -> None:
    _check(libc.unshare(CLONE_NEWNS | (CLONE_NEWNET if host else 0)), "unshare")
    _mount("none", "/", "none", MS_REC | MS_PRIVATE)  # else these mounts would propagate to the machine
    if host:
        _mount("sysfs", "/sys", "sysfs")  # shows the network devices of the namespace in which it is mounted
        _mount_run(host)
    _mount(mark, at, "tmpfs", 0, "size=4k,mode=500")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mark", required=True)
    parser.add_argument("--at", required=True)
    parser.add_argument("--ready", type=int, required=True)
    parser.add_argument("--host")
    parser.add_argument("--title", help="the command's name in `ps`")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    fcntl.fcntl(args.ready, fcntl.F_SETFD, fcntl.FD_CLOEXEC)  # exec closes it: the parent reads end of file
    try:
        _isolate(args.mark, args.at, args.host)
        program, *arguments = args.command
        os.execvp(program, [args.title or program, *arguments])
    except OSError as error:
        os.write(args.ready, str(error).encode())
        sys.exit(1)


if __name__ == "__main__":
    main()
