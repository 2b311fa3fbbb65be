"""Parts of guests that are a Debian kernel and an initramfs of busybox: programs, modules, a DHCP client."""

from __future__ import annotations

import lzma
import re
import stat
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from qa.kernel.guest import Archive, KernelFiles

# A static busybox loads no modules of the C library for names, which has files and DNS built in (its wget crashes with -T).
ETC = {
    "passwd": "root:x:0:0::/root:/bin/sh\n",
    "group": "root:x:0:\n",
    "shells": "/bin/sh\n",
    "nsswitch.conf": "hosts: files dns\n"
    + "".join(f"{name}: files\n" for name in ("passwd", "services", "networks", "protocols")),
    "services": "http 80/tcp\n",
    "hosts": "127.0.0.1 localhost\n",
}
UDHCPC = """#!/bin/sh
# Address, MTU, and routes: option 121 instead of option 3
case $1 in
deconfig) ip link set "$interface" up ;;
bound | renew)
    ip addr flush dev "$interface" scope global
    [ -n "$mtu" ] && ip link set "$interface" mtu "$mtu"
    ip addr add "$ip/$mask" dev "$interface"
    if [ -n "$staticroutes" ]; then
        routes=$staticroutes
        set -- $staticroutes
        while [ $# -ge 2 ]; do
            [ "$2" = 0.0.0.0 ] && via= || via="via $2"
            ip route replace "$1" $via dev "$interface"
            shift 2
        done
    elif [ -n "$router" ]; then
        routes="0.0.0.0/0 $router"
        ip route replace default via "${router%% *}" dev "$interface"
    fi
    {
        [ -n "${search:-$domain}" ] && echo "search ${search:-$domain}"
        for server in $dns; do echo "nameserver $server"; done
    } >/etc/resolv.conf
    lease="$interface $ip/$mask mtu=$mtu routes=[$routes]"
    [ -e "/tmp/lease.$interface" ] || echo "GUEST $(cut -d' ' -f1 /proc/uptime)s: lease $lease"
    touch "/tmp/lease.$interface"
    ;;
esac
"""


def add_busybox(archive: Archive, files: KernelFiles, without: Collection[str] = ()) -> None:
    """busybox as all of its programs, but those for which the guest has others."""
    archive.add("bin/busybox", files.busybox.read_bytes(), stat.S_IFREG | 0o755)
    for name in _run([str(files.busybox), "--list"]).split():
        if name != "busybox" and name not in without:
            archive.add(f"bin/{name}", b"busybox", stat.S_IFLNK | 0o777)


def add_modules(archive: Archive, files: KernelFiles, modules: Sequence[str]) -> None:
    """Modules with their dependencies below `modules`, and `order`: their names in load order.

    What is part of the kernel is left out.
    """
    order: list[str] = []
    for module in modules:
        show = ["modprobe", "-d", str(files.root), "-S", files.release, "--show-depends", module]
        for line in _run(show).splitlines():
            path = Path(line.split()[1]) if line.startswith("insmod") else None
            if path is not None and (name := path.name.removesuffix(".xz")) not in order:
                order.append(name)
                content = path.read_bytes()
                content = lzma.decompress(content) if path.suffix == ".xz" else content
                archive.add(f"modules/{name}", content, stat.S_IFREG | 0o644)
    archive.add("order", "".join(f"{name}\n" for name in order).encode(), stat.S_IFREG | 0o644)


def add_program(archive: Archive, program: Path) -> None:
    """A program of this machine as `bin/NAME`, and the shared libraries that it loads, at their paths."""
    for path, content in _with_libraries(program):
        for parent in reversed(Path(path).parents[:-1]):
            archive.add(str(parent), b"", stat.S_IFDIR | 0o755)
        archive.add(path, content, stat.S_IFREG | 0o755)


def _with_libraries(program: Path) -> list[tuple[str, bytes]]:
    found = re.findall(r"(/\S+) \(0x", _run(["ldd", str(program)]))
    return [
        (f"bin/{program.name}", program.read_bytes()),
        *((path.lstrip("/"), Path(path).read_bytes()) for path in found),
    ]


def _run(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
