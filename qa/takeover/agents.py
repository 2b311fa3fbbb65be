"""What agents write to Neutron's database, written without agents: their rows, DVR MACs, port and HA states."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from qa.takeover.neutron import HOSTS

_OVS = {
    "bridge_mappings": {"public": "br-ex", "physical": "br-physical"},
    "tunnel_types": ["vxlan", "gre", "geneve"],
    "tunneling_ip": "192.0.2.1",
    "l2_population": True,
    "arp_responder_enabled": True,
    "enable_distributed_routing": True,
    "integration_bridge": "br-int",
    "datapath_type": "system",
    "ovs_hybrid_plug": False,
    "vhostuser_socket_dir": "/var/run/openvswitch",
    "ovs_capabilities": {"datapath_types": ["netdev", "system"], "iface_types": ["vxlan", "internal"]},
    "extensions": ["qos", "log"],
    "in_distributed_mode": True,
}
_L3 = {
    "agent_mode": "dvr_snat",
    "handle_internal_only_routers": True,
    "interface_driver": "openvswitch",
    "routers": 0,
    "ex_gw_ports": 0,
    "interfaces": 0,
    "floating_ips": 0,
    "extensions": ["port_forwarding", "conntrack_helper", "ndp_proxy", "fip_qos", "gateway_ip_qos"],
}
_DHCP = {"dhcp_driver": "neutron.agent.linux.dhcp.Dnsmasq", "dhcp_lease_duration": 86400, "networks": 0}
_KINDS = (
    ("Open vSwitch agent", "neutron-openvswitch-agent", "N/A", None, _OVS),
    ("L3 agent", "neutron-l3-agent", "l3_agent", "nova", _L3),
    ("DHCP agent", "neutron-dhcp-agent", "dhcp_agent", "nova", _DHCP),
    ("Metadata agent", "neutron-metadata-agent", "N/A", None, {"metadata_proxy_socket": "/var/lib/neutron/mp"}),
    ("BGP dynamic routing agent", "neutron-bgp-dragent", "bgp_dragent", None, {"advertise_routes": 0}),
)


def register(connection: Connection) -> None:
    """The agents of all hosts, alive now."""
    agents = sa.Table("agents", sa.MetaData(), autoload_with=connection)
    macs = sa.Table("dvr_host_macs", sa.MetaData(), autoload_with=connection)
    at = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
    for number, host in enumerate(HOSTS):
        connection.execute(sa.insert(macs).values(host=host, mac_address=f"FA-16-3F-00-00-{number:02X}"))
        for agent_type, binary, topic, zone, configurations in _KINDS:
            own = dict(configurations)
            if agent_type == "L3 agent" and host.startswith("compute"):
                own["agent_mode"] = "dvr"
            if "tunneling_ip" in own:
                own["tunneling_ip"] = f"192.0.2.{number + 1}"
            values = {"id": str(uuid.uuid4()), "agent_type": agent_type, "binary": binary, "topic": topic, "host": host}
            times = dict.fromkeys(("created_at", "started_at", "heartbeat_timestamp"), at)
            more = {"admin_state_up": True, "configurations": json.dumps(own), "load": 0, "availability_zone": zone}
            connection.execute(sa.insert(agents).values(**values, **times, **more))


def report(connection: Connection) -> None:
    """Ports of compute-1 are wired, distributed ones too, and one HA router has an active host."""
    connection.execute(
        sa.text(
            "UPDATE ports SET status = 'ACTIVE' WHERE id IN "
            "(SELECT port_id FROM ml2_port_bindings WHERE host = 'compute-1' AND vif_type = 'ovs')"
        )
    )
    connection.execute(
        sa.text(
            "DELETE FROM provisioningblocks WHERE standard_attr_id IN "
            "(SELECT standard_attr_id FROM ports WHERE status = 'ACTIVE')"
        )
    )
    connection.execute(
        sa.text(
            "INSERT INTO ml2_distributed_port_bindings "
            "(port_id, host, router_id, vif_type, vif_details, vnic_type, profile, status) "
            "SELECT id, 'compute-1', device_id, 'ovs', '', 'normal', '', 'ACTIVE' FROM ports "
            "WHERE device_owner = 'network:router_interface_distributed'"
        )
    )
    connection.execute(
        sa.text("UPDATE ha_router_agent_port_bindings SET state = 'active' ORDER BY port_id LIMIT 1"),
    )
