"""The steps of a takeover of the lab's Neutron, as an operator does them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from neutrino.agent.takeover.control import path_of
from neutrino.lab import build
from neutrino.lab.api_client import ApiClient, ApiError
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts import processes
from neutrino.lab.hosts.namespaces import run
from neutrino.lab.lab import NEUTRINO
from neutrino.model.objects import Object
from neutrino.takeover import verification
from neutrino.takeover.families import collections
from neutrino.takeover.verification import Verification
from qa.takeover.lab.configuration import AGENTS
from qa.takeover.lab.neutron_lab import NeutronLab
from qa.takeover.lab.table import Phase
from qa.takeover.playbook import Playbook

METADATA = "neutron-metadata-agent"  # runs on: haproxy needs it until it is replaced, and again on the way back
CONVERTED = tuple(program for program in AGENTS if program != METADATA)
SAMPLE = 100  # objects of a collection whose parts are compared
STOP_SECONDS = 10.0
MIXED_SECONDS = 5.0  # after each host: traffic between converted and unconverted hosts
HELD_SECONDS = 60.0
# As Neutron has it: routers whose hosts advertise with different intervals would have two active ones.
AGENT = """[DEFAULT]
ha_vrrp_advert_int = 2
[securitygroup]
firewall_driver = {firewall_driver}
"""


@dataclass(frozen=True)
class Reader:
    """Reads whole collections: the lab's are small."""

    api: ApiClient

    def page(self, path: str, key: str, marker: str | None = None) -> list[Object] | None:
        if marker is not None:
            return []
        try:
            objects: list[Object] = self.api.request("GET", f"/v2.0/{path}")[key]
        except ApiError as error:
            if error.status in (400, 403, 404):  # not served
                return None
            raise
        return objects


@dataclass
class Takeover:
    neutron: NeutronLab
    phases: list[Phase] = field(default_factory=list)
    playbook: Playbook | None = None  # converts hosts, instead of the command

    @contextmanager
    def phase(self, name: str, *, of_neutron: bool = False) -> Iterator[None]:
        """A part of the run, for the table; `of_neutron`: Neutron's agents are started in it."""
        started = time.monotonic()
        self.neutron.output(name)
        try:
            yield
        finally:
            ended = time.monotonic()
            self.phases.append(Phase(f"{name} ({ended - started:.1f} s)", started, ended, of_neutron))

    def command(self, *arguments: str) -> str:
        """`neutrino takeover` with the configuration of our server."""
        configuration = self.neutron.lab.paths.server / "neutrino.conf"
        argv = [*NEUTRINO, "takeover", *arguments, "--config-file", str(configuration)]
        environment = {**os.environ, "NEUTRON_DATABASE_URL": self.neutron.endpoints.database}
        return run(argv, env=environment, shown=f"neutrino takeover {' '.join(arguments)}").stdout

    def import_database(self, *arguments: str) -> str:
        return self.command("import", *arguments)

    def start_server(self) -> None:
        lab = self.neutron.lab
        if all((lab.paths.host(host) / "credential").exists() for host in lab.hosts):
            lab.spawn_server()  # an earlier run has registered the hosts
        else:
            build.start_server(lab)
        lab.wait_for_server()

    def verify(self) -> Verification:
        """Compare all objects of both servers, as `neutrino takeover verify` does."""
        theirs, ours = Reader(self.neutron.api), Reader(self.neutron.ours)
        return verification.verify("administrator", theirs, ours, collections(), SAMPLE)

    def stop_agents(self, host: str, programs: Sequence[str] = AGENTS) -> None:
        """Stop Neutron's agents of a host as a service manager does; what they have configured stays."""
        pids = [pid for program in programs if (pid := self.neutron.agent_pid(host, program)) is not None]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for pid in pids:
            if not processes.wait_for_end(pid, STOP_SECONDS):  # its threads wait for the broker
                os.kill(pid, signal.SIGKILL)

    def start_neutron_agents(self, host: str, programs: Sequence[str] = CONVERTED) -> None:
        for program in programs:
            self.neutron.start_agent(host, program)

    def start_agents(self) -> None:
        """Start our agent on every host: it is held there, and changes nothing before it is told to."""
        lab = self.neutron.lab
        for host in lab.hosts:
            configuration = lab.paths.host(host) / "agent.conf"
            text = configuration.read_text()
            options = AGENT.format(firewall_driver=self.neutron.shape.firewall_driver(host))
            if not text.endswith(options):
                configuration.write_text(text + options)
            lab.spawn_agent(host)
        for host in lab.hosts:
            control = path_of(lab.paths.host(host))
            wait_until(control.exists, HELD_SECONDS, f"the agent of {host} takes no commands")

    def convert(self, host: str, *arguments: str) -> None:
        """`neutrino takeover host` on the host; with `--back` it is given back to Neutron's agents."""
        lab = self.neutron.lab
        if self.playbook is not None:
            self.neutron.output(self.playbook.convert(host, back="--back" in arguments))
            return
        options = [f"--config-file={file}" for file in lab.agent_config_files(host)]
        done = lab.run(host, [*NEUTRINO, "takeover", "host", *arguments, *options], check=False)
        self.neutron.output(f"{host}: {(done.stdout + done.stderr).strip()}")
        if done.returncode:
            raise LabError(f"{host} is not converted")
