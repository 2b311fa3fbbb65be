"""The guest of the instances: Debian's kernel and an initramfs of busybox that does DHCP, metadata, HTTP and SSH.

Its console (the log of Nova) has a line `GUEST <seconds>s: …` for each step, which the checks read:

    lease eth0 10.0.0.7/24 mtu=1450 routes=…    udhcpc has configured an interface
    instance-id i-…, hostname …                  Nova's metadata service has answered through neutrino
    READY                                        port 8080 serves the instance's id, port 22 accepts its key
    attached eth1, detached eth1                 interfaces that come and go later
"""

from __future__ import annotations

import lzma
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from qa.kernel.busybox import ETC, UDHCPC, add_busybox, add_modules, add_program
from qa.kernel.guest import Archive, KernelFiles, kernel_files, processor
from qa.openstack.cloud import ROOT, WORK, Say

# With their dependencies; what is part of the kernel is left out.
MODULES = ("virtio_pci", "virtio_mmio", "virtio_blk", "virtio_net")
DISK_BYTES = 16 << 20
# Places in a boot image of x86, and what it is packed with.
_X86_SETUP_SECTORS, _X86_MAGIC, _X86_PAYLOAD = 0x1F1, 0x202, 0x248
_XZ = b"\xfd7zXZ\0"
WEB_PORT = 8080  # not 80: Tempest listens there itself
# Programs of this machine: the SSH server; a ping that can forbid fragmentation and a netcat with UDP, unlike busybox's; a
# shell, because busybox's prefers its own programs to those on the path.
PROGRAMS = (Path("/usr/sbin/dropbear"), Path("/usr/bin/ping"), Path("/bin/nc.traditional"), Path("/bin/bash"))
CURL = """#!/bin/sh
data= url=
while [ $# -gt 0 ]; do
    case $1 in
    --data | -d) data=$2; shift ;;
    -X | -H) shift ;;
    http*) url=$1 ;;
    esac
    shift
done
exec wget -q -O - ${data:+--post-data "$data"} "$url"
"""
# CirrOS's nc by Debian's: -k goes on listening, -e takes a program with arguments, and a client waits for the answer.
NETCAT = """#!/bin/sh
options= stays= waits='-q 1'
while [ $# -gt 0 ]; do
    case $1 in
    -lk) options="$options -l" stays=1 waits= ;;
    -lp) options="$options -l -p $2" waits=; shift ;;
    -p | -w) options="$options $1 $2"; shift ;;
    -e)
        shift
        printf '#!/bin/sh\\nexec %s\\n' "$*" >/tmp/nc.$$
        chmod +x /tmp/nc.$$
        options="$options -e /tmp/nc.$$"
        break
        ;;
    -*) options="$options $1" ;;
    *) break ;;
    esac
    shift
done
run() { nc.traditional $options $waits "$@" <&3 & wait $!; }
trap 'killall nc.traditional; exit' TERM
exec 3<&0
[ -z "$stays" ] && { run "$@"; exit; }
while run; do :; done  # until another one has the port
"""
# What test suites expect of a guest beside busybox.
SCRIPTS = {
    "nc": NETCAT,
    "sudo": '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n',
    "curl": CURL,
}

INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
while read -r module; do
    case "$module $(cat /proc/cmdline)" in
    virtio_net.ko\\ *nocsum*) insmod "/modules/$module" csum=0 gso=0 ;;
    *) insmod "/modules/$module" ;;
    esac
done </order
say() { echo "GUEST $(cut -d' ' -f1 /proc/uptime)s: $*"; }
serve() {
    ip link set "$1" up
    udhcpc -i "$1" -p "/var/run/udhcpc.$1.pid" -s /udhcpc -O staticroutes -O mtu -t 30 -T 2 -A 3 -f &
}
get() {
    n=0
    while [ $n -lt 20 ]; do
        timeout 20 wget -q -O - "http://169.254.169.254$1" && return
        n=$((n + 1)); sleep 1
    done
    echo "none"
}
ip link set lo up
say booted
n=0; while [ ! -e /sys/class/net/eth0 ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done
if [ -e /sys/class/net/eth0 ]; then
    serve eth0
    n=0; while [ ! -e /tmp/lease.eth0 ] && [ $n -lt 1200 ]; do sleep 0.1; n=$((n + 1)); done
fi
mkdir -p /tmp/www
id=$(get /latest/meta-data/instance-id)
echo "$id" >/tmp/www/index.html
httpd -p @WEB_PORT@ -h /tmp/www
mount -t devpts devpts /dev/pts 2>/dev/null || { mkdir -p /dev/pts; mount -t devpts devpts /dev/pts; }
# Once: a server without a key has none, and the metadata service has answered before
wget -q -O /root/.ssh/authorized_keys http://169.254.169.254/latest/meta-data/public-keys/0/openssh-key
chmod 600 /root/.ssh/authorized_keys
dropbear -R -s -p 22
name=$(get /latest/meta-data/local-hostname)
hostname "$name"
say "instance-id $id, hostname $name, address $(get /latest/meta-data/local-ipv4)"
say READY
echo "$name login:"  # by which Tempest's plugin knows a guest that has booted
known=eth0
while :; do
    now=
    for i in /sys/class/net/eth*; do [ -e "$i" ] && now="$now ${i##*/}"; done
    for i in $now; do case " $known " in *" $i "*) ;; *) say "attached $i"; serve "$i" ;; esac; done
    for i in $known; do case " $now " in *" $i "*) ;; *) say "detached $i"; rm -f "/tmp/lease.$i" ;; esac; done
    known=$now
    sleep 1
