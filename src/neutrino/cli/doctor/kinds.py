"""All kinds of findings, in the order of the checks. docs/doctor.md is generated from this table."""

from collections.abc import Mapping
from typing import Final

from neutrino.cli.doctor.finding import ERROR, NOTE, WARNING, Kind

# --- of the doctor itself ---------------------------------------------------------------------------------------------

CHECK_FAILED = Kind(
    "check-failed",
    WARNING,
    "The check itself failed, so this part was not examined.",
    "The text states the cause; NEUTRINO_DEBUG=1 prints the traceback. Report it if it is a defect.",
)
CHECK_TIMED_OUT = Kind(
    "check-timed-out",
    WARNING,
    "The check did not end in its time, so this part was not examined. What it asks hangs or is overloaded.",
    "Look at the program or server that the check asks, and run neutrino doctor --only with the check's name.",
)

OTHER_USER = Kind(
    "other-user",
    WARNING,
    "Only root and the server's user can read its files, so files, certificates and the database were not examined.",
    "Run neutrino doctor as root, or as the owner of state_path.",
)

# --- configuration ----------------------------------------------------------------------------------------------------

CONFIGURATION_INVALID = Kind(
    "configuration-invalid",
    ERROR,
    "The program does not start with this configuration.",
    "Correct the option that the text names; docs/options.md lists all of them.",
)
OPTION_UNKNOWN = Kind(
    "option-unknown",
    WARNING,
    "Nothing reads this option: what it was meant to change is not changed.",
    "Correct its name or section, or remove it.",
)
OPTION_WITHOUT_EFFECT = Kind(
    "option-without-effect",
    NOTE,
    "It is an option of Neutron that has no meaning here; the reason is in the text.",
    "Nothing has to be done; remove it when it confuses.",
)
OPTIONS_CONTRADICT = Kind(
    "options-contradict",
    WARNING,
    "Two options ask for different things, so one of them has no effect.",
    "Decide which one is meant, and change the other.",
)
POLICY_INVALID = Kind(
    "policy-invalid",
    ERROR,
    "Everyone is refused what the rule governs; if the text names no rule, everything, and the server does not start.",
    "Correct the file that the text names; `neutrino policy check FILE` checks it before it is installed.",
)
POLICY_WITHOUT_EFFECT = Kind(
    "policy-without-effect",
    WARNING,
    "A part of the policy file does not do what it says: the default rule stays in force, or decides instead.",
    "Correct the name that the text has, or remove it; `neutrino policy check FILE` checks the file.",
)

# --- files ------------------------------------------------------------------------------------------------------------

FILE_UNREADABLE = Kind(
    "file-unreadable",
    ERROR,
    "A file that the configuration names cannot be read, so the program does not start or cannot authenticate.",
    "Create the file, or allow the program's user to read it.",
)
SECRET_READABLE = Kind(
    "secret-readable",
    WARNING,
    "Other users of this machine can read a secret, such as a key, a credential or a password.",
    "chmod o-rwx {path}",
)
STATE_UNUSABLE = Kind(
    "state-unusable",
    ERROR,
    "The program cannot keep its files there and does not start.",
    "Create the directory with the program's user as its owner, or change state_path.",
)
DISK_FULL = Kind(
    "disk-full",
    ERROR,
    "Nothing can be written there: the database refuses changes, or the agent cannot keep its state.",
    "Free space on the file system, or move the directory.",
)
DISK_LOW = Kind(
    "disk-low",
    WARNING,
    "When the file system is full, the database refuses changes, or the agent cannot keep its state.",
    "Free space on the file system; large logs are the usual reason.",
)

# --- certificates -----------------------------------------------------------------------------------------------------

CERTIFICATE_UNUSABLE = Kind(
    "certificate-unusable",
    ERROR,
    "The certificate cannot be loaded, so its listener does not start or its server is not trusted.",
    "Replace the file by a PEM file with the certificate and its chain; the key has to belong to it.",
)
CERTIFICATE_EXPIRED = Kind(
    "certificate-expired",
    ERROR,
    "Clients refuse the connection: hosts lose the feed, or users the API.",
    "Issue a new certificate now (neutrino pki, or your own CA) and put it in place of the old one.",
)
CERTIFICATE_EXPIRES = Kind(
    "certificate-expires",
    WARNING,
    "From that day on clients refuse the connection.",
    "Issue a new certificate (neutrino pki, or your own CA) before that day.",
)
CERTIFICATE_EARLY = Kind(
    "certificate-not-yet-valid",
    ERROR,
    "Clients refuse the connection until then; or the clock of this machine is wrong.",
    "Compare the clock of this machine with the time, else issue the certificate again.",
)

