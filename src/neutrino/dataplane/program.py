"""Runs the programs through which drivers change a host: nft, iptables, ipset, conntrack, ovs-ofctl."""

import os
import pwd
import subprocess
from collections.abc import Sequence

_TIMEOUT = 60.0  # a program that hangs must not block its worker for ever


class ProgramError(Exception):
    """A program is missing, hangs or failed; the text is its error output where it has any."""


def run_program(command: Sequence[str], text: str = "", *, user: pwd.struct_passwd | None = None) -> str:
    """The output of a program with `text` as its input. It runs in the network namespace of the calling thread.

    `user`: that the program runs as; None: the agent's.
    """
    uid, gid, groups = (None, None, None) if user is None else (user.pw_uid, user.pw_gid, _groups(user))
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
            user=uid,
            group=gid,
            extra_groups=groups,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip() or f"{command[0]} exited with status {done.returncode}")
    return done.stdout


def _groups(user: pwd.struct_passwd) -> list[int]:
    return os.getgrouplist(user.pw_name, user.pw_gid)
