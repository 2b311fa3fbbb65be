"""Problems of hosts: programs, kernel, Open vSwitch, underlay, agents."""

from typing import Final

from neutrino.diagnosis.problems import NOTE, WARNING, Problem, declared

# --- privileges, kernel, programs -------------------------------------------------------------------------------------

PRIVILEGES = Problem(
    "privileges-missing",
    "Without CAP_NET_ADMIN the agent cannot change devices, and this command cannot examine them.",
    "Run neutrino doctor as root, and the agent with CAP_NET_ADMIN (its systemd unit has it).",
)
PROGRAM_MISSING = Problem(
    "program-missing",
    "A role of the agent needs this program; the agent does not start without it.",
    "apt-get install {package}",
)
PROGRAM_OPTIONAL = Problem(
    "program-optional-missing",
    "Routers that need this program are not served on this host; all others are.",
    "apt-get install {package}, if such routers are used.",
    NOTE,
)
PROGRAM_OLD = Problem(
    "program-old",
    "Options or syntax that the agent uses are missing in this version.",
    "Install at least version {version} of {package}.",
    WARNING,
)
KERNEL_MODULE = Problem(
    "kernel-module-missing",
    "The dataplane needs this module, and this kernel does not have it.",
    "Install a kernel with the module (linux-modules-extra), or use the userspace datapath: [ovs] datapath_type = netdev.",
)
NFTABLES_UNUSABLE = Problem(
    "nftables-unusable",
    "Routers cannot translate or filter addresses on this host.",
    "Install a kernel with nf_tables, and check that no container policy forbids it.",
)
IPV6_OFF = Problem(
    "ipv6-disabled",
    "Routers and DHCP on this host do not serve IPv6 subnets.",
    "Boot without ipv6.disable=1, and set net.ipv6.conf.all.disable_ipv6 = 0.",
    WARNING,
)
BRIDGE_NETFILTER = Problem(
    "bridge-netfilter-off",
    "Packets on Linux bridges do not pass iptables, where the hybrid firewall filters: security groups are not applied.",
    "modprobe br_netfilter, and set net.bridge.bridge-nf-call-iptables and -ip6tables to 1.",
)
CONNTRACK_FULL = Problem(
    "conntrack-full", "New connections are dropped when the table is full.", "Raise net.netfilter.nf_conntrack_max."
)

# --- Open vSwitch -----------------------------------------------------------------------------------------------------

OVSDB_UNREACHABLE = Problem(
    "ovsdb-unreachable",
    "The agent cannot configure the switch: ports on this host are not connected.",
    "Start Open vSwitch (systemctl start openvswitch-switch), or set [ovs] ovsdb_connection to its address.",
)
VSWITCHD_DOWN = Problem(
    "ovs-vswitchd-down",
    "The switch forwards nothing new; with the userspace datapath it forwards nothing at all.",
    "Start ovs-vswitchd (systemctl restart openvswitch-switch) and look at its log.",
)
OVS_OLD = Problem(
    "ovs-old",
    "Matches or actions that the agent's flows use are missing in this version.",
    "Install Open vSwitch {version} or later.",
    WARNING,
)
DATAPATH_MISSING = Problem(
    "datapath-missing",
    "The bridges of the agent cannot be created.",
    "Load the kernel module openvswitch, or set [ovs] datapath_type to one that the switch supports.",
)
DATAPATH_DIFFERS = Problem(
    "datapath-differs",
    "Patch ports do not connect bridges of different datapaths, so packets end at this bridge.",
    "Set the same datapath_type for all bridges: ovs-vsctl set bridge {bridge} datapath_type={datapath}",
)
BRIDGE_MISSING = Problem(
    "bridge-missing",
    "The physical network is not connected on this host; the agent does not start its dataplane without the bridge.",
    "ovs-vsctl add-br {bridge}, and add its uplink; or correct [ovs] bridge_mappings.",
)
INTERFACE_ERROR = Problem(
    "interface-error",
    "The switch could not open this interface: the port is not connected.",
    "Correct what the text names; ovs-vsctl del-port removes a port whose device is gone for good.",
)

CHECKSUM_OFFLOAD = Problem(
    "checksum-offload",
    "The userspace datapath drops TCP of guests that leave checksums to virtio, as most do; ping and DHCP work.",
    "Set [securitygroup] firewall_driver = iptables_hybrid on this host for new ports, use the kernel datapath, or turn "
    "the offload off: with the image property hw_vif_model=e1000, or in the guest with ethtool -K eth0 tx off.",
    WARNING,
)

# --- underlay ---------------------------------------------------------------------------------------------------------

