"""Converts hosts of the lab by the playbook of deploy/ (`scripts/deploy takeover`), as an operator of many hosts does.

Ansible enters a host's namespaces where it would use SSH: its Python there is a script. `neutrino` is one too, which adds
the configuration files of the lab. Everything else is the playbook's.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from neutrino.lab.errors import LabError
from neutrino.lab.hosts.namespaces import host_command
from neutrino.lab.lab import NEUTRINO, Lab

PROGRAM = Path("build/deploy/venv/bin/ansible-playbook")
CONFIGURATION = Path("deploy/ansible.cfg")
SERVER = "server"
SECONDS = 600.0
TAIL = 4000  # characters of the output of a play that has failed


@dataclass(frozen=True)
class Playbook:
    lab: Lab
    directory: Path = field(init=False)

    def __post_init__(self) -> None:
        if not PROGRAM.exists():
            raise LabError(f"there is no {PROGRAM}: scripts/setup deploy")
        object.__setattr__(self, "directory", self.lab.paths.server / "playbook")
        self.directory.mkdir(exist_ok=True)
        hosts = {host: self._host(host) for host in self.lab.hosts}
        inventory = {
            "all": {
                "vars": {
                    "ansible_connection": "local",
                    "neutrino_auth_strategy": "noauth",
                    "neutrino_version": "of the lab",
                    "neutrino_command_environment": {},
                },
                "children": {
                    "neutrino_servers": {"hosts": {SERVER: self._server()}},
                    "neutrino_hosts": {"hosts": hosts},
                },
            }
        }
        (self.directory / "inventory.json").write_text(json.dumps(inventory, indent=1))

    def convert(self, host: str, *, back: bool) -> str:
        """Convert the host, or give it back; the output of the play."""
        extra = {"neutrino_chosen": host, "neutrino_back": back}
        inventory = str(self.directory / "inventory.json")
        words = [str(PROGRAM.absolute()), "-i", inventory, "-e", json.dumps(extra), "neutrino.cloud.takeover"]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(CONFIGURATION.absolute()),
            "ANSIBLE_HOME": str(self.directory / "home"),
            "ANSIBLE_NOCOLOR": "1",
        }
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            words, cwd="deploy", env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            raise LabError(f"ansible-playbook ended with {done.returncode}: {(done.stdout + done.stderr)[-TAIL:]}")
        return done.stdout

    def _host(self, host: str) -> dict[str, str]:
        files = [f"--config-file={file}" for file in self.lab.agent_config_files(host)]
        return {"ansible_python_interpreter": self._scripts(host, files, host_command(self.lab.holder(host), []))}

    def _server(self) -> dict[str, str]:
        files = [f"--config-file={self.lab.paths.server / 'neutrino.conf'}"]
        return {"ansible_python_interpreter": self._scripts(SERVER, files, [])}

    def _scripts(self, machine: str, files: list[str], enter: list[str]) -> str:
        """`neutrino` and Python of a machine; returns Python."""
        directory = self.directory / machine
        directory.mkdir(exist_ok=True)
        neutrino = (
            'case "$1" in\n'
            f'status) exec {shlex.join(NEUTRINO)} "$@" --endpoint {shlex.quote(self.lab.settings.url)} ;;\n'
            f'*) exec {shlex.join(NEUTRINO)} "$@" {shlex.join(files)} ;;\n'
            "esac\n"
        )
        python = f'PATH={shlex.quote(str(directory))}:$PATH exec {shlex.join([*enter, sys.executable])} "$@"\n'
        for name, text in (("neutrino", neutrino), ("python", python)):
            file = directory / name
            file.write_text(f"#!/bin/sh\n{text}")
            file.chmod(0o755)
        return str(directory / "python")
