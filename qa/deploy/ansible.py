"""Runs the playbooks of deploy/ as an operator does, over SSH."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qa.deploy.machines import Failed, Machine, command

PLAYBOOK = "build/deploy/venv/bin/ansible-playbook"
PLAY_SECONDS = 3600.0
RECAP = re.compile(r"^(\S+)\s*: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    seconds: float
    changed: Mapping[str, int]  # tasks by machine


@dataclass(eq=False)
class Operator:
    """An operator with an SSH key, an inventory, and a checkout of the project."""

    work: Path
    groups: dict[str, dict[str, dict[str, object]]]  # names of machines with their variables, by group
    variables: dict[str, object]
    _runs: int = field(default=0)

    def make_key(self) -> None:
        command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.work / "key"))

    def admit(self, machine: Machine) -> None:
        """Let the machine accept the operator's key, before it starts."""
        machine.write("/root/.ssh/authorized_keys", (self.work / "key.pub").read_text(), 0o600)
        machine.file("/root").chmod(0o700)
        machine.file("/root/.ssh").chmod(0o700)

    def play(self, name: str, *arguments: str, fails: bool = False, **extra: object) -> Outcome:
        """Run a playbook. `fails`: it has to fail."""
        self._runs += 1
        inventory = self.work / "inventory.json"
        inventory.write_text(self._inventory())
        inventory.chmod(0o600)
        more = self.work / "extra.json"
        more.write_text(json.dumps(extra))
        log = self.work / "log" / f"{self._runs:02d}-{name}"
        words = [
            str(Path(PLAYBOOK).absolute()),
            "-i",
            str(inventory),
            "-e",
            f"@{more}",
            f"neutrino.cloud.{name}",
            *arguments,
        ]
        began = time.monotonic()
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(Path("deploy/ansible.cfg").absolute()),
            "ANSIBLE_HOME": str(self.work / "ansible"),
            # Sockets of kept connections are named by address, which another run on this machine has too: it would get
            # our machines.
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.work / "cp"),
            "ANSIBLE_NOCOLOR": "1",
            "PROFILE_TASKS_TASK_OUTPUT_LIMIT": "20",
        }
        with log.open("w") as file:
            done = subprocess.run(
                words, cwd="deploy", env=environment, stdout=file, stderr=file, timeout=PLAY_SECONDS, check=False
            )
        text = log.read_text()
        if (done.returncode != 0) != fails:
            raise Failed(f"ansible-playbook neutrino.cloud.{name} ended with {done.returncode}: {log}\n{text[-6000:]}")
        changed = {found[1]: int(found[3]) for found in RECAP.finditer(text)}
        return Outcome(time.monotonic() - began, changed)

    def _inventory(self) -> str:
        ssh = f"-o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={self.work}/known_hosts"
        common = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.work / "key"),
            "ansible_ssh_common_args": ssh,
        }
        children = {group: {"hosts": hosts} for group, hosts in self.groups.items()}
        children["neutrino_hosts"] = {"children": {"neutrino_network_hosts": {}, "neutrino_compute_hosts": {}}}
        return json.dumps({"all": {"vars": {**common, **self.variables}, "children": children}}, indent=1)
