"""Tempest: the scenario tests of Tempest and of neutron-tempest-plugin that the cloud's guest supports.

They run on the external machine, which reaches the APIs and floating IPs; instances are reached by SSH.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qa.openstack.checks.expect import CheckError, expect
from qa.openstack.cloud import EXTERNAL, PASSWORD, REGION, Cloud, ini
from qa.openstack.guest import SCRIPTS
from qa.openstack.services.resources import EXTERNAL_NETWORK, FLAVOR, IMAGE, LARGER_FLAVOR, OTHER_IMAGE
from qa.openstack.services_more.environment import more

NAME = "tempest"
SCENARIO_SECONDS = 5400.0
PROGRAM = Path(__file__).with_name("tempest_program.py")
LINE = re.compile(r"^TEST (?P<test>.+) (?P<result>ok|SKIPPED|FAILED) (?P<seconds>\d+)s ?(?P<reason>.*)$")
TEMPEST, PLUGIN = "tempest.scenario.test_", "neutron_tempest_plugin.scenario.test_"
# In the order in which they run: modules, and what they test. Not among them: local_ip, whose servers have to be on one
# host, and multiple_gws, which needs devstack's containers.
MODULES: Mapping[str, str] = {
    f"{TEMPEST}server_basic_ops": "metadata, SSH through a floating IP",
    f"{TEMPEST}network_basic_ops": "connectivity, MTU, hot plug, states of routers and ports, name servers",
    f"{TEMPEST}security_groups_basic_ops": "filtering within and between projects, port security",
    f"{TEMPEST}network_v6": "SLAAC and DHCPv6 on one and two networks",
    f"{TEMPEST}network_advanced_server_ops": "connectivity after Nova's operations",
    f"{TEMPEST}server_multinode": "servers on every host",
    f"{PLUGIN}basic": "a server",
    f"{PLUGIN}connectivity": "routers between subnets",
    f"{PLUGIN}floatingip": "north-south and east-west traffic",
    f"{PLUGIN}port_forwardings": "port forwardings",
    f"{PLUGIN}portsecurity": "port security",
    f"{PLUGIN}security_groups": "rules, remote groups, address groups",
    f"{PLUGIN}metadata": "metadata over IPv6",
    f"{PLUGIN}ipv6": "RADVD after changes",
    f"{PLUGIN}ports": "ports of servers",
    f"{PLUGIN}allowed_address_pairs": "other addresses of a port",
    f"{PLUGIN}dhcp": "options of DHCP, and of ports",
    f"{PLUGIN}internal_dns": "names of ports",
    f"{PLUGIN}qos": "bandwidth limits",
    f"{PLUGIN}migration": "routers that become distributed, HA, or neither",
    f"{PLUGIN}dvr": "distributed routers",
}


# Runs of some modules, classes or tests only: TEMPEST_MODULES="network_v6 floatingip.FloatingIPQosTest".
CHOSEN = os.environ.get("TEMPEST_MODULES", "").split()


@dataclass(frozen=True)
class Outcome:
    """One test: `ok`, `FAILED` or `SKIPPED` with the reason."""

    test: str
    result: str
    reason: str = ""


def check_tempest(cloud: Cloud) -> str:
    """Tempest's scenarios with instances, reached by SSH through floating IPs."""
    directory = cloud.directory("tempest")
    (directory / "tempest.conf").write_text(render(cloud, directory))
    began = time.monotonic()
    outcomes = run(cloud, directory, chosen())
    counts = {kind: sum(each.result == kind for each in outcomes) for kind in ("ok", "SKIPPED", "FAILED")}
    expect(counts["ok"], "no test passed")
    failed = [each.test for each in outcomes if each.result == "FAILED"]
    summary = f"{counts['ok']} passed, {counts['SKIPPED']} skipped, {counts['FAILED']} failed"
    if failed:
        raise CheckError(f"{summary}: {', '.join(failed)}")
    return f"{summary} in {time.monotonic() - began:.0f} s"


def chosen() -> list[str]:
    """The modules, or names of classes and tests in them, to run."""
    if not CHOSEN:
        return list(MODULES)
    found = {name: [m for m in MODULES if m.endswith(f"test_{name.partition('.')[0]}")] for name in CHOSEN}
    unknown = [name for name, modules in found.items() if not modules]
    expect(not unknown, f"TEMPEST_MODULES: no module is named {', '.join(unknown)}")
    return [module + "".join(name.partition(".")[1:]) for name, modules in found.items() for module in modules]


def run(cloud: Cloud, directory: Path, modules: Sequence[str]) -> list[Outcome]:
    """Run the modules in one process on the external machine, and report each outcome; its log is `tempest`."""
    environment = {"TEMPEST_CONFIG_DIR": str(directory), "TEMPEST_CONFIG": "tempest.conf", "HOME": str(directory)}
    environment["PATH"] = f"{programs(directory / 'bin')}:{os.environ['PATH']}"
    log = cloud.log(NAME)
    log.unlink(missing_ok=True)
    with more(cloud):
        cloud.start(NAME, [cloud.program("python"), "-P", PROGRAM, *modules], environment, host=EXTERNAL)
    try:
        return _follow(cloud, log)
    finally:
        cloud.stop(NAME)  # also after an interruption


