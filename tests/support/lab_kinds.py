"""The labs that modules of `tests/lab` share, and which modules share one.

The modules of a unit run one after the other in one worker and have one lab, which is started by the first of them and
stopped after the last. A unit takes four minutes at most, so that workers end at about the same time: two units may have
a lab of the same kind. Modules that are not named here declare a lab of their own: `LAB`.
"""

from __future__ import annotations

from dataclasses import dataclass

from neutrino.model.roles import USUAL


@dataclass(frozen=True)
class LabKind:
    """The settings of a lab: `agent` and `server` are further configuration of all agents and of the server."""

    hosts: int
    roles: tuple[str, ...]
    central: int = 2  # the first hosts have agent_mode dvr_snat, the others dvr
    agent: str = ""
    server: str = ""


# Agents compare the number of flows of every bridge so often: modules that test it set another interval.
_SELDOM = "[agent]\ncheck_interval = 60\n"
_QUICK_ROUTERS = """
[DEFAULT]
min_rtr_adv_interval = 3
max_rtr_adv_interval = 4
measure_interval = 1
report_interval = 1
bfd_interval = 300
[agent]
check_interval = 60
repair_interval = 15
"""
_CENTRALIZED = "[DEFAULT]\nagent_mode = legacy\n[agent]\nenable_distributed_routing = false\n"

L2 = LabKind(hosts=3, roles=("l2",), agent=_SELDOM)
CENTRALIZED = LabKind(hosts=3, roles=("l2", "l3"), agent=_QUICK_ROUTERS + _CENTRALIZED)
ROUTERS = LabKind(hosts=2, roles=("l2", "l3"), agent=_QUICK_ROUTERS)  # of all kinds, on both hosts
DISTRIBUTED = LabKind(hosts=3, roles=("l2", "l3"), agent=_QUICK_ROUTERS)  # h3 has no SNAT
SINGLE = LabKind(hosts=1, roles=USUAL, agent="[agent]\nreport_interval = 1\ncheck_interval = 0.5\n")


@dataclass(frozen=True)
class Unit:
    kind: LabKind
    modules: tuple[str, ...]


UNITS = {
    "l2 packets": Unit(L2, ("connectivity", "spoofing", "l2population", "security_groups", "default_rules", "trunks")),
    "l2 features": Unit(
        L2, ("qos", "tap_services", "logging", "local_ips", "hybrid", "port_changes", "live_migration")
    ),
    "l2 operation": Unit(L2, ("trace_hosts", "doctor", "backup", "takeover_host", "taken_over", "taken_over_hybrid")),
    "routers": Unit(ROUTERS, ("address_scopes", "ndp_proxy", "metering")),
    "routers outside": Unit(ROUTERS, ("router_gateways", "prefix_delegation", "vpn_kinds")),
    "centralized": Unit(CENTRALIZED, ("routers", "chosen_router", "agent_options")),
    "centralized failover": Unit(CENTRALIZED, ("ha_routers", "ha_connections", "trace_answers", "vpn")),
    "distributed": Unit(DISTRIBUTED, ("dvr", "qos_routers", "router_kinds")),
    "distributed failover": Unit(DISTRIBUTED, ("dvr_ha", "dvr_ha_connections", "firewall_groups")),
    "all roles": Unit(SINGLE, ("metadata", "metrics")),
}
_BY_MODULE = {module: name for name, unit in UNITS.items() for module in unit.modules}


def unit_of_module(path: str) -> str | None:
    """The unit of `tests/lab/test_NAME.py`, if it shares a lab."""
    directory, _, name = path.rpartition("/")
    return _BY_MODULE.get(name.removeprefix("test_").removesuffix(".py")) if directory.endswith("tests/lab") else None


def kind_of_module(path: str) -> LabKind | None:
    unit = unit_of_module(path)
    return UNITS[unit].kind if unit is not None else None
