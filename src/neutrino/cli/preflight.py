"""Checks before a start: all foreseeable errors are found before anything is created or started."""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neutrino import private
from neutrino.cli.errors import INVALID, CommandError, one_line

if TYPE_CHECKING:
    from oslo_config import cfg

    from neutrino.feed.address import Address

NETLINK_NETFILTER = 12  # as in linux/netlink.h; Python has no constant for it
LAB_PROGRAMS = {
    "ovsdb-server": "openvswitch-switch",
    "ovsdb-tool": "openvswitch-common",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-ofctl": "openvswitch-common",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}


def check_files(names: Iterable[str]) -> None:
    """Check that the configuration files can be read; oslo.config reports some of these errors with a traceback."""
    for name in names:
        if not os.path.isfile(name):
            raise CommandError(f"there is no configuration file {name}", INVALID)
        try:
            Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise CommandError(f"configuration file {name} cannot be read: {error.strerror}", INVALID) from None
        except ValueError:
            raise CommandError(f"configuration file {name} is not text in UTF-8", INVALID) from None


def check_port(host: str, port: int, fix: str) -> None:
    """Check that the address is free; granian and asyncio would report one in use with a traceback."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections in TIME_WAIT do not count
            probe.bind(address)
    except OSError as error:
        raise CommandError(f"cannot listen on {host} port {port}: {error.strerror or error}; {fix}") from None


def check_feed_addresses(addresses: Sequence[Address]) -> None:
    """A Unix socket in use is accepted: the feed logs it, and takes it over when the process that serves it ends."""
    for address in addresses:
        if not address.path:
            check_port(address.host, address.port, "stop what listens there, or set [feed] bind")


def check_database(conf: cfg.ConfigOpts) -> None:
    """Connect and upgrade the schema, in a forked process: the supervisor itself must not open the database, and the memory
    that migrations need is freed.

    Call it before this process has threads, whose locks the child would inherit locked.
    """
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            message = _open_database(conf)
        except BaseException as error:
            message = f"{type(error).__name__}: {one_line(error)}"
        os.write(writable, message.encode())
        os._exit(0)
    os.close(writable)
    with open(readable) as pipe:
        message = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:  # killed
        message = f"the check of the database ended with status {os.waitstatus_to_exitcode(status)}"
    if message:
        raise CommandError(message)


def _open_database(conf: cfg.ConfigOpts) -> str:
    """The problem with the database; empty if there is none."""
    import sqlalchemy as sa

    from neutrino.server import config, errors
    from neutrino.server.db import schema
    from neutrino.server.db.session import Database

    logging.disable(logging.CRITICAL)  # the message below is all that is printed
    url = config.database_url(conf)
    try:
        db = Database(url, failover_seconds=0)
        schema.ensure(db, upgrade=conf.database.auto_upgrade)
    except schema.WrongSchema as error:
        return str(error)
    except (sa.exc.SQLAlchemyError, errors.ApiError, OSError) as error:
        return database_problem(url, error)
    return ""


def database_problem(address: str, error: BaseException) -> str:
    """The problem in words, without the password of the address."""
    import sqlalchemy as sa

    url = sa.make_url(address)
    shown = url.database if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)
    return f"the database {shown} cannot be used: {cause(error)}; check [database] connection and its server"


def cause(error: BaseException) -> str:
    """The driver's message; SQLAlchemy's adds the statement and a link."""
    cause: BaseException | None = error
    while cause is not None:
        original = getattr(cause, "orig", None)
        if original is not None:
            return one_line(original)
        cause = cause.__cause__
    return one_line(error)


def check_directory(path: Path) -> None:
    """Create the state directory. Readable for its owner only, as it holds credentials and the database; passable, as
    dnsmasq reads its files as another user.
    """
    try:
        private.own_directory(path, passable=True)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise CommandError(f"cannot write files in {path}: {error.strerror}") from None


def check_privileges(what: str, status: str = "/proc/self/status") -> None:
    from neutrino.agent.programs import CAP_NET_ADMIN, has_capability

    if not has_capability(CAP_NET_ADMIN, status):
        raise CommandError(f"{what} changes network devices, which needs CAP_NET_ADMIN: run it as root")


def missing_netlink(protocol: int = NETLINK_NETFILTER) -> str:
    """Why nftables and conntrack cannot work here; empty if they can.

    Emulation by qemu-user has no netlink but that of devices, addresses and routes: the agent would fail at each network.
    """
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
    except OSError as error:
        return f"netlink of netfilter, which nftables needs, is refused ({error.strerror}), as it is by qemu-user"
    return ""


def missing_programs(packages: Mapping[str, str]) -> dict[str, str]:
    """Those of the programs that are not installed, with the Debian package of each."""
    return {program: package for program, package in packages.items() if shutil.which(program) is None}


def check_programs(packages: Mapping[str, str]) -> None:
    missing = missing_programs(packages)
    if missing:
        names = " ".join(sorted(set(missing.values())))
        raise CommandError(f"{', '.join(sorted(missing))} not found: apt-get install {names}")


def check_lab(port: int, datapath: str) -> None:
    """Whether this machine can run a lab with its API on this port."""
    check_programs(LAB_PROGRAMS)
    # Loaded here: a host of the lab is a network namespace, where modprobe is not permitted.
    for module in ("openvswitch", "vport_vxlan") if datapath == "system" else ():
        if reason := load_module(module):
            raise CommandError(
                f"--datapath system: this kernel has no module {module} ({reason}); "
                "use --datapath netdev, the userspace datapath"
            )
    check_port("127.0.0.1", port, "stop what listens there, or use --port")


def load_module(name: str) -> str:
    """Load a kernel module unless it is loaded; the reason if that fails."""
    if os.path.exists(f"/sys/module/{name}"):
        return ""
    from neutrino.lab.hosts.namespaces import run

    done = run(["modprobe", name], check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"modprobe: exit status {done.returncode}"
