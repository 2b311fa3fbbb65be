"""A whole OpenStack on one machine: the controller and the compute hosts are network and mount namespaces.

    h1, h2         hosts of a lab (`neutrino.lab`): Open vSwitch, neutrino's agent; libvirt and nova-compute
    controller     the network namespace of the runner: databases, broker, API services, neutrino's server with the feed
    external       a machine on the external network, which reaches floating IPs

All of them have an address on the management network, a bridge in the controller's namespace. Everything that runs is a
process of the lab, so `down` ends all of it by pid, whatever state it is in, and removes the state directory.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import openstack

from neutrino.lab import build
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.namespaces import host_command
from neutrino.lab.hosts.processes import wait_for_end
from neutrino.lab.lab import NEUTRINO, SERVER, Lab
from neutrino.lab.settings import EXTERNAL, LabSettings

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "openstack"
VENV = WORK / "venv"
DRIVERS = ROOT / "build" / "drivers"
REGION = "RegionOne"
PASSWORD = "secret"  # of all users; the cloud is reachable from its own namespaces alone
CONTROLLER = "controller"
# The management network (TEST-NET-1): the controller is .1, the external machine .2, the host hN is .1N.
MANAGEMENT = "192.0.2"
ADDRESS = f"{MANAGEMENT}.1"
PORTS = {
    "mariadb": 3306,
    "rabbitmq": 5672,
    "keystone": 5000,
    "neutrino": 9696,
    "placement": 8778,
    "glance": 9292,
    "nova": 8774,
    "metadata": 8775,
}
METADATA_SECRET = "metadata-secret"
HTTP_SECONDS = 120.0
COMMAND_SECONDS = 300.0
STOP_SECONDS = 20.0
# libvirt and Nova identify a host by its name, which is in a namespace of its own (UTS).
WITH_HOSTNAME = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')
Say = Callable[[str], None]
Command = Sequence[str | Path]


class CloudLab(Lab):
    """The hosts of a cloud: each agent reads a file of its own after the common ones."""

    def host_configuration(self, host: str) -> Path:
        return self.paths.state / "etc" / f"agent-{host}.conf"

    def spawn_server(self) -> None:
        """With the drivers for Neutron of requirements-drivers.lock, which are none of the other services' packages."""
        if self.processes.pid(SERVER) is None:
            files = [self.paths.server / "neutrino.conf", *self.settings.server_config_files]
            options = [word for file in files for word in ("--config-file", str(file))]
            argv = ["env", f"PYTHONPATH={DRIVERS}", *NEUTRINO, "server", *options]
            self.processes.start_isolated(SERVER, argv)

    def agent_config_files(self, host: str) -> list[str | os.PathLike[str]]:
        files = super().agent_config_files(host)
        return [*files, self.host_configuration(host)]


