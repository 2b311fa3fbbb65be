"""Builds the metadata role from the configuration."""

import grp
import os
import pwd
import sys
from pathlib import Path

from oslo_config import cfg

from neutrino import private
from neutrino.agent.dhcp.config import DhcpSettings
from neutrino.agent.metadata.haproxy import NeutronProxies
from neutrino.agent.metadata.messages import ProxySettings, RateLimit, Timeouts
from neutrino.agent.metadata.role import MetadataOptions, MetadataRole
from neutrino.agent.metadata.sockets import NamespaceSockets
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.runtime.options import read_settings
from neutrino.agent.runtime.supervisor import Supervisor
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import Daemon
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses
from neutrino.errors import RefusedToStart
from neutrino.model import agents

NAME = "metadata"
MONITOR_FILE = "neutrino-metadata"
NOBODY = "nobody"


def build(context: RoleContext) -> MetadataRole:
    conf, namespaces = context.conf, Namespaces()
    processes = RealProcesses(conf.state_path, namespaces)
    return MetadataRole(
        context.feed,
        read_options(conf),
        daemon(conf),
        Supervisor(processes, action=conf.agent.check_child_processes_action),
        NamespaceSockets(namespaces, conf.metadata_backlog),
        NeutronProxies(RealForeignProcesses(namespaces)),
        describe(conf),
        context.report_soon,
    )


def read_options(conf: cfg.ConfigOpts) -> MetadataOptions:
    return MetadataOptions(
        socket=os.path.abspath(conf.metadata_proxy_socket),
        metadata_port=conf.metadata_port if conf.enable_metadata_proxy else 0,
        dhcp=read_settings(DhcpSettings, conf, host=conf.host),
        settings=proxy_settings(conf),
    )


def daemon(conf: cfg.ConfigOpts) -> Daemon:
    uid, gid = user_and_group(conf.metadata_proxy_user, conf.metadata_proxy_group)
    socket = Path(conf.metadata_proxy_socket).absolute()
    state = Path(conf.state_path).absolute()
    for directory in (socket.parent, state):  # the proxy opens files here before it drops its privileges
        private.make_directory(directory, passable=True)
    logs = Path(conf.log_dir).absolute() if conf.log_dir else state  # beside the agent's own log
    logs.mkdir(parents=True, exist_ok=True)
    monitor = []
    if conf.monitor_file_dir:
        Path(conf.monitor_file_dir).mkdir(parents=True, exist_ok=True)
        monitor = ["--monitor-file", str(Path(conf.monitor_file_dir).absolute() / MONITOR_FILE)]
        monitor += ["--monitor-interval", str(conf.monitor_file_interval)]
    # Only where they are set: a proxy with another command line than the running one would be restarted.
    log = [*(["--log-json"] if conf.use_json else []), *(["--debug"] if conf.debug else [])]
    return Daemon(
        name=NAME,
        argv=(
            *(sys.executable, "-m", "neutrino.cli.main", "metadata", "--socket", str(socket)),
            *("--user", str(uid), "--group", str(gid), *monitor, *log),
        ),
        pid_file=str(state / "metadata.pid"),
        log_file=str(logs / "metadata.log"),
    )


def user_and_group(user: str, group: str) -> tuple[int, int]:
    """The user and group of the proxy; by default nobody, or the agent's own user if that is not root."""
    if not user:
        found = pwd.getpwnam(NOBODY) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    else:
        try:
            found = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
        except KeyError:
            raise RefusedToStart(f"metadata_proxy_user={user}: there is no such user") from None
    if not group:
        return found.pw_uid, found.pw_gid
    try:
        return found.pw_uid, int(group) if group.isdecimal() else grp.getgrnam(group).gr_gid
    except KeyError:
        raise RefusedToStart(f"metadata_proxy_group={group}: there is no such group") from None


def proxy_settings(conf: cfg.ConfigOpts) -> ProxySettings:
    tls = conf.nova_metadata_protocol == "https"
    # Read here and sent to the proxy, whose unprivileged user may not read these files.
    certificate = ""
    if tls and conf.nova_client_cert:
        certificate = _read(conf, "nova_client_cert") + _read(conf, "nova_client_priv_key")
    return read_settings(
        ProxySettings,
        conf,
        ca=_read(conf, "auth_ca_cert") if tls and conf.auth_ca_cert else "",
        certificate=certificate,
        timeouts=read_settings(Timeouts, conf.metadata_haproxy),
        limit=read_settings(RateLimit, conf.metadata_rate_limiting),
    )


def _read(conf: cfg.ConfigOpts, option: str) -> str:
    path = conf[option]
    if not path:
        raise RefusedToStart(f"{option} is not set")
    try:
        return Path(path).read_text().rstrip("\n") + "\n"  # certificate and key are joined: each ends with a line break
    except OSError as error:
        raise RefusedToStart(f"{option}={path}: {error.strerror}") from None


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    configurations = {
        "metadata_proxy_socket": conf.metadata_proxy_socket,
        "nova_metadata_host": conf.nova_metadata_host,
        "nova_metadata_port": conf.nova_metadata_port,
        agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
    }
    return agents.AgentState(agents.METADATA, "neutron-metadata-agent", conf.host, "N/A", configurations=configurations)
