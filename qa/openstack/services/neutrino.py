"""neutrino: the server with Keystone and the feed on the controller; Open vSwitch and the agent on each host.

Nothing here is special to the test but the addresses: [nova] sends events, [placement] gets what hosts guarantee, [ovs]
ovsdb_managers lets os-vif plug. The mechanism driver `genericswitch` is networking-generic-switch's, unchanged, with a
switch that accepts all commands: it binds the ports of Ironic.
"""

from __future__ import annotations

from pathlib import Path

from neutrino.lab.settings import render_agent, render_server
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from qa.openstack.cloud import ADDRESS, METADATA_SECRET, PORTS, Cloud, ini

USER = "neutron"
WORKERS = 2
TUNNEL_KBPS = 1_000_000  # what the tunnels of a host guarantee
PROVIDER_NETWORK, PROVIDER_BRIDGE = "physnet1", "br-provider"  # of the lab's hosts
PROVIDER_KBPS = 100_000
KPPS = 1000  # packets of a host
SWITCH_MAC = "00:12:ff:00:00:01"  # of the switch `leaf1`, to which bare-metal nodes are connected


def start(cloud: Cloud) -> None:
    lab = cloud.lab
    cloud.keystone_user(USER)
    cloud.endpoint("neutron", "network", f"http://{ADDRESS}:{PORTS['neutrino']}/")
    database = cloud.database("neutrino")
    (lab.paths.server / "neutrino.conf").write_text(render_server(lab.settings, lab.paths.server, WORKERS))
    cloud.write("neutrino.conf", render_server_additions(cloud, database))
    cloud.write("agent.conf", render_agent_additions())
    _add_credentials(cloud, database)
    for host in cloud.hosts:
        (lab.paths.host(host) / "agent.conf").write_text(render_agent(lab.settings, lab.paths, host))
        set_firewall_driver(cloud, host, "openvswitch")
        lab.ovs(host).start()
    lab.spawn_server()
    lab.wait_for_server()
    for host in cloud.hosts:
        lab.spawn_agent(host)
    for host in cloud.hosts:
        wait_for_agent(cloud, host)


def render_server_additions(cloud: Cloud, database: str) -> str:
    text = ini(
        {
            "DEFAULT": {
                "bind_host": "0.0.0.0",  # the lab's commands use 127.0.0.1, the services the management address
                "auth_strategy": "keystone",
                "notify_nova_on_port_status_changes": "true",
                "notify_nova_on_port_data_changes": "true",
            },
            "database": {"connection": database},
            "ml2": {"mechanism_drivers": "openvswitch,l2population,genericswitch"},
            "genericswitch:leaf1": {
                "device_type": "netmiko_fake",
                "ip": ADDRESS,
                "username": "operator",
                "password": "secret",
                "ngs_mac_address": SWITCH_MAC,
            },
        }
    )
    return text + cloud.authtoken(USER) + cloud.credentials("nova", USER) + cloud.credentials("placement", USER)


def render_agent_additions() -> str:
    return ini(
        {
            "DEFAULT": {
                "nova_metadata_host": ADDRESS,
                "nova_metadata_port": PORTS["metadata"],
                "metadata_proxy_shared_secret": METADATA_SECRET,
                "enable_isolated_metadata": "true",
            },
            "metadata_haproxy": {"timeout_connect": 10, "timeout_server": 60},  # Nova on a busy machine is slow
            "ovs": {"ovsdb_managers": "ptcp:6640:127.0.0.1"},  # the default of os-vif
        }
    )


def set_firewall_driver(cloud: Cloud, host: str, driver: str) -> Path:
    """Write the host's own configuration file; the agent reads it when it starts."""
    path = cloud.lab.host_configuration(host)
    uplinks = {"rp_tunnelled": TUNNEL_KBPS, PROVIDER_BRIDGE: PROVIDER_KBPS}
    guaranteed = {
        "resource_provider_bandwidths": ",".join(f"{name}:{kbps}:{kbps}" for name, kbps in uplinks.items()),
        "resource_provider_packet_processing_without_direction": f":{KPPS}",
        "resource_provider_default_hypervisor": host,
    }
    path.write_text(ini({"securitygroup": {"firewall_driver": driver}, "ovs": guaranteed}))
    return path


def restart_agent(cloud: Cloud, host: str) -> None:
    cloud.stop(f"{host}-agent")
    since = cloud.run(["date", "-u", "+%Y-%m-%d %H:%M:%S"]).stdout.strip()
    cloud.lab.spawn_agent(host)
    wait_for_agent(cloud, host, since)


def wait_for_agent(cloud: Cloud, host: str, since: str = "") -> None:
    """Wait until the API shows the L2 agent alive with its dataplane up; `since`: the earliest accepted start time."""

    def is_up() -> bool:
        found = list(cloud.connect().network.agents(host=host, agent_type="Open vSwitch agent"))
        return any(
            each.is_alive and each.started_at >= since and each.configuration.get("dataplane") == "up" for each in found
        )

    cloud.wait(is_up, f"the agent of {host} has not reported", process=f"{host}-agent", seconds=60)


def _add_credentials(cloud: Cloud, url: str) -> None:
    """Create the schema and a credential of each host for the feed, as `neutrino db` and `neutrino host` do."""
    db = Database(url)
    try:
        schema.ensure(db)
        credentials = Credentials(db)
        for host in cloud.hosts:
            path = cloud.lab.paths.host(host) / "credential"
            path.parent.mkdir(exist_ok=True)
            path.touch(mode=0o600)
            path.write_text(credentials.add(host, cloud.lab.settings.roles) + "\n")
    finally:
        db.close()
