"""An installation by packages: its configuration files, and the server's user."""

import os
import pwd
from collections.abc import Sequence

SERVER_FILE, AGENT_FILE = "/etc/neutrino/server.conf", "/etc/neutrino/agent.conf"


def default_files(given: Sequence[str], path: str) -> list[str]:
    """The configuration files of a command: the installed one if none is given, and there is one."""
    return list(given) or ([path] if os.path.isfile(path) else [])


def become_owner(directory: str) -> None:
    """Continue, if this is root, as the user of the server's directory.

    Files that root creates in it would stop the server.
    """
    try:
        owner = os.stat(directory)
    except OSError:
        return
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    try:
        os.initgroups(pwd.getpwuid(owner.st_uid).pw_name, owner.st_gid)
    except KeyError:  # no such user here, as with the volume of a container
        os.setgroups([])
    os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
    os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)
