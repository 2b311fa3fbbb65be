"""Tempest: the scenario tests of Tempest and of neutron-tempest-plugin that the cloud's guest supports.

They run on the external machine, which reaches the APIs and floating IPs; instances are reached by SSH.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.openstack.checks.expect import CheckError, expect
from tests.openstack.cloud import EXTERNAL, PASSWORD, REGION, Cloud, ini
from tests.openstack.services.resources import EXTERNAL_NETWORK, FLAVOR, IMAGE, LARGER_FLAVOR, OTHER_IMAGE
from tests.openstack.services_more.environment import SITE_PACKAGES, more

SCENARIO_SECONDS = 3000.0
LINE = re.compile(
    r"^\{?\d*\}? ?(?P<test>[\w.]+)(?:\[.*\])? (?:\[[\d.]+s\] )?\.\.\. (?P<result>ok|FAILED|SKIPPED: .*|SKIPPED)"
)
# In the order in which they run: a pattern of tests, and why these.
SELECTED: Mapping[str, str] = {
    r"tempest\.scenario\.test_server_basic_ops": "metadata, SSH through a floating IP",
    r"tempest\.scenario\.test_network_basic_ops": "connectivity, MTU, hot plug, router and port states, DNS servers",
    r"tempest\.scenario\.test_security_groups_basic_ops": "filtering within and between projects, port security",
    r"tempest\.scenario\.test_network_v6": "SLAAC and DHCPv6, one and two networks",
    r"tempest\.scenario\.test_network_advanced_server_ops": "connectivity after Nova's operations",
    r"neutron_tempest_plugin\.scenario\.test_(basic|connectivity|floatingip|port_forwardings|portsecurity)": "the plug-in",
    r"neutron_tempest_plugin\.scenario\.test_(security_groups|mtu|metadata|ipv6|ports|allowed_address|dhcp)": "the plug-in",
}


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
    outcomes = run(cloud, directory, SELECTED)
    write_table(cloud, outcomes)
    counts = {kind: sum(each.result == kind for each in outcomes) for kind in ("ok", "SKIPPED", "FAILED")}
    expect(counts["ok"], "no test passed")
    failed = [each.test for each in outcomes if each.result == "FAILED"]
    summary = f"{counts['ok']} passed, {counts['SKIPPED']} skipped, {counts['FAILED']} failed"
    if failed:
        raise CheckError(f"{summary}: {', '.join(failed)}")
    return f"{summary} in {time.monotonic() - began:.0f} s"


def run(cloud: Cloud, directory: Path, patterns: Mapping[str, str]) -> list[Outcome]:
    """Run the tests one after the other; output is in the log `tempest`."""
    outcomes: list[Outcome] = []
    with cloud.log("tempest").open("a") as log:
        for pattern in patterns:
            with more(cloud):
                done = cloud.run(
                    stestr(cloud, pattern),
                    {"TEMPEST_CONFIG_DIR": str(directory), "TEMPEST_CONFIG": "tempest.conf", "HOME": str(directory)},
                    host=EXTERNAL,
                    check=False,
                    seconds=SCENARIO_SECONDS,
                )
            log.write(done.stdout + done.stderr)
            found = parse(done.stdout)
            for each in found:
                cloud.say(f"tempest {each.test}: {each.result} {each.reason}")
            if not found:
                raise CheckError(f"{pattern}: no test ran: {(done.stdout + done.stderr)[-2000:]}")
            outcomes += found
    return outcomes


def stestr(cloud: Cloud, pattern: str) -> list[str | Path]:
    discovery = SITE_PACKAGES / "tempest" / "test_discover"
    run = '"$0" --test-path "$1" --top-dir "$2" --repo-url "$HOME" run --serial "$3"'
    script = f'cd "$HOME" && exec {run}'
    return ["sh", "-c", script, cloud.program("stestr"), discovery, SITE_PACKAGES, pattern]


def parse(output: str) -> list[Outcome]:
    """The outcomes in stestr's output: `{0} TEST [1.5s] ... ok`."""
    outcomes = []
    for line in output.splitlines():
        if found := LINE.match(line):
            result, _, reason = found["result"].partition(": ")
            outcomes.append(Outcome(found["test"], result, reason))
    return outcomes


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
                "suspend": "false",  # QEMU's emulated aarch64 machine cannot be restored
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
                "l3_agent_mode": "legacy",
                "create_shared_resources": "true",
                "firewall_driver": "openvswitch",
                "q_agent": "None",
            },
        }
    )
