"""A machine and configurations for tests of `neutrino doctor`, and certificates of any age."""

from __future__ import annotations

import datetime
import ipaddress
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from neutrino.cli.doctor.machine import Done
from neutrino.cli.doctor.subject import HOST, SERVER, Subject
from tests.support.certificates import USAGES
from tests.support.neutrino import Settings, configuration

ROOT = "CapEff:\t000001ffffffffff\n"
GIB = 2**30


@dataclass
class FakeMachine:
    """A healthy host, except for what a test changes."""

    installed: dict[str, str] = field(
        default_factory=lambda: {
            "ovs-ofctl": "3.1.0",
            "dnsmasq": "Dnsmasq version 2.90",
            "conntrack": "conntrack v1.4.7",
            "nft": "nftables v1.0.6 (Lester)",
            "keepalived": "Keepalived v2.2.7 (01/16,2022)",
            "radvd": "Version: 2.19",
            "dibbler-client": "1.0.1",
            "ping": "ping from iputils 20221126",
            "modprobe": "30",
            "ip": "6.1",
        }
    )
    files: dict[str, str] = field(
        default_factory=lambda: {
            "/proc/self/status": ROOT,
            "/proc/sys/net/ipv6/conf/all/disable_ipv6": "0\n",
            "/proc/sys/net/bridge/bridge-nf-call-iptables": "1\n",
            "/proc/sys/net/bridge/bridge-nf-call-ip6tables": "1\n",
            "/proc/sys/net/netfilter/nf_conntrack_count": "10\n",
            "/proc/sys/net/netfilter/nf_conntrack_max": "1000\n",
            "/proc/sys/kernel/osrelease": "6.1.0\n",
            "/lib/modules/6.1.0/modules.builtin": "kernel/net/ipv6/ipv6.ko\n",
        }
    )
    modules: set[str] = field(default_factory=lambda: {"openvswitch", "vxlan", "geneve", "ip_gre", "nf_conntrack"})
    addresses: tuple[str, ...] = ("127.0.0.1", "192.0.2.1")
    flags: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"eth0": ("UP", "LOWER_UP")})
    space: tuple[int, int] = (100 * GIB, 50 * GIB)
    time: float = 1_800_000_000.0
    path_mtu: Callable[[str], int] = lambda address: 9000  # 0: the host does not answer
    failing: dict[str, str] = field(default_factory=dict)  # program → what it prints
    ran: list[Sequence[str]] = field(default_factory=list)

    def run(self, command: Sequence[str], seconds: float = 1) -> Done:
        self.ran.append(command)
        program = command[0]
        if program in self.failing:
            return Done(1, error=self.failing[program])
        if program == "ping":
            mtu = self.path_mtu(command[-1])
            size = int(command[command.index("-s") + 1]) + (28 if command[1] == "-4" else 48)
            return Done(0 if size <= mtu else 1)
        if program == "modprobe":
            return Done(0 if command[-1] in self.modules else 1)
        if program == "ip":
            listed = ",".join(f'{{"local": "{each}"}}' for each in self.addresses)
            devices = ({"ifname": name, "flags": flags, "addr_info": []} for name, flags in self.flags.items())
            found = json.dumps([*devices])
            return Done(0, found.replace("[]", f"[{listed}]", 1))
        return Done(0, self.installed.get(program, ""))

    def which(self, program: str) -> str | None:
        return f"/usr/sbin/{program}" if program in self.installed else None

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def free(self, path: str) -> tuple[int, int]:
        return self.space

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def server(directory: Path, settings: Settings | None = None, machine: FakeMachine | None = None) -> Subject:
    defaults = {"DEFAULT": {"auth_strategy": "noauth", "state_path": directory / "server", "bind_port": 1}}
    return Subject(SERVER, (write(directory, "server.conf", defaults, settings),), machine or FakeMachine())


def host(directory: Path, settings: Settings | None = None, machine: FakeMachine | None = None) -> Subject:
    credential = directory / "credential"
    credential.write_text("secret")
    credential.chmod(0o600)
    defaults: dict[str, dict[str, object]] = {
        "DEFAULT": {"host": "h1", "state_path": directory / "agent", "roles": "l2,dhcp,l3,metadata"},
        "feed": {"server": f"unix:{directory}/feed.sock", "credential_file": credential},
        "ovs": {
            "ovsdb_connection": f"unix:{directory}/db.sock",
            "run_directory": directory,
            "local_ip": "192.0.2.1",
            "datapath_type": "system",
        },
        "agent": {"tunnel_types": "vxlan"},
    }
    return Subject(HOST, (write(directory, "agent.conf", defaults, settings),), machine or FakeMachine())


def write(directory: Path, name: str, defaults: Settings, settings: Settings | None) -> str:
    given = settings or {}
    merged = {each: {**defaults.get(each, {}), **given.get(each, {})} for each in dict.fromkeys([*defaults, *given])}
    path = directory / name
    path.write_text(configuration(merged))
    path.chmod(0o600)
    return str(path)


def certificate(path: Path, begin: float, end: float, now: float) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key in one file; `begin` and `end` in days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
    at = datetime.datetime.fromtimestamp(now, datetime.UTC)
    usage = x509.KeyUsage(**dict.fromkeys(USAGES, False) | {"digital_signature": True, "key_cert_sign": True})
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at + datetime.timedelta(days=begin))
        .not_valid_after(at + datetime.timedelta(days=end))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    path.chmod(0o600)
    return path
