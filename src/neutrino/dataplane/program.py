"""Runs the programs through which drivers change a host: nft, iptables, ipset, conntrack, ovs-ofctl, vtysh, systemctl."""

import os
import pwd
import subprocess
from collections.abc import Sequence

_TIMEOUT = 60.0  # a program that hangs must not block its worker for ever
_MAX_OUTPUT = 64 << 20  # bytes, of a program of another user


class ProgramError(Exception):
    """A program is missing, hangs or failed; the text is its error output where it has any."""


def run_program(command: Sequence[str], text: str = "", timeout: float = _TIMEOUT) -> str:
    """The output of a program with `text` as its input. It runs in the network namespace of the calling thread."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise ProgramError(done.stderr.strip() or f"{command[0]} exited with status {done.returncode}")
    return done.stdout


def run_as(user: pwd.struct_passwd, command: Sequence[str], limit: int = _MAX_OUTPUT) -> str:
    """The output of a program that runs as another user.

    At most `limit` bytes: what it prints may come from a daemon of that user, which was broken into and sends without end.
    """
    with open(os.memfd_create("output"), "rb") as output, open(os.memfd_create("errors"), "rb") as errors:
        try:
            process = subprocess.Popen(
                ["prlimit", f"--fsize={limit}", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                user=user.pw_uid,
                group=user.pw_gid,
                extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
            )
        except OSError as error:
            raise ProgramError(f"{command[0]}: {error}") from error
        with process:
            try:
                status = process.wait(_TIMEOUT)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise ProgramError(f"{command[0]}: {error}") from error
        if os.fstat(output.fileno()).st_size >= limit:
            raise ProgramError(f"{command[0]} prints more than {limit} bytes")
        if status != 0:
            text = os.pread(errors.fileno(), 4096, 0).decode(errors="replace").strip()
            raise ProgramError(text or f"{command[0]} exited with status {status}")
        return os.pread(output.fileno(), limit, 0).decode(errors="replace")
