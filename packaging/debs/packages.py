"""The Debian packages as data: which files, dependencies and scripts each has.

neutrino-common holds all code with its Python dependencies, so that their versions on a host always match; the others add
what a machine of that kind runs: an agent's host has no unit of the server, and the other way round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

PREFIX = "/usr/lib/neutrino"  # of the virtual environment
ANY, ALL = "any", "all"  # the machine's architecture; every architecture
# Programs that the agent's roles start, and the switch: see scripts/setup.
AGENT_PROGRAMS = (
    "openvswitch-switch", "dnsmasq-base", "dnsmasq-utils", "nftables", "iptables", "ipset", "conntrack", "iproute2",
    "ethtool", "keepalived", "radvd",
)  # fmt: skip
SYSUSERS = "systemd | systemd-standalone-sysusers | systemd-sysusers"
TMPFILES = "systemd | systemd-standalone-tmpfiles | systemd-tmpfiles"


@dataclass(frozen=True)
class Value:
    """A value that the package sets in its sample configuration, with the reason that is printed above it."""

    section: str
    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Package:
    name: str
    summary: str
    description: str
    architecture: str = ALL
    depends: Sequence[str] = ()
    recommends: Sequence[str] = ()
    suggests: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # target to source below packaging/
    links: Mapping[str, str] = field(default_factory=dict)  # link to its target
    sample: Mapping[str, str] = field(default_factory=dict)  # target to program of `neutrino config sample`
    values: Sequence[Value] = ()  # set in the sample
    scripts: Sequence[str] = ()  # below packaging/scripts
    has_environment: bool = False
    has_documents: bool = False  # man pages and completion

    @property
    def conffiles(self) -> list[str]:
        """dpkg keeps the administrator's version of these on an upgrade."""
        return sorted(target for target in (*self.files, *self.sample) if target.startswith("/etc/"))


SAME = "neutrino-common (= {version})"
CLI = "neutrino-cli (= {version})"

PACKAGES = (
    Package(
        "neutrino-common",
        "virtual-network service, shared code",
        "This package holds the code of all parts, with its Python dependencies in a private virtual environment.",
        architecture=ANY,
        depends=("python3 (>= {python}~)", "python3 (<< {next_python}~)", "libc6 (>= 2.34)", "ca-certificates"),
        scripts=("neutrino-common.postinst", "neutrino-common.prerm"),
        has_environment=True,
    ),
    Package(
        "neutrino-cli",
        "virtual-network service, command line",
        "This package provides the neutrino command with its man pages and shell completion. Alone, it is for commands "
        "that use the API, such as `neutrino status`.",
        depends=(SAME,),
        suggests=("python3-openstackclient", "bash-completion"),
        links={"/usr/bin/neutrino": f"..{PREFIX.removeprefix('/usr')}/bin/neutrino"},
        has_documents=True,
    ),
    Package(
        "neutrino-server",
        "virtual-network service, API server",
        "This package runs the API server and the feed that host agents connect to. It starts with an SQLite database, "
        "on the loopback address, until /etc/neutrino/server.conf is changed.",
        depends=(SAME, CLI, "init-system-helpers (>= 1.54~)", SYSUSERS, TMPFILES),
        recommends=("logrotate",),
        suggests=("postgresql", "mariadb-server"),
        files={
            "/usr/lib/systemd/system/neutrino-server.service": "systemd/neutrino-server.service",
            "/usr/lib/systemd/system/neutrino-feed.service": "systemd/neutrino-feed.service",
            "/usr/lib/sysusers.d/neutrino.conf": "files/sysusers.conf",
            "/usr/lib/tmpfiles.d/neutrino-server.conf": "files/tmpfiles-server.conf",
            "/etc/default/neutrino-server": "files/default-server",
            "/etc/logrotate.d/neutrino-server": "files/logrotate-server",
        },
        sample={"/etc/neutrino/server.conf": "server"},
        values=(
            Value("DEFAULT", "state_path", "/var/lib/neutrino", "the StateDirectory of the unit."),
            Value(
                "DEFAULT",
                "auth_strategy",
                "noauth",
                "a first start without Keystone. Every user of this machine is then an administrator of the API, which "
                "listens on the loopback address only. With keystone, set [keystone_authtoken] too.",
            ),
        ),
        scripts=("neutrino-server.postinst", "neutrino-server.prerm", "neutrino-server.postrm"),
    ),
    Package(
        "neutrino-agent",
        "virtual-network service, host agent",
        "This package runs the agent that wires the networks of a host: switching, security groups, DHCP, routers and "
        "metadata. It starts once the host has a credential in /etc/neutrino/credential.",
        depends=(SAME, CLI, "init-system-helpers (>= 1.54~)", TMPFILES, *AGENT_PROGRAMS),
        recommends=("logrotate",),
        suggests=(
            *("charon-systemd", "conntrackd", "dibbler-client", "frr", "isc-dhcp-client"),
            *("libcharon-extra-plugins", "libstrongswan-extra-plugins", "libstrongswan-standard-plugins"),
        ),
        files={
            "/usr/lib/systemd/system/neutrino-agent.service": "systemd/neutrino-agent.service",
            "/usr/lib/tmpfiles.d/neutrino-agent.conf": "files/tmpfiles-agent.conf",
            "/etc/default/neutrino-agent": "files/default-agent",
            "/etc/logrotate.d/neutrino-agent": "files/logrotate-agent",
        },
        sample={"/etc/neutrino/agent.conf": "agent"},
        values=(
            Value("DEFAULT", "state_path", "/var/lib/neutrino-agent", "the StateDirectory of the unit."),
            Value(
                "feed",
                "server",
                "unix:/var/lib/neutrino/feed.sock",
                "a server on this machine. Of another: wss://HOST:PORT, with ca_file.",
            ),
            Value(
                "feed",
                "credential_file",
                "/etc/neutrino/credential",
                "the unit waits for this file, which `neutrino host add` on the server gives the text of.",
            ),
        ),
        scripts=("neutrino-agent.postinst", "neutrino-agent.prerm", "neutrino-agent.postrm"),
    ),
)
SUMMARY = """neutrino is a virtual-network service for private clouds. It serves OpenStack's Networking API v2.0 and wires
networks on Open vSwitch, Linux namespaces, nftables, dnsmasq and keepalived."""