def programs(directory: Path) -> Path:
    """What tests call on the external machine, in a directory: the same as in the guest."""
    directory.mkdir(exist_ok=True)
    for name in ("sudo", "nc"):
        (directory / name).write_text(SCRIPTS[name])
        (directory / name).chmod(0o755)
    return directory


def _follow(cloud: Cloud, log: Path) -> list[Outcome]:
    """Report outcomes as they come, until the process ends."""
    outcomes: list[Outcome] = []
    deadline = time.monotonic() + SCENARIO_SECONDS
    runs = True
    while runs:
        runs = cloud.pid(NAME) is not None  # before the log is read: no line of an ended process is missed
        found = parse(log.read_text(errors="replace")) if log.exists() else []
        for each in found[len(outcomes) :]:
            cloud.say(f"tempest {each.test}: {each.result} {each.reason}")
        if len(found) > len(outcomes):
            write_table(cloud, found)  # each time: what ended before an interruption is known
        outcomes = found
        if time.monotonic() > deadline:
            raise CheckError(f"Tempest did not end within {SCENARIO_SECONDS:.0f} s; {len(outcomes)} tests ended")
        time.sleep(1)
    expect(outcomes, f"no test ran; end of {log}:\n{cloud.lab.log_tail(NAME)}")
    return outcomes


def parse(output: str) -> list[Outcome]:
    """The outcomes in the output of `tempest_program.py`."""
    matches = [LINE.match(line) for line in output.splitlines()]
    return [Outcome(found["test"], found["result"], found["reason"]) for found in matches if found]


def write_table(cloud: Cloud, outcomes: Sequence[Outcome]) -> None:
    rows = [f"| `{each.test}` | {each.result} | {each.reason} |\n" for each in outcomes]
    (cloud.lab.paths.logs / "tempest.md").write_text(
        "| test | result | reason |\n| --- | --- | --- |\n" + "".join(rows)
    )


def render(cloud: Cloud, directory: Path) -> str:
    admin = cloud.connect()
    images = {name: admin.image.find_image(name).id for name in (IMAGE, OTHER_IMAGE)}
    flavors = {name: admin.compute.find_flavor(name).id for name in (FLAVOR, LARGER_FLAVOR)}
    extensions = sorted(each.alias for each in admin.network.extensions())
    return ini(
        {
            "DEFAULT": {"log_file": directory / "tempest.log", "debug": "true"},
            "oslo_concurrency": {"lock_path": directory / "locks"},
            "auth": {
                "admin_username": "admin",
                "admin_password": PASSWORD,
                "admin_project_name": "admin",
                "admin_domain_name": "Default",
                "use_dynamic_credentials": "true",
                "create_isolated_networks": "true",
                "tempest_roles": "member",
            },
            "identity": {"uri_v3": cloud.auth_url, "auth_version": "v3", "region": REGION},
            "service_available": {
                "neutron": "true",
                "nova": "true",
                "glance": "true",
                "placement": "true",
                "cinder": "false",
                "swift": "false",
                "horizon": "false",
            },
            "compute": {
                "image_ref": images[IMAGE],
                "image_ref_alt": images[OTHER_IMAGE],
                "flavor_ref": flavors[FLAVOR],
                "flavor_ref_alt": flavors[LARGER_FLAVOR],
                "min_compute_nodes": len(cloud.hosts),
                "max_microversion": "latest",
                "build_timeout": 300,
                "ready_wait": 5,
            },
            "compute-feature-enabled": {
                "resize": "true",
                "cold_migration": "true",
                "live_migration": "true",
                "block_migration_for_live_migration": "true",  # the hosts share no storage
                "suspend": "false",  # not tried with emulated machines
                "vnc_console": "false",
                "shelve": "false",
                "snapshot": "false",
                "config_drive": "false",
                "metadata_service": "true",
                "interface_attach": "true",
            },
            "validation": {
                "run_validation": "true",
                "connect_method": "floating",
                "auth_method": "keypair",
                "image_ssh_user": "root",
                "image_alt_ssh_user": "root",
                "ssh_key_type": "ecdsa",
                "ping_timeout": 120,
                "ssh_timeout": 240,
                "connect_timeout": 30,
            },
            "network": {
                "public_network_id": admin.network.find_network(EXTERNAL_NETWORK).id,
                "floating_network_name": EXTERNAL_NETWORK,
                "project_networks_reachable": "false",
                "build_timeout": 300,
            },
            "network-feature-enabled": {
                "api_extensions": ",".join(extensions),
                "ipv6": "true",
                "ipv6_subnet_attributes": "true",
                "port_security": "true",
                "port_admin_state_change": "true",
                "floating_ips": "true",
            },
            "scenario": {"dhcp_client": "udhcpc"},
            "neutron_plugin_options": {
                "provider_vlans": "physnet1",
                "available_type_drivers": "flat,vlan,vxlan",
                "l3_agent_mode": "dvr_snat",
                "dns_domain": "openstacklocal",  # the server's default
                "snat_rules_apply_to_nested_networks": "true",  # as with Neutron's L3 agent
                "create_shared_resources": "true",
                "firewall_driver": "ovn",  # the native one, which has stateless groups too, unlike Neutron's `openvswitch`
                "q_agent": "None",
            },
        }
    )