LOCAL_IP_MISSING = Problem(
    "local-ip-missing",
    "Other hosts send tunnelled packets to an address that this host does not have.",
    "Add the address to a device, or correct [ovs] local_ip.",
)
TUNNEL_ADDRESS_DUPLICATE = Problem(
    "tunnel-address-duplicate",
    "Tunnelled packets for either host reach only one of them.",
    "Set [ovs] local_ip to the own address of each host, and restart its agent.",
)
LINK_DOWN = Problem(
    "link-down",
    "A device is disabled or has no carrier, so nothing passes it: of the underlay, no packets to other hosts in tunnels; "
    "of a physical network, none to its other machines.",
    "Check its cable, switch port and driver; if it is disabled: ip link set DEVICE up. Of an instance, check that it runs "
    "and has its own device up.",
)
PEER_UNREACHABLE = Problem(
    "peer-unreachable",
    "The other host does not answer ping on its tunnel address: it is down, not routed, or a firewall drops ICMP.",
    "Check the route and the firewall between the two addresses: UDP 4789 (VXLAN), 6081 (Geneve) or GRE has to pass too.",
    WARNING,
)
UNDERLAY_MTU = Problem(
    "underlay-mtu-low",
    "Large packets of instances are lost in tunnels to this host: ping works, and transfers hang.",
    "Raise the MTU of the underlay to {needed} on every device between the hosts, "
    "or lower [DEFAULT] global_physnet_mtu or [ml2] path_mtu on the server to {measured} for new networks.",
)
MTU_UNKNOWN = Problem(
    "underlay-mtu-not-measured",
    "Whether large packets pass between the hosts is not known.",
    "apt-get install iputils-ping",
    NOTE,
)
TUNNEL_ERROR = Problem(
    "tunnel-error",
    "The switch could not create the tunnel: packets to this host are dropped.",
    "The text states the cause. Another program's VXLAN device on the same UDP port is a usual one.",
)
TUNNEL_ONE_WAY = Problem(
    "tunnel-one-way",
    "Packets are sent to the other host, and none was received from it: a firewall may drop them, in either direction.",
    "Allow UDP 4789 (VXLAN), 6081 (Geneve) or GRE between the two addresses, and run neutrino doctor on the other host.",
    WARNING,
)
TUNNEL_DROPS = Problem(
    "tunnel-transmit-errors",
    "Packets to this host are lost before they leave: no route, or larger than the underlay's MTU.",
    "Check the route to the address and the MTU of the underlay device.",
    WARNING,
)

# --- agent ------------------------------------------------------------------------------------------------------------

FEED_UNREACHABLE = Problem(
    "feed-unreachable",
    "This host receives no changes from this server, and its reports are not stored.",
    "Start the server, and check [feed] server, the route and the firewall to it.",
)
FEED_UNTRUSTED = Problem(
    "feed-certificate-refused",
    "The host does not trust the feed's certificate, and does not connect.",
    "Set [feed] ca_file to the CA of the server's certificate, and use a name in [feed] server that the certificate has.",
)
FEED_REFUSED = Problem(
    "feed-credential-refused",
    "The server refuses the host: it receives no changes, and its reports are lost.",
    "Run neutrino host add or rotate on the server, and write the credential that it prints to [feed] credential_file. "
    "A running agent reads the file at its next attempt, at SIGHUP at once. If the host is connected nevertheless, find "
    "out which machine uses its name.",
)
CLOCK_SERVER = Problem(
    "clock-skew-server",
    "Times in logs of this host and of the server do not match; certificates may seem expired or not yet valid.",
    "Synchronize the clocks of both machines (chrony, systemd-timesyncd).",
    WARNING,
)
AGENT_DOWN = Problem(
    "agent-not-running",
    "Existing traffic continues, but this host applies no changes.",
    "Start the agent (neutrino agent, or its systemd unit) and look at its log.",
    WARNING,
)
NEVER_SYNCED = Problem(
    "never-synced",
    "This host has never received its desired state: nothing is connected here.",
    "Check the findings about the feed; the agent's log has the reason.",
)
CACHE_DAMAGED = Problem(
    "cache-damaged",
    "Without the cache, an agent that starts before its server is reachable keeps what exists and adds nothing.",
    "Start the agent with the server reachable: it writes the file again.",
    WARNING,
)
DRIFT = Problem(
    "drift",
    "The host differs from the desired state: packets may be dropped, or pass where they should not.",
    "A running agent repairs it within [agent] repair_interval; neutrino agent verify shows every difference. "
    "Remove rules and flows of other programs.",
    WARNING,
)
NOT_APPLIED = Problem(
    "object-not-applied",
    "The object is not, or not completely, applied on the host; the text has the reason.",
    "Remove the cause; the agent retries by itself. neutrino agent --dry-run on the host shows what is left to do.",
)
AGENT_HELD = Problem(
    "agent-held",
    "The host, or the server's database, is not the agent's own: the agent changes nothing on the host.",
    "Remove the cause that the text names, and the agent goes on by itself; or proceed nevertheless by the option that "
    "the text names.",
)
SRIOV_CARD_FAULTY = Problem(
    "sriov-card",
    "A card of [sriov_nic] physical_device_mappings is not there, or refuses what the role sriov sets: ports on it are not "
    "connected, or instances without a port still are; the text says which.",
    "Check the name of the device (ip link), its driver (dmesg), and that its VFs exist "
    "(/sys/class/net/DEVICE/device/sriov_numvfs); or correct the option.",
)
SRIOV_CARD_WITHOUT_FUNCTIONS = Problem(
    "sriov-card-without-vfs",
    "Instances can have this card as a whole (direct-physical), and no part of it (direct, macvtap).",
    "Create VFs: echo NUMBER > /sys/class/net/DEVICE/device/sriov_numvfs, at each start of the host.",
    WARNING,
)
SRIOV_PORT_INCOMPLETE = Problem(
    "sriov-port",
    "The virtual function of the port is not there, is another instance's, or lacks a setting that the text names. Without "
    "a rate or a setting that the card's driver does not have, the port is connected all the same.",
    "Compare binding:profile of the port with ip link show on the host. For a setting that the driver does not have, use "
    "another card, or remove the QoS rule or attribute from the port.",
    WARNING,
)
FOREIGN_RULES = Problem(
    "foreign-rules",
    "Another program has added flows or rules to what this agent serves: they may drop packets or lead them elsewhere. The "
    "agent leaves alone what is not its own.",
    "Stop the program that adds them, and remove them: neutrino agent verify lists flows and tables. [ovs] kept_cookies "
    "names flows that are meant to be there.",
)
NEUTRON_AGENT_RUNS = Problem(
    "neutron-agent-runs",
    "Neutron's Open vSwitch agent was started on a host that this agent serves. It gets no connection to the switch, and "
    "what it changes there is undone; each of its starts may cost packets.",
    "Stop and disable it: systemctl disable --now neutron-openvswitch-agent, or remove its package.",
)
DRIFT_UNKNOWN = Problem(
    "drift-unknown",
    "The server did not give the desired state, so the host cannot be compared with it.",
    "Check the findings about the feed, then run neutrino doctor again.",
    WARNING,
)
ORPHAN_NAMESPACE = Problem(
    "orphan-namespace",
    "A namespace of a router or network that this host does not serve may still answer for its addresses.",
    "If nothing uses it: ip netns delete {name}. The agent removes those that it recognises as its own or Neutron's.",
    WARNING,
)
ORPHAN_PORT = Problem(
    "orphan-switch-port",
    "The switch has a port for which this host receives no API port: it was deleted, or is bound to another host.",
    "If no instance uses it: ovs-vsctl del-port {name}",
    NOTE,
)

