"""Checks of the configuration: values that refuse the start, unknown options, and options that contradict each other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oslo_config import cfg

from neutrino.cli.doctor.subject import SERVER, Subject
from neutrino.cli.errors import one_line
from neutrino.configuration import findings
from neutrino.configuration.options import Configuration
from neutrino.diagnosis import machine_problems
from neutrino.diagnosis.problems import Finding
from neutrino.errors import OperatorError
from neutrino.logs import quiet

if TYPE_CHECKING:  # a host needs no part of the server
    from neutrino.server.policy.files import Fault


def configuration(subject: Subject) -> Iterator[Finding]:
    """Read and load the configuration as a start does. Nothing is opened."""
    is_server = subject.role == SERVER
    try:
        conf = subject.conf
        with quiet():
            faults = _load_server(conf) if is_server else _load_agent(conf)
    except (OperatorError, cfg.Error, ValueError, OSError, ImportError) as error:
        yield machine_problems.CONFIGURATION_INVALID(f"{', '.join(subject.files)}: {one_line(error)}")
        return
    for fault in faults:
        yield (machine_problems.POLICY_INVALID if fault.refuses else machine_problems.POLICY_WITHOUT_EFFECT)(str(fault))
    if any(fault.refuses and not fault.rule for fault in faults):
        return  # the server is not assembled, so options of its plugins are not known
    program = findings.SERVER if is_server else findings.AGENT
    values, known = conf.given, conf.registered
    result = findings.compare(values, known, findings.names_of(_others(subject)), program)
    for (section, name), hint in sorted(result.unknown.items()):
        yield machine_problems.OPTION_UNKNOWN(
            f"[{section}] {name} is not an option of the {program}{f': {hint}' if hint else ''}"
        )
    for (section, name), reason in sorted(result.without_effect.items()):
        yield machine_problems.OPTION_WITHOUT_EFFECT(f"[{section}] {name}: {reason}")
    for section, name in result.overridden:
        yield machine_problems.OPTIONS_CONTRADICT(
            f"[{section}] {name} is in several files with different values: the last is used"
        )
    for text in (server_contradictions if is_server else agent_contradictions)(conf):
        yield machine_problems.OPTIONS_CONTRADICT(text)


def _load_server(conf: Configuration) -> "tuple[Fault, ...]":
    """Load plugins and drivers, which register their options; return what is wrong in the policy files."""
    from neutrino.cli.policy import faults_of
    from neutrino.server import config
    from neutrino.server.feed.connections.listeners import addresses

    config.check_values(conf)
    addresses(conf)
    return faults_of(conf)


def _load_agent(conf: Configuration) -> "tuple[Fault, ...]":
    from neutrino.agent import config
    from neutrino.agent.dhcp.extension_api import GROUP as dhcp_group
    from neutrino.agent.l2 import build as l2
    from neutrino.agent.l3.extension_api import GROUP as l3_group

    config.values(conf)
    config.check(conf)
    l2.load(conf)
    config.load_extensions(dhcp_group, conf.dhcp_extensions, conf)
    config.load_extensions(l3_group, conf.l3_extensions, conf)
    return ()


def _others(subject: Subject) -> findings.Groups:
    """Return the options of the other program: its files are often given to both."""
    if subject.role == SERVER:
        from neutrino.agent.config import GROUPS

        return GROUPS
    from neutrino.server.config import OPTIONS

    return OPTIONS.items()


def server_contradictions(conf: Configuration) -> Iterator[str]:
    if not conf.use_ssl and (conf.ssl.cert_file or conf.ssl.key_file):
        yield "[ssl] cert_file and key_file are set, and use_ssl is off: the API is served without TLS"
    if conf.feed.tls_key_file and not conf.feed.tls_cert_file:
        yield "[feed] tls_key_file is set without tls_cert_file: the feed is served without TLS"
    if conf.feed.heartbeat_timeout < conf.feed.heartbeat:
        yield "[feed] heartbeat_timeout is shorter than heartbeat: idle hosts may be disconnected"
    if conf.auth_strategy == "noauth" and any(section == "keystone_authtoken" for section, _ in conf.given):
        yield "auth_strategy = noauth, and [keystone_authtoken] is configured: tokens are not checked"
    missing = [name for name in conf.ml2.project_network_types if name not in conf.ml2.type_drivers]
    if missing:
        yield f"[ml2] project_network_types has {', '.join(missing)}, and type_drivers does not"
    if conf.ml2.path_mtu and conf.global_physnet_mtu and conf.ml2.path_mtu > conf.global_physnet_mtu:
        yield "[ml2] path_mtu is larger than global_physnet_mtu, which limits tunnels too: path_mtu has no effect"


def agent_contradictions(conf: Configuration) -> Iterator[str]:
    if conf.agent.arp_responder and not conf.agent.l2_population:
        yield "[agent] arp_responder needs l2_population, which is off: ARP requests are flooded"
    if conf.agent.dscp is not None and conf.agent.dscp_inherit:
        yield "[agent] dscp_inherit overrides dscp"
    if "l3" in conf.roles and conf.agent_mode.startswith("dvr") and not conf.agent.enable_distributed_routing:
        yield f"agent_mode = {conf.agent_mode} needs [agent] enable_distributed_routing, which is off"
    if conf.ovs.local_ip and not conf.agent.tunnel_types and "l2" in conf.roles:
        yield "[ovs] local_ip is set, and [agent] tunnel_types is empty: no tunnels are created"