class Cloud:
    """The processes, configuration files and clients of one cloud. Services are started by `qa.openstack.services`."""

    def __init__(self, state: Path, say: Say = lambda text: None, *, hosts: int = 2) -> None:
        etc = state.absolute() / "etc"
        settings = LabSettings(
            hosts=hosts,
            port=PORTS["neutrino"],
            server_config_files=(str(etc / "neutrino.conf"),),
            agent_config_files=(str(etc / "agent.conf"),),
        )
        self.lab = CloudLab(state, settings)
        self.state = self.lab.paths.state
        self.etc = etc
        self.say = say
        self.venv = VENV
        self.hosts = self.lab.hosts
        self.amqp_url = f"rabbit://openstack:{PASSWORD}@{ADDRESS}:{PORTS['rabbitmq']}/"
        self.auth_url = f"http://{ADDRESS}:{PORTS['keystone']}/v3"
        self._connections: dict[tuple[str, str], openstack.connection.Connection] = {}

    @property
    def started(self) -> list[str]:
        """Services that run, in the order in which they were started."""
        path = self.state / "started"
        return path.read_text().split() if path.exists() else []

    def add_started(self, service: str) -> None:
        (self.state / "started").write_text(" ".join([*self.started, service]))

    # --- files ----------------------------------------------------------------------------------------------------

    def directory(self, *names: str) -> Path:
        """A directory below the state directory."""
        path = self.state.joinpath(*names)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str) -> Path:
        """A configuration file below `etc`."""
        path = self.etc / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def log(self, process: str) -> Path:
        return self.lab.paths.log(process)

    # --- processes ------------------------------------------------------------------------------------------------

    def start(
        self, name: str, command: Command, environment: Mapping[str, str] | None = None, *, host: str = ""
    ) -> int:
        """Start a process on the controller, or on a host; its output is in the log of that name. Returns its pid."""
        argv = self._with_environment(command, environment, host)
        if host:
            return self.lab.processes.start(name, host_command(self.lab.holder(host), argv))
        return self.lab.processes.start_isolated(name, argv)

    def run(
        self,
        command: Command,
        environment: Mapping[str, str] | None = None,
        *,
        host: str = "",
        check: bool = True,
        seconds: float = COMMAND_SECONDS,
        text: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end on the controller, on a host, or on the external machine (`host="external"`)."""
        argv = self._with_environment(command, environment, host if host in self.hosts else "")
        if host:
            argv = host_command(self.lab.holder(host), argv)
        shown = shlex.join(str(word) for word in command)
        try:
            done = subprocess.run(
                argv,
                input=text or "",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
                env=dict(self.lab.processes.environment()),
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"{shown} did not end within {seconds:.0f} s") from None
        if check and done.returncode:
            output = (done.stderr + done.stdout).strip()[-2000:]
            raise LabError(f"{host or CONTROLLER}: {shown} failed with exit status {done.returncode}: {output}")
        return done

    def pid(self, name: str) -> int | None:
        return self.lab.processes.pid(name)

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM, seconds: float = STOP_SECONDS) -> None:
        """End a process that `start` started: by the signal, or by SIGKILL if it does not end in time."""
        pid = self.pid(name)
        for each in (number, signal.SIGKILL):
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, each)
            if wait_for_end(pid, seconds):
                return
        raise LabError(f"{name} (pid {pid}) does not end")

    def require(self, name: str) -> None:
        """LabError with the end of its log if a process has ended: waiting for it is pointless."""
        if self.pid(name) is None:
            raise LabError(f"{name} ended; end of {self.log(name)}:\n{self.lab.log_tail(name)}")

    def wait(self, ready: Callable[[], bool], what: str, *, process: str = "", seconds: float = HTTP_SECONDS) -> float:
        """Wait until `ready` holds; `process` must run meanwhile. Returns the seconds that it took."""

        def check() -> bool:
            if process:
                self.require(process)
            return ready()

        try:
            return wait_until(check, seconds, what)
        except LabError as error:
            tail = f"; end of {self.log(process)}:\n{self.lab.log_tail(process)}" if process else ""
            raise LabError(f"{error}{tail}") from None

    def wait_http(self, url: str, process: str = "", seconds: float = HTTP_SECONDS) -> float:
        """Wait until a URL answers, whatever the status."""

        def answers() -> bool:
            try:
                urllib.request.urlopen(url, timeout=10).close()
            except urllib.error.HTTPError:
                return True
            except (OSError, ValueError):
                return False
            return True

        return self.wait(answers, f"{url} does not answer", process=process, seconds=seconds)

    def wsgi(
        self,
        name: str,
        application: str,
        environment: Mapping[str, str] | None = None,
        *,
        workers: int = 1,
        port: int = 0,
    ) -> None:
        """Serve a WSGI application of the virtual environment on the controller's address, and wait until it answers."""
        bind = f"{ADDRESS}:{port or PORTS[name]}"
        settings = {
            "wsgi_app": application,
            "bind": bind,
            "worker_class": "gthread",
            "threads": 4,
            "workers": workers,
            "timeout": 600,
            "keepalive": 30,
            "control_socket_disable": True,
        }
        lines = "".join(f"{key} = {value!r}\n" for key, value in settings.items())
        # Not as arguments: the applications parse those of the process as their own.
        arguments = f"--config={self.write(f'gunicorn-{name}.py', lines)}"
        self.start(name, [self.program("gunicorn")], {"GUNICORN_CMD_ARGS": arguments, **(environment or {})})
        self.wait_http(f"http://{bind}/", name)

    def program(self, name: str) -> Path:
        """A program of the virtual environment."""
        return self.venv / "bin" / name

    def _with_environment(self, command: Command, environment: Mapping[str, str] | None, host: str) -> list[str]:
        # The virtual environment first: privsep-helper and the like are found by name. No settings of the caller's home.
        base = {
            "PATH": f"{self.venv}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.directory("home")),
            "PYTHONUNBUFFERED": "1",
        }
        values = [f"{key}={value}" for key, value in {**base, **(environment or {})}.items()]
        # A proxy of the environment is not for the addresses of a namespace.
        proxies = [word for name in os.environ if name.lower().endswith("_proxy") for word in ("-u", name)]
        argv = ["env", *proxies, *values, *(str(word) for word in command)]
        return [*WITH_HOSTNAME, host, *argv] if host else argv

    # --- databases, Keystone --------------------------------------------------------------------------------------

    def sql(self, statement: str, database: str = "") -> str:
        """The output of a statement: lines of values separated by tabs."""
        socket = self.state / "mariadb.sock"
        options = ["--no-defaults", "--user=root", f"--socket={socket}", "--batch", "--skip-column-names"]
        return self.run(["mariadb", *options, f"--execute={statement}", *([database] if database else [])]).stdout

    def database(self, name: str) -> str:
        """The SQLAlchemy URL of a database, which is created if it does not exist."""
        self.sql(f"CREATE DATABASE IF NOT EXISTS `{name}` CHARACTER SET utf8mb4")
        return f"mysql+pymysql://openstack:{PASSWORD}@{ADDRESS}:{PORTS['mariadb']}/{name}?charset=utf8mb4"

    def credentials(self, section: str, user: str, **more: str) -> str:
        """A section with the keystoneauth options of a user of the project `service`."""
        values = {
            "auth_type": "password",
            "auth_url": self.auth_url,
            "username": user,
            "password": PASSWORD,
            "project_name": "service",
            "user_domain_name": "Default",
            "project_domain_name": "Default",
            "region_name": REGION,
            **more,
        }
        return ini({section: values})

    def authtoken(self, user: str) -> str:
        """The section of keystonemiddleware."""
        more = {"www_authenticate_uri": self.auth_url, "service_token_roles_required": "true"}
        return self.credentials("keystone_authtoken", user, **more)

    def keystone_user(self, name: str, roles: Sequence[str] = ("service", "admin"), project: str = "service") -> None:
        """A user with these roles on a project; both are created if they do not exist."""
        identity = self.connect().identity
        found = identity.find_project(project) or identity.create_project(name=project, domain_id="default")
        user = identity.find_user(name) or identity.create_user(name=name, password=PASSWORD, domain_id="default")
        for role in roles:
            known = identity.find_role(role) or identity.create_role(name=role)
            identity.assign_project_role_to_user(found, user, known)

    def endpoint(self, name: str, kind: str, url: str) -> None:
        """A service in the catalog, with one URL for all interfaces."""
        identity = self.connect().identity
        service = identity.find_service(name) or identity.create_service(name=name, type=kind)
        known = {each.interface for each in identity.endpoints(service_id=service.id)}
        for interface in sorted({"public", "internal", "admin"} - known):
            identity.create_endpoint(service_id=service.id, interface=interface, url=url, region_id=REGION)
        for connection in self._connections.values():
            connection.session.invalidate()  # the catalog is part of the token

    # --- clients --------------------------------------------------------------------------------------------------

    def client_environment(self, user: str = "admin", project: str = "admin") -> dict[str, str]:
        return {
            "OS_AUTH_URL": self.auth_url,
            "OS_USERNAME": user,
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": project,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_REGION_NAME": REGION,
            "OS_IDENTITY_API_VERSION": "3",
            "OS_COMPUTE_API_VERSION": "2.95",
        }

    def connect(self, user: str = "admin", project: str = "admin") -> Any:
        """An openstacksdk connection (untyped: its proxies are)."""
        key = (user, project)
        if key not in self._connections:
            self._connections[key] = openstack.connect(
                load_yaml_config=False,
                load_envvars=False,
                auth_url=self.auth_url,
                username=user,
                password=PASSWORD,
                project_name=project,
                user_domain_id="default",
                project_domain_id="default",
                region_name=REGION,
                compute_api_version="2.95",
                app_name="neutrino-tests",
            )
        return self._connections[key]

    def openstack(self, *arguments: str, user: str = "admin", project: str = "admin") -> str:
        """The output of the openstack command."""
        return self.run([self.program("openstack"), *arguments], self.client_environment(user, project)).stdout

    # --- the end --------------------------------------------------------------------------------------------------

    def down(self, keep_logs: Path | None = None) -> None:
        """End every process of the cloud, and remove its directory; logs and configuration are kept in `keep_logs`."""
        if keep_logs is not None and self.lab.paths.logs.exists():
            shutil.rmtree(keep_logs, ignore_errors=True)
            shutil.copytree(self.lab.paths.logs, keep_logs)
            shutil.copytree(self.etc, keep_logs / "etc", dirs_exist_ok=True)
        build.down(self.state, self.say)


def ini(sections: Mapping[str, Mapping[str, object]]) -> str:
    """The text of a configuration file."""
    lines = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {value}" for key, value in values.items()), ""]
    return "\n".join(lines)


def progress(started: float | None = None) -> Say:
    """Prints lines with the seconds since the start."""
    began = time.monotonic() if started is None else started

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    return say


__all__ = ["ADDRESS", "EXTERNAL", "Cloud", "ini", "progress"]
