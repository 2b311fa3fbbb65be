"""Builds the BGP role from the configuration."""

import logging
import os
import pwd
import stat
from pathlib import Path

from oslo_config import cfg

from neutrino.agent.bgp.bgpd import Bgpd
from neutrino.agent.bgp.config import router_id
from neutrino.agent.bgp.render import Settings
from neutrino.agent.bgp.role import BgpRole
from neutrino.agent.runtime.context import RoleContext
from neutrino.dataplane.process.real import RealProcesses
from neutrino.errors import RefusedToStart
from neutrino.model import agents

LOG = logging.getLogger(__name__)
DIRECTORY = "bgp"  # below the state path


def build(context: RoleContext) -> BgpRole:
    conf = context.conf
    directory = os.path.join(os.path.abspath(conf.state_path), DIRECTORY)
    return BgpRole(
        context.feed,
        Bgpd(directory, conf.bgp.bgpd, bgpd_user(conf.bgp.bgpd_user, directory)),
        RealProcesses(conf.state_path),
        Settings(router_id(conf), conf.bgp.connect_retry),
        describe(conf),
        repair=lambda: context.intervals.repair,
        child_action=conf.agent.check_child_processes_action,
        report_soon=context.report_soon,
    )


def bgpd_user(name: str, directory: str) -> str:
    """The user of bgpd; empty: the agent's own, if that is not root, or bgpd could not read its files as another one."""
    if os.geteuid() != 0 or name in ("", "root"):
        return ""
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise RefusedToStart(f"[bgp] bgpd_user={name}: there is no such user") from None
    for path in Path(directory).parents:
        if path.exists() and not path.stat().st_mode & stat.S_IXOTH:
            LOG.warning("%s is closed to other users: bgpd runs as root, or it could not read its files", path)
            return ""
    return name


def describe(conf: cfg.ConfigOpts) -> agents.AgentState:
    configurations = {
        "bgp_speaker_driver": "frr",
        "bgp_router_id": router_id(conf),
        agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
    }
    return agents.AgentState(
        agents.BGP, "neutron-bgp-dragent", conf.host, "bgp_dragent", conf.agent.availability_zone, configurations
    )