# --- server -----------------------------------------------------------------------------------------------------------

DATABASE_UNREACHABLE = Kind(
    "database-unreachable",
    ERROR,
    "The server cannot start, and a running one answers requests with 503.",
    "Start the database, and check [database] connection: address, user and password.",
)
DATABASE_READ_ONLY = Kind(
    "database-read-only",
    ERROR,
    "Requests that change something wait for a failover, and then get 503. Reads, and the traffic of instances, continue.",
    "Promote the standby, or have [database] connection name the primary: on PostgreSQL all hosts, with "
    "target_session_attrs=read-write (docs/databases.md).",
)
SCHEMA_OLD = Kind(
    "schema-old",
    ERROR,
    "The server upgrades the schema at its start, or refuses to start with auto_upgrade = false.",
    "Make a backup, then run neutrino db upgrade.",
)
SCHEMA_NEW = Kind(
    "schema-new",
    ERROR,
    "A newer release has upgraded this database; this release refuses to start on it.",
    "Install that release here too, or restore the backup from before its upgrade.",
)
DATABASE_DAMAGED = Kind(
    "database-damaged",
    ERROR,
    "The SQLite file is damaged: rows may be lost, and writes may fail.",
    "Stop the server and restore the last backup.",
)
QUOTA_WRONG = Kind(
    "quota-counter-wrong",
    WARNING,
    "The project is refused objects too early, or may have too many.",
    "Run neutrino db recount; the server may run meanwhile.",
)
ADDRESS_DUPLICATE = Kind(
    "address-duplicate",
    ERROR,
    "Two ports have the same address on one network: packets reach either of them.",
    "Delete one of the ports, or give it another address.",
)
CLOCK_DATABASE = Kind(
    "clock-skew-database",
    WARNING,
    "Servers with different clocks disagree on which agents are alive.",
    "Synchronize the clocks of both machines (chrony, systemd-timesyncd).",
)
SERVICE_PROBLEM = Kind(
    "service-problem",
    ERROR,
    "As stated by neutrino status, which has the whole list.",
    "As stated by neutrino status.",
)
API_SILENT = Kind(
    "api-not-listening",
    WARNING,
    "No client reaches the API on this machine.",
    "Start the server (neutrino server, or its systemd unit) and look at its log.",
)
FEED_SILENT = Kind(
    "feed-not-listening",
    WARNING,
    "No host reaches the feed on this machine: changes do not reach the hosts.",
    "Start the feed: [feed] run = true for the server, or neutrino feed.",
)
KEYSTONE_UNREACHABLE = Kind(
    "keystone-unreachable",
    ERROR,
    "Tokens cannot be validated: requests are answered with 503 or 401.",
    "Start Keystone, and check [keystone_authtoken] auth_url.",
)

# --- host: privileges, kernel, programs -------------------------------------------------------------------------------

PRIVILEGES = Kind(
    "privileges-missing",
    ERROR,
    "Without CAP_NET_ADMIN the agent cannot change devices, and this command cannot examine them.",
    "Run neutrino doctor as root, and the agent with CAP_NET_ADMIN (its systemd unit has it).",
)
PROGRAM_MISSING = Kind(
    "program-missing",
    ERROR,
    "A role of the agent needs this program; the agent does not start without it.",
    "apt-get install {package}",
)
PROGRAM_OPTIONAL = Kind(
    "program-optional-missing",
    NOTE,
    "Routers that need this program are not served on this host; all others are.",
    "apt-get install {package}, if such routers are used.",
)
PROGRAM_OLD = Kind(
    "program-old",
    WARNING,
    "Options or syntax that the agent uses are missing in this version.",
    "Install at least version {version} of {package}.",
)
KERNEL_MODULE = Kind(
    "kernel-module-missing",
    ERROR,
    "The dataplane needs this module, and this kernel does not have it.",
    "Install a kernel with the module (linux-modules-extra), or use the userspace datapath: [ovs] datapath_type = netdev.",
)
NFTABLES_UNUSABLE = Kind(
    "nftables-unusable",
    ERROR,
    "Routers cannot translate or filter addresses on this host.",
    "Install a kernel with nf_tables, and check that no container policy forbids it.",
)
IPV6_OFF = Kind(
    "ipv6-disabled",
    WARNING,
    "Routers and DHCP on this host do not serve IPv6 subnets.",
    "Boot without ipv6.disable=1, and set net.ipv6.conf.all.disable_ipv6 = 0.",
)
BRIDGE_NETFILTER = Kind(
    "bridge-netfilter-off",
    ERROR,
    "Packets on Linux bridges do not pass iptables, where the hybrid firewall filters: security groups are not applied.",
    "modprobe br_netfilter, and set net.bridge.bridge-nf-call-iptables and -ip6tables to 1.",
)
CONNTRACK_FULL = Kind(
    "conntrack-full",
    ERROR,
    "New connections are dropped when the table is full.",
    "Raise net.netfilter.nf_conntrack_max.",
)

