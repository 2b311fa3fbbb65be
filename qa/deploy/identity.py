"""Keystone on the operator's machine, and tokens of its administrator."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab import keystone
from qa.deploy.machines import OPERATOR, wait_for

PORT = 5000


@dataclass(frozen=True)
class Identity:
    url: str
    passwords: keystone.Passwords

    def account(self, user: str, project: str) -> dict[str, str]:
        """The credentials of a user as the inventory has them."""
        return {
            "auth_url": self.url,
            "username": user,
            "password": self.passwords[user],
            "project_name": project,
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "region_name": keystone.REGION,
        }


@contextmanager
def running(work: Path, network_url: str) -> Iterator[Identity]:
    directory = work / "keystone"
    directory.mkdir(mode=0o700)
    passwords = keystone.write_passwords(directory / "passwords")
    url = f"http://{OPERATOR}:{PORT}/v3"
    environment = {**os.environ, **keystone.bootstrap_environment(url, passwords["admin"])}
    environment.pop("PYTHONPATH", None)
    with (work / "log" / "keystone").open("wb") as log:
        process = subprocess.Popen(
            [keystone.find_python(""), "-P", keystone.PROGRAM, keystone.write_config(directory), OPERATOR, str(PORT)],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for("Keystone", 300, lambda: process.poll() is not None or keystone.responds(url, passwords))
        keystone.set_up(url, network_url, passwords)
        yield Identity(url, passwords)
    finally:
        process.kill()
        process.wait(30)


class Tokens:
    """A valid token, for several threads."""

    def __init__(self, identity: Identity) -> None:
        self._source = keystone.token_source(identity.url, lambda: identity.passwords)
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            return self._source()
