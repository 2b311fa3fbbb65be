"""Whether the program's user can use files: root may read everything, and the server does not run as root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from neutrino.cli.doctor.subject import SERVER, Subject

READ: Final = ("-r",)
CHANGE: Final = ("-r", "-w")
USE: Final = ("-r", "-w", "-x")  # of a directory
SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Account:
    """A user, examined by root."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]

    def may(self, path: str, operators: tuple[str, ...]) -> bool:
        """Try it with a program of that user: directories above, groups and ACLs count, which the file's mode lacks."""
        words = [word for operator in operators for word in ("-a", operator, path)][1:]
        done = subprocess.run(
            ["test", *words], user=self.uid, group=self.gid, extra_groups=self.groups, cwd="/", timeout=SECONDS
        )
        return done.returncode == 0


def program_account(subject: Subject) -> Account | None:
    """Return the server's user (owner of state_path) if this is root and the server is not; None: this process's user."""
    owner = _owner(subject.state_path)
    if subject.role != SERVER or os.geteuid() != 0 or owner is None or owner[0] == 0:
        return None
    uid, gid = owner
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(f"{uid}", uid, gid, (gid,))
    return Account(entry.pw_name, uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def wrong_user(subject: Subject) -> str:
    """Return why this user cannot examine the files of a server; empty if it can."""
    if subject.role != SERVER or os.geteuid() == 0:
        return ""
    try:
        path = subject.state_path
        owner = _owner(path)
    except Exception:  # the check of the configuration states it
        return ""
    if owner is None or owner[0] == os.geteuid() or os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return ""
    return f"state_path = {path} belongs to user {_name(owner[0])}, and this is user {_name(os.geteuid())}"


def _owner(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_uid, status.st_gid


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