# --- host: Open vSwitch -----------------------------------------------------------------------------------------------

OVSDB_UNREACHABLE = Kind(
    "ovsdb-unreachable",
    ERROR,
    "The agent cannot configure the switch: ports on this host are not connected.",
    "Start Open vSwitch (systemctl start openvswitch-switch), or set [ovs] ovsdb_connection to its address.",
)
VSWITCHD_DOWN = Kind(
    "ovs-vswitchd-down",
    ERROR,
    "The switch forwards nothing new; with the userspace datapath it forwards nothing at all.",
    "Start ovs-vswitchd (systemctl restart openvswitch-switch) and look at its log.",
)
OVS_OLD = Kind(
    "ovs-old",
    WARNING,
    "Matches or actions that the agent's flows use are missing in this version.",
    "Install Open vSwitch {version} or later.",
)
DATAPATH_MISSING = Kind(
    "datapath-missing",
    ERROR,
    "The bridges of the agent cannot be created.",
    "Load the kernel module openvswitch, or set [ovs] datapath_type to one that the switch supports.",
)
DATAPATH_DIFFERS = Kind(
    "datapath-differs",
    ERROR,
    "Patch ports do not connect bridges of different datapaths, so packets end at this bridge.",
    "Set the same datapath_type for all bridges: ovs-vsctl set bridge {bridge} datapath_type={datapath}",
)
BRIDGE_MISSING = Kind(
    "bridge-missing",
    ERROR,
    "The physical network is not connected on this host; the agent does not start its dataplane without the bridge.",
    "ovs-vsctl add-br {bridge}, and add its uplink; or correct [ovs] bridge_mappings.",
)
INTERFACE_ERROR = Kind(
    "interface-error",
    ERROR,
    "The switch could not open this interface: the port is not connected.",
    "Correct what the text names; ovs-vsctl del-port removes a port whose device is gone for good.",
)

CHECKSUM_OFFLOAD = Kind(
    "checksum-offload",
    WARNING,
    "The userspace datapath drops TCP of guests that leave checksums to virtio, as most do; ping and DHCP work.",
    "Set [securitygroup] firewall_driver = iptables_hybrid on this host for new ports, use the kernel datapath, or turn "
    "the offload off: with the image property hw_vif_model=e1000, or in the guest with ethtool -K eth0 tx off.",
)

# --- host: underlay ---------------------------------------------------------------------------------------------------

LOCAL_IP_MISSING = Kind(
    "local-ip-missing",
    ERROR,
    "Other hosts send tunnelled packets to an address that this host does not have.",
    "Add the address to a device, or correct [ovs] local_ip.",
)
TUNNEL_ADDRESS_DUPLICATE = Kind(
    "tunnel-address-duplicate",
    ERROR,
    "Tunnelled packets for either host reach only one of them.",
    "Set [ovs] local_ip to the own address of each host, and restart its agent.",
)
PEER_UNREACHABLE = Kind(
    "peer-unreachable",
    WARNING,
    "The other host does not answer ping on its tunnel address: it is down, not routed, or a firewall drops ICMP.",
    "Check the route and the firewall between the two addresses: UDP 4789 (VXLAN), 6081 (Geneve) or GRE has to pass too.",
)
UNDERLAY_MTU = Kind(
    "underlay-mtu-low",
    ERROR,
    "Large packets of instances are lost in tunnels to this host: ping works, and transfers hang.",
    "Raise the MTU of the underlay to {needed} on every device between the hosts, "
    "or lower [DEFAULT] global_physnet_mtu or [ml2] path_mtu on the server to {measured} for new networks.",
)
MTU_UNKNOWN = Kind(
    "underlay-mtu-not-measured",
    NOTE,
    "Whether large packets pass between the hosts is not known.",
    "apt-get install iputils-ping",
)
TUNNEL_ERROR = Kind(
    "tunnel-error",
    ERROR,
    "The switch could not create the tunnel: packets to this host are dropped.",
    "The text states the cause. Another program's VXLAN device on the same UDP port is a usual one.",
)
TUNNEL_ONE_WAY = Kind(
    "tunnel-one-way",
    WARNING,
    "Packets are sent to the other host, and none was received from it: a firewall may drop them, in either direction.",
    "Allow UDP 4789 (VXLAN), 6081 (Geneve) or GRE between the two addresses, and run neutrino doctor on the other host.",
)
TUNNEL_DROPS = Kind(
    "tunnel-transmit-errors",
    WARNING,
    "Packets to this host are lost before they leave: no route, or larger than the underlay's MTU.",
    "Check the route to the address and the MTU of the underlay device.",
)