# --- agents, as the server knows them ---------------------------------------------------------------------------------

HOST_DOWN = Problem(
    "host-down",
    "Existing traffic continues, but the host applies no changes, and nothing new is placed there.",
    "Start the agent (neutrino agent) and run neutrino doctor on the host. "
    "If the host is gone for good, delete the agent: openstack network agent delete.",
)
HOST_DISCONNECTED = Problem(
    "host-disconnected",
    "The agent has stopped, or cannot reach a server: the host receives no changes, and its reports do not arrive. "
    "Existing traffic continues.",
    "Look at the agent on the host (systemctl status neutrino-agent, its log) and at the route to the servers; "
    "neutrino doctor there names what is wrong.",
)
HOST_REFUSED = Problem(
    "host-refused",
    "A server does not accept the host: it receives no changes, and its reports are lost.",
    "Remove the cause that the text names; the agent tries again by itself.",
)
UNKNOWN_HOST = Problem(
    "host-unknown",
    "A program logs in to the feed under a name for which no credential exists.",
    "If it is an agent: its [DEFAULT] host has to be the name that neutrino host add was given. "
    "Else find out what runs at the address.",
    WARNING,
)
DATAPLANE_DOWN = Problem(
    "dataplane-down",
    "Ports on this host may be cut off, and changes do not reach them; new ports are still bound there.",
    "Start Open vSwitch on the host; neutrino doctor there names what is missing.",
)
HOST_TIMEOUT = Problem(
    "host-timeout",
    "The host did not answer in time what its dataplane does with the packet.",
    "Check the agent of the host and its connection to the server, then trace again.",
    WARNING,
)
LAG = Problem(
    "lag",
    "The host has not applied the newest state yet.",
    "Wait a minute; neutrino status shows the lag. If it grows, look for slow or failing work in the agent's log.",
    WARNING,
)
DAEMON_RESPAWNED = Problem(
    "daemon-respawned",
    "The daemon exited by itself: what it serves was interrupted until it ran again.",
    "Its log on the host has the reason. One that is killed again and again has a fault, or the host lacks memory.",
    WARNING,
)
BGP_SESSION_DOWN = Problem(
    "bgp-session-down",
    "The peer does not learn routes from this host, so packets to what it announces may take another way or none.",
    "Check the peer, the route to it, both AS numbers and the password; the log of bgpd is in its directory below the "
    "agent's state_path.",
)
VRRP_INTERVALS_DIFFER = Problem(
    "vrrp-intervals-differ",
    "A new HA router on hosts with different values is active on all of them at once.",
    "Set ha_vrrp_advert_int to one value on all hosts, and restart their agents: existing routers keep theirs.",
)
CONNTRACKD_DIFFERS = Problem(
    "conntrackd-differs",
    "Connections of HA routers are lost when they fail over between hosts with different settings.",
    "Set ha_conntrackd_enabled, ha_conntrackd_ipv4_mcast_addr and ha_conntrackd_group alike on all hosts with HA routers, "
    "and restart their agents.",
    WARNING,
)

PROBLEMS: Final = declared(globals())
