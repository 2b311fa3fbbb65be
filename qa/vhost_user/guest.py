"""A QEMU guest with a vhost-user interface: Debian's kernel and busybox.

Its console is a shell without prompt and echo: `Guest.run` sends a command, and reads its output up to a line with the
exit status. The guest configures its interface by DHCP and SLAAC, and knows nothing of the test.
"""

from __future__ import annotations

import gzip
import itertools
import re
import socket
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.processes import STOP_SECONDS, is_alive
from neutrino.lab.timing import scaled
from qa.kernel.busybox import ETC, UDHCPC, add_busybox, add_modules
from qa.kernel.guest import TIMER, Archive, KernelFiles, accelerator, processor
from tests.support.lab_control import end

MODULES = ("virtio_pci", "virtio_net", "8021q")
MEMORY_MB = 256
BOOT_SECONDS = 400.0  # an emulated guest beside other work; usually half a minute
COMMAND_SECONDS = 90.0
INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
stty -echo
for round in 1 2; do while read -r module; do insmod "/modules/$module" 2>/dev/null; done </order; done
ip link set lo up
for device in /sys/class/net/eth*; do
    device=${device##*/}
    ip link set "$device" up
    udhcpc -i "$device" -s /udhcpc -O staticroutes -O mtu -t 1000 -T 2 -A 2 -f >/dev/null 2>&1 &
done
mkdir -p /tmp/www
echo "GUEST READY"
while read -r number line; do
    eval "$line" </dev/null
    echo "GUEST STATUS $number $?"
done
"""
_STATUS = re.compile(rb"GUEST STATUS (\d+) (\d+)\r?\n")


def initramfs(files: KernelFiles) -> bytes:
    archive = Archive()
    for name in ("bin", "modules", "proc", "sys", "dev", "tmp", "etc", "root", "var", "var/run"):
        archive.add(name, b"", stat.S_IFDIR | 0o755)
    add_busybox(archive, files)
    add_modules(archive, files, MODULES)
    for name, text in ETC.items():
        archive.add(f"etc/{name}", text.encode(), stat.S_IFREG | 0o644)
    archive.add("udhcpc", UDHCPC.encode(), stat.S_IFREG | 0o755)
    archive.add("init", INIT.encode(), stat.S_IFREG | 0o755)
    return gzip.compress(archive.finish(), 6)


@dataclass(frozen=True)
class Interface:
    """A vhost-user interface of a guest, by the port's binding."""

    path: str  # of the socket
    mode: str  # of QEMU: `server` listens on the socket, `client` connects to that of the switch
    mac: str


def qemu_arguments(kernel: Path, ramdisk: Path, console: Path, interface: Interface, *, emulated: bool) -> list[str]:
    """As libvirt starts it: the memory is shared, which is what the switch reads and writes packets in."""
    cpu = processor()
    # Without interrupt vectors: emulated, QEMU 7.2 crashes when a vhost device gets one (msix_set_vector_notifiers).
    # A client tries again, as the switch may restart; a server does not wait for the switch to connect.
    ends = {"server": "server=on,wait=off", "client": "reconnect=1"}
    return [
        *(cpu.qemu, *cpu.machine, *accelerator(emulated=emulated), "-smp", "1", "-m", str(MEMORY_MB), "-nodefaults"),
        *("-object", f"memory-backend-memfd,id=memory,size={MEMORY_MB}M,share=on", "-machine", "memory-backend=memory"),
        *("-display", "none", "-no-reboot", "-serial", f"unix:{console},server=on,wait=off"),
        *("-chardev", f"socket,id=interface,path={interface.path},{ends[interface.mode]}"),
        *("-netdev", "vhost-user,chardev=interface,id=network"),
        *("-device", f"virtio-net-pci,netdev=network,mac={interface.mac},romfile=,vectors=0"),
        *("-kernel", str(kernel), "-initrd", str(ramdisk)),
        *("-append", f"console={cpu.console} rdinit=/init quiet loglevel=1 panic=-1 mitigations=off audit=0 {TIMER}"),
    ]


class Guest:
    """A running guest."""

    def __init__(self, name: str, pid: int, console: Path, log: Callable[[], str]) -> None:
        self.name = name
        self._pid = pid
        self._log = log
        self._numbers = itertools.count()
        self._text = b""
        self._socket = self._connected(console)

    def wait_until_booted(self) -> None:
        self._read_until(re.compile(rb"GUEST READY\r?\n"), scaled(BOOT_SECONDS), "boot")

    def run(self, command: str, *, seconds: float = COMMAND_SECONDS, check: bool = True) -> str:
        """The output of a shell command. With `check`, an exit status other than 0 is an error."""
        number = next(self._numbers)
        self._socket.sendall(f"{number} {command}\n".encode())
        output, status = "", -1
        while True:
            before, found = self._read_until(_STATUS, scaled(seconds), command)
            if int(found[1]) == number:  # not that of an earlier command, which had timed out
                output, status = before, int(found[2])
                break
        if check and status:
            raise LabError(f"{self.name}: {command} failed with exit status {status}: {output}")
        return output

    def succeeds(self, command: str, *, seconds: float = COMMAND_SECONDS) -> bool:
        return "it does" in self.run(f"if {command} >/dev/null 2>&1; then echo it does; fi", seconds=seconds)

    def stop(self) -> None:
        """As a power failure does it, and as Nova ends an instance that does not shut down."""
        self._socket.close()
        end(self._pid, kill=True)

    def _connected(self, console: Path) -> socket.socket:
        give_up = time.monotonic() + scaled(30)
        while True:
            opened = socket.socket(socket.AF_UNIX)
            try:
                opened.connect(str(console))
                return opened
            except OSError:
                opened.close()
                self._check_running()
                if time.monotonic() > give_up:
                    raise LabError(f"{self.name}: QEMU does not open its console: {self._log()}") from None
                time.sleep(0.05)

    def _read_until(self, pattern: re.Pattern[bytes], seconds: float, what: str) -> tuple[str, re.Match[bytes]]:
        """What the guest has written before the pattern."""
        give_up = time.monotonic() + seconds
        while (found := pattern.search(self._text)) is None:
            self._socket.settimeout(max(give_up - time.monotonic(), 0.001))
            try:
                part = self._socket.recv(65536)
            except TimeoutError:
                self._check_running()
                said = self._text[-2000:].decode(errors="replace")
                raise LabError(f"{self.name}: {what} did not end within {seconds:.0f} s: {said}") from None
            if not part:
                wait_until(lambda: not is_alive(self._pid), STOP_SECONDS, f"{self.name}: QEMU has closed the console")
                self._check_running()
            self._text += part
        before, self._text = self._text[: found.start()], self._text[found.end() :]
        return before.decode(errors="replace").replace("\r\n", "\n"), found

    def _check_running(self) -> None:
        if not is_alive(self._pid):
            said = self._text[-2000:].decode(errors="replace")
            raise LabError(f"{self.name}: QEMU ended: {self._log()}; its console: {said}")