done
"""


@dataclass(frozen=True)
class GuestFiles:
    kernel: Path
    initramfs: Path
    disk: Path

    @property
    def all(self) -> tuple[Path, Path, Path]:
        return self.kernel, self.initramfs, self.disk


def guest_files(say: Say) -> GuestFiles:
    """Build the guest's files; the Debian packages that they are made of are kept, as for `make kernel`."""
    files = kernel_files(ROOT / "build" / "kernel", say)
    work = WORK / "guest"
    work.mkdir(parents=True, exist_ok=True)
    guest = GuestFiles(work / "kernel", work / "initramfs", work / "disk.raw")
    guest.kernel.write_bytes(unpacked_kernel(files.image.read_bytes()))
    guest.initramfs.write_bytes(initramfs(files))
    with guest.disk.open("wb") as disk:
        disk.truncate(DISK_BYTES)
    return guest


def unpacked_kernel(image: bytes) -> bytes:
    """The kernel in a boot image of x86, which QEMU can start itself (PVH); another image as it is.

    Unpacking kernel and initramfs takes an emulated guest more than half of the processor time of its boot.
    """
    if image[_X86_MAGIC : _X86_MAGIC + 4] != b"HdrS":
        return image
    start, length = struct.unpack_from("<II", image, _X86_PAYLOAD)
    start += (image[_X86_SETUP_SECTORS] + 1) * 512
    payload = image[start : start + length]
    if not payload.startswith(_XZ):
        return image
    # After the packed kernel come four bytes with its size.
    return lzma.LZMADecompressor().decompress(payload)


def initramfs(files: KernelFiles) -> bytes:
    archive = Archive()
    for name in ("bin", "modules", "proc", "sys", "dev", "tmp", "etc", "etc/dropbear", "var", "var/run"):
        archive.add(name, b"", stat.S_IFDIR | 0o755)
    for name in ("root", "root/.ssh"):  # of its owner alone, as the SSH server demands
        archive.add(name, b"", stat.S_IFDIR | 0o700)
    for program in PROGRAMS:
        add_program(archive, program)
    for script, text in SCRIPTS.items():
        archive.add(f"bin/{script}", text.encode(), stat.S_IFREG | 0o755)
    archive.add("bin/sh", b"bash", stat.S_IFLNK | 0o777)
    archive.add("sbin", b"bin", stat.S_IFLNK | 0o777)  # /sbin/ip, for test suites
    add_busybox(archive, files, without=("sh", "ping", "nc"))
    add_modules(archive, files, MODULES)
    for name, text in ETC.items():
        archive.add(f"etc/{name}", text.encode(), stat.S_IFREG | 0o644)
    archive.add("udhcpc", UDHCPC.encode(), stat.S_IFREG | 0o755)
    archive.add("init", INIT.replace("@WEB_PORT@", str(WEB_PORT)).encode(), stat.S_IFREG | 0o755)
    return archive.finish()


def kernel_command_line(*, offloads: bool) -> str:
    """`offloads`: the guest leaves the checksums of TCP to virtio, as is the default of every system.

    On the userspace datapath of Open vSwitch, which reads a tap before anything has computed them, its conntrack drops such
    packets as invalid: the native firewall there needs guests that compute checksums themselves.
    """
    # An emulated x86 misses ticks on a busy machine, and its kernel would look for another timer, sometimes for minutes.
    timer = " no_timer_check" if processor().debian == "amd64" else ""
    return f"console={processor().console} rdinit=/init quiet panic=5{timer}{'' if offloads else ' nocsum'}"
