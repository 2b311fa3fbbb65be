"""conntrackd's configuration. Pure.

Each host of an HA router sends changes of its connections to the others over the HA network, by multicast: the port is
`ha_conntrackd_group` and the router's VRRP id, as in Neutron, so that hosts of both understand each other while a cloud is
converted. What a host receives is in conntrackd's external cache, and gets into the kernel when the host becomes active.

The mode is NOTRACK. In Neutron's, FTFW, conntrackd expects the sequence numbers of one other host: of two, it drops the
messages of the one whose numbers are lower.
"""

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import HA, device
from neutrino.agent.l3.services.keepalived.render import Failover, primary_address

PROTOCOLS = ("TCP", "SCTP", "DCCP", "UDP", "ICMP", "IPv6-ICMP")


def render_conntrackd(failover: Failover, options: L3Options, lock: str, control: str) -> str:
    """`lock` and `control` are paths of the daemon's own: its lock file and the socket that takes commands."""
    interface = failover.membership.interface
    own = next(each for each in interface.addresses if each.version == 4)
    # Messages of all hosts to each other are connections of the namespace too, and end with it.
    ignored = ("IPv4_address 127.0.0.1", "IPv6_address ::1", f"IPv4_address {own.cidr}")
    accepted = "".join(f"            {each}\n" for each in PROTOCOLS)
    addresses = "".join(f"            {each}\n" for each in ignored)
    return f"""\
General {{
    HashSize {options.ha_conntrackd_hashsize}
    HashLimit {options.ha_conntrackd_hashlimit}
    LockFile {lock}
    UNIX {{
        Path {control}
    }}
    SocketBufferSize {options.ha_conntrackd_socketbuffersize}
    SocketBufferSizeMaxGrown {options.ha_conntrackd_socketbuffersize_max_grown}
    Filter From Kernelspace {{
        Protocol Accept {{
{accepted}        }}
        Address Ignore {{
{addresses}        }}
    }}
}}
Sync {{
    Mode NOTRACK {{
        StartupResync yes
    }}
    Multicast Default {{
        IPv4_address {options.ha_conntrackd_ipv4_mcast_addr}
        IPv4_interface {own.ip_address}
        Group {options.ha_conntrackd_group + failover.membership.vr_id}
        Interface {device(HA, interface.id)}
        SndSocketBuffer {options.ha_conntrackd_sndsocketbuffer}
        RcvSocketBuffer {options.ha_conntrackd_rcvsocketbuffer}
        Checksum on
    }}
}}
"""


def sync_command(failover: Failover, script: str, configuration: str) -> tuple[str, ...]:
    """The command that has conntrackd do what this host's state asks for; keepalived and the agent run it."""
    name = device(HA, failover.membership.interface.id)
    return "/bin/sh", script, name, primary_address(failover.membership), configuration
