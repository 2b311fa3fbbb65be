"""Composes the SR-IOV role from the configuration."""

from oslo_config import cfg

from neutrino.agent import resource_providers
from neutrino.agent.runtime.context import RoleContext
from neutrino.agent.sriov.config import FDB_GROUP, GROUP, SriovOptions, sriov_options
from neutrino.agent.sriov.reconciler import Reconciler
from neutrino.agent.sriov.record import RecordFile
from neutrino.agent.sriov.role import SriovRole
from neutrino.agent.sriov.teardown import CardTeardown
from neutrino.dataplane.sriov.real import RealSriov
from neutrino.model import agents


def build(context: RoleContext) -> SriovRole:
    conf = context.conf
    options = sriov_options(conf)
    return SriovRole(
        context.feed,
        Reconciler(RealSriov(), RecordFile(conf.state_path), options),
        describe(conf, options),
        intervals=context.intervals,
        report_soon=context.report_soon,
    )


def describe(conf: cfg.ConfigOpts, options: SriovOptions) -> agents.AgentState:
    """The agent as the API shows it."""
    shared = conf[FDB_GROUP].shared_physical_device_mappings
    configurations = {
        agents.DEVICE_MAPPINGS: {network: list(devices) for network, devices in options.mappings.items()},
        agents.EXTENSIONS: ["qos", *(["fdb"] if shared else [])],
        agents.LOG_AGENT_HEARTBEATS: conf.agent.log_agent_heartbeats,
        **resource_providers.of_devices(conf, GROUP, options.devices),
    }
    return agents.AgentState(
        agents.NIC_SWITCH,
        "neutron-sriov-nic-agent",
        conf.host,
        "N/A",
        configurations=configurations,
        resource_versions=dict(agents.RESOURCE_VERSIONS),
    )


def card_teardown(conf: cfg.ConfigOpts) -> CardTeardown:
    """What gives back the functions that this agent has set: those of instances lose their link."""
    return CardTeardown(RealSriov(), RecordFile(conf.state_path), sriov_options(conf))