# --- host: agent ------------------------------------------------------------------------------------------------------

FEED_UNREACHABLE = Kind(
    "feed-unreachable",
    ERROR,
    "This host receives no changes from this server, and its reports are not stored.",
    "Start the server, and check [feed] server, the route and the firewall to it.",
)
FEED_UNTRUSTED = Kind(
    "feed-certificate-refused",
    ERROR,
    "The host does not trust the feed's certificate, and does not connect.",
    "Set [feed] ca_file to the CA of the server's certificate, and use a name in [feed] server that the certificate has.",
)
FEED_REFUSED = Kind(
    "feed-credential-refused",
    ERROR,
    "The server refuses this host: it receives no changes.",
    "Run neutrino host add or rotate on the server, and write the credential that it prints to [feed] credential_file. "
    "A running agent reads the file at its next attempt, at SIGHUP at once.",
)
CLOCK_SERVER = Kind(
    "clock-skew-server",
    WARNING,
    "Times in logs of this host and of the server do not match; certificates may seem expired or not yet valid.",
    "Synchronize the clocks of both machines (chrony, systemd-timesyncd).",
)
AGENT_DOWN = Kind(
    "agent-not-running",
    WARNING,
    "Existing traffic continues, but this host applies no changes.",
    "Start the agent (neutrino agent, or its systemd unit) and look at its log.",
)
NEVER_SYNCED = Kind(
    "never-synced",
    ERROR,
    "This host has never received its desired state: nothing is connected here.",
    "Check the findings about the feed; the agent's log has the reason.",
)
CACHE_DAMAGED = Kind(
    "cache-damaged",
    WARNING,
    "Without the cache, an agent that starts before its server is reachable keeps what exists and adds nothing.",
    "Start the agent with the server reachable: it writes the file again.",
)
DRIFT = Kind(
    "drift",
    WARNING,
    "The host differs from the desired state: packets may be dropped, or pass where they should not.",
    "A running agent repairs it within [agent] repair_interval; neutrino agent verify shows every difference.",
)
NOT_APPLIED = Kind(
    "object-not-applied",
    ERROR,
    "The object cannot be applied on this host; the text has the reason.",
    "Remove the cause; the agent retries by itself.",
)
AGENT_HELD = Kind(
    "agent-held",
    ERROR,
    "This host, or the server's database, is not the agent's own: an agent that is started here changes nothing.",
    "Remove the cause that the text names; or proceed nevertheless by the option that it names.",
)
DRIFT_UNKNOWN = Kind(
    "drift-unknown",
    WARNING,
    "The server did not give the desired state, so the host cannot be compared with it.",
    "Check the findings about the feed, then run neutrino doctor again.",
)
ORPHAN_NAMESPACE = Kind(
    "orphan-namespace",
    WARNING,
    "A namespace of a router or network that this host does not serve may still answer for its addresses.",
    "If nothing uses it: ip netns delete {name}. The agent removes those that it recognises as its own or Neutron's.",
)
ORPHAN_PORT = Kind(
    "orphan-switch-port",
    NOTE,
    "The switch has a port for which this host receives no API port: it was deleted, or is bound to another host.",
    "If no instance uses it: ovs-vsctl del-port {name}",
)

KINDS: Final[Mapping[str, Kind]] = {each.name: each for each in list(globals().values()) if isinstance(each, Kind)}
