"""A QEMU guest with a Debian kernel, which has the Open vSwitch datapath that this machine's kernel may lack.

The guest's root is the machine's own root file system, read-only over 9p, below a writable overlay in memory: every
program, and this checkout with its .venv, are available, also below /tmp. It has no network. It runs one command as root
and powers off. With a working /dev/kvm it is as fast as the machine; otherwise it is emulated, about forty times slower.
KERNEL_GUEST_EMULATED=1 emulates it in any case, KERNEL_GUEST_MEMORY is its memory.

`kernel_files` downloads and unpacks the kernel and a static busybox; neither is installed. `Guest.run` boots.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import io
import lzma
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

Say = Callable[[str], None]
# The check that timer interrupts arrive, whose failure is a panic, fails where an emulated guest gets too little time.
TIMER = "no_timer_check"
MEMORY = os.environ.get("KERNEL_GUEST_MEMORY", "3G")
EMULATED = os.environ.get("KERNEL_GUEST_EMULATED", "") not in ("", "0")
KVM_SECONDS = 20.0
# Modules that the initramfs needs to mount the root file system.
BOOT_MODULES = ("virtio_mmio", "virtio_pci", "9pnet_virtio", "9p", "overlay")
# Loaded before the command; a missing one is an error.
MODULES = (
    *("openvswitch", "vport-vxlan", "vport-gre", "vport-geneve", "vxlan", "geneve", "ip_gre", "ip6_gre", "veth"),
    *("8021q", "tun", "bridge", "br_netfilter", "nf_tables", "nf_conntrack", "ip_set"),
)
POWEROFF_SECONDS = 30.0
INIT = """#!/bin/sh
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module"; done </order
options=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o $options,ro,cache=loose root /ro || exec sh
mount -t tmpfs -o size=2G,mode=755 up /up; mkdir /up/upper /up/work
mount -t overlay -o lowerdir=/ro,upperdir=/up/upper,workdir=/up/work overlay /new || exec sh
mount -t proc proc /new/proc; mount -t sysfs sysfs /new/sys; mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts devpts /new/dev/pts; mount -t tmpfs shm /new/dev/shm; mount -t tmpfs -o mode=755 run /new/run
mkdir -p /new/run/share; mount -t 9p -o $options,cache=none share /new/run/share
exec switch_root /new /bin/bash /run/share/inside
"""
INSIDE = """#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONUNBUFFERED=1
run() {{
    local release; release=$(uname -r)
    mkdir -p "/lib/modules/$release" /run/netns /run/lock /run/openvswitch
    mount --bind {kernel}/lib/modules/"$release" "/lib/modules/$release" || return
    local module; for module in {modules}; do modprobe "$module" || return; done
    ip link set lo up
    cd {directory} && {command}
}}
run >/run/share/output 2>&1 </dev/null
echo $? >/run/share/status
sync
echo o >/proc/sysrq-trigger
sleep 60
"""


class GuestError(Exception):
    """The guest could not be built, or failed."""


@dataclasses.dataclass(frozen=True)
class Processor:
    """Settings by processor: package names and QEMU options."""

    debian: str
    qemu: str
    package: str
    machine: tuple[str, ...]
    emulated_cpu: str
    console: str
    transport: str  # of the devices of virtio


PROCESSORS = {
    "aarch64": Processor(
        debian="arm64",
        qemu="qemu-system-aarch64",
        package="qemu-system-arm",
        machine=("-machine", "virt,gic-version=max"),
        emulated_cpu="max,pauth-impdef=on",
        console="ttyAMA0",
        transport="device",
    ),
    "x86_64": Processor(
        debian="amd64",
        qemu="qemu-system-x86_64",
        package="qemu-system-x86",
        machine=("-machine", "q35"),
        emulated_cpu="max",
        console="ttyS0",
        transport="pci",
    ),
}


def processor() -> Processor:
    name = platform.machine()
    if name not in PROCESSORS:
        raise GuestError(f"there is no guest for {name}: only for {', '.join(PROCESSORS)}")
    return PROCESSORS[name]


# --- files ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class KernelFiles:
    root: Path  # the unpacked package
    busybox: Path

    @property
    def release(self) -> str:
        (found,) = (self.root / "lib/modules").iterdir()
        return found.name

    @property
    def image(self) -> Path:
        return self.root / "boot" / f"vmlinuz-{self.release}"


def kernel_files(cache: Path, say: Say) -> KernelFiles:
    """Kept in `cache`, which may be removed at any time."""
    ready = cache / "ready"
    if not ready.exists():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        package = _kernel_package(processor().debian)
        say(f"download {package} and busybox-static")
        call(["apt-get", "download", "-qq", package, "busybox-static"], cwd=cache)
        say("unpack them")
        (kernel,), (busybox,) = cache.glob("linux-image*.deb"), cache.glob("busybox-static*.deb")
        for archive, name in ((kernel, "kernel"), (busybox, "busybox")):
            call(["dpkg-deb", "-x", str(archive), name], cwd=cache)
            archive.unlink()
        root = cache / "kernel"
        if not (root / "lib").exists():  # where the package has it under /usr
            (root / "lib").symlink_to("usr/lib")
        call(["depmod", "-b", str(root), KernelFiles(root, root).release])
        ready.touch()
    found = [path for name in ("bin/busybox", "usr/bin/busybox") if (path := cache / "busybox" / name).exists()]
    return KernelFiles(cache / "kernel", found[0])


def _kernel_package(debian: str) -> str:
    """The package that `linux-image-<processor>` stands for."""
    for line in call(["apt-cache", "depends", f"linux-image-{debian}"]).splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    raise GuestError(f"apt has no package linux-image-{debian}: apt-get update")


def initramfs(files: KernelFiles) -> bytes:
    """busybox and the modules that the root file system needs, in load order."""
    archive = Archive()
    for name in ("bin", "modules", "proc", "sys", "dev", "ro", "up", "new"):
        archive.add(name, b"", stat.S_IFDIR | 0o755)
    archive.add("bin/busybox", files.busybox.read_bytes(), stat.S_IFREG | 0o755)
    for name in ("sh", "mount", "insmod", "mkdir", "switch_root"):
        archive.add(f"bin/{name}", b"busybox", stat.S_IFLNK | 0o777)
    order: list[str] = []
    for module in BOOT_MODULES:
        show = ["modprobe", "-d", str(files.root), "-S", files.release, "--show-depends", module]
        for line in call(show).splitlines():
            path = Path(line.split()[1]) if line.startswith("insmod") else None  # others are part of the kernel
            if path is not None and (name := path.name.removesuffix(".xz")) not in order:
                order.append(name)
                content = path.read_bytes()
                archive.add(
                    f"modules/{name}",
                    lzma.decompress(content) if path.suffix == ".xz" else content,
                    stat.S_IFREG | 0o644,
                )
    archive.add("order", "".join(f"{name}\n" for name in order).encode(), stat.S_IFREG | 0o644)
    archive.add("init", INIT.encode(), stat.S_IFREG | 0o755)
    return gzip.compress(archive.finish(), 1)


class Archive:
    """A cpio archive in the "newc" format of an initramfs."""

    def __init__(self) -> None:
        self._out = io.BytesIO()
        self._number = 0

    def add(self, name: str, content: bytes, mode: int) -> None:
        self._number += 1
        links = 2 if stat.S_ISDIR(mode) else 1
        encoded = name.encode() + b"\0"
        numbers = (self._number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        self._write(b"070701" + b"".join(b"%08X" % number for number in numbers) + encoded)
        self._write(content)

    def _write(self, part: bytes) -> None:
        self._out.write(part + b"\0" * (-len(part) % 4))

    def finish(self) -> bytes:
        self.add("TRAILER!!!", b"", 0)
        return self._out.getvalue()


def call(argv: Sequence[str], cwd: Path | None = None, seconds: float = 600) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, timeout=seconds)
    except OSError as error:
        raise GuestError(f"{argv[0]}: {error.strerror}") from None
    if done.returncode:
        raise GuestError(f"{' '.join(argv)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


# --- running ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Qemu:
    """A QEMU that is not the machine's own, such as one with other devices."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)


def accelerator(*, emulated: bool) -> list[str]:
    """QEMU's arguments for the processor."""
    if emulated:
        return ["-accel", "tcg,thread=multi", "-cpu", processor().emulated_cpu]
    return ["-accel", "kvm", "-cpu", "host"]


def boots_with_kvm(files: KernelFiles) -> bool:
    """Whether a kernel runs with KVM: in some nested virtual machines /dev/kvm is there, and a guest hangs as it starts."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    cpu = processor()
    argv = [
        *(cpu.qemu, *cpu.machine, *accelerator(emulated=False), "-m", "256", "-nographic", "-nic", "none"),
        *("-no-reboot", "-monitor", "none", "-serial", "null", "-kernel", str(files.image), "-append", "panic=-1"),
    ]
    try:  # without a root file system the kernel panics, and QEMU ends
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=KVM_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class Guest:
    """`devices`: further options of QEMU; `modules`: that are loaded before the command."""

    def __init__(
        self,
        files: KernelFiles,
        qemu: Qemu | None = None,
        devices: Sequence[str] = (),
        modules: Sequence[str] = MODULES,
    ) -> None:
        self._files = files
        self._processor = processor()
        self._emulator = qemu or Qemu((self._processor.qemu,))
        self._devices = devices
        self._modules = modules

    @functools.cached_property
    def is_emulated(self) -> bool:
        return EMULATED or not boots_with_kvm(self._files)

    def run(self, command: Sequence[str], directory: Path, seconds: float, output: Say) -> int:
        """Boot, run a command, power off; output is passed on line by line. Gives the command's exit status."""
        with tempfile.TemporaryDirectory(prefix="neutrino-kernel-") as name:
            here = Path(name)
            (here / "initrd").write_bytes(initramfs(self._files))
            share = here / "share"
            share.mkdir()
            inside = INSIDE.format(
                kernel=shlex.quote(str(self._files.root)),
                modules=" ".join(self._modules),
                directory=shlex.quote(str(directory)),
                command=shlex.join(command),
            )
            (share / "inside").write_text(inside)
            with self._booted(here) as process:
                self._follow(process, share, time.monotonic() + seconds, output)
            try:
                return int((share / "status").read_text())
            except (OSError, ValueError):
                console = (here / "console").read_text(errors="replace")[-2000:]
                said = (here / "qemu.log").read_text(errors="replace")
                raise GuestError(f"the guest ended before its command did:\n{said}{console}") from None

    @contextlib.contextmanager
    def _booted(self, here: Path) -> Iterator[subprocess.Popen[bytes]]:
        with (here / "qemu.log").open("wb") as log:
            environment = {**os.environ, **self._emulator.environment}
            process = subprocess.Popen(
                self._qemu(here), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=here, env=environment
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _qemu(self, here: Path) -> list[str]:
        cpu = self._processor
        accelerated = accelerator(emulated=self.is_emulated)

        def shared(tag: str, path: Path, options: str) -> list[str]:
            system = f"local,id={tag},path={path},multidevs=remap,{options}"
            return ["-fsdev", system, "-device", f"virtio-9p-{cpu.transport},fsdev={tag},mount_tag={tag}"]

        return [
            *(
                *self._emulator.command,
                *cpu.machine,
                *accelerated,
                "-smp",
                "2",
                "-m",
                MEMORY,
                "-nographic",
                "-nic",
                "none",
            ),
            *("-no-reboot", "-monitor", "none", "-serial", f"file:{here}/console"),
            *("-kernel", str(self._files.image), "-initrd", str(here / "initrd")),
            *("-append", f"console={cpu.console} quiet panic=-1 mitigations=off nokaslr audit=0 {TIMER}"),
            *shared("root", Path("/"), "security_model=passthrough,readonly=on"),
            *shared("share", here / "share", "security_model=none"),
            *("-device", f"virtio-rng-{cpu.transport}"),
            *self._devices,
        ]

    def _follow(self, process: subprocess.Popen[bytes], share: Path, deadline: float, output: Say) -> None:
        """Pass on what the command writes, until the guest is off."""
        seen, ended = 0, None
        while True:
            over = process.poll() is not None
            text = (share / "output").read_bytes() if (share / "output").exists() else b""
            while (end := text.find(b"\n", seen)) >= 0:
                output(text[seen:end].decode(errors="replace"))
                seen = end + 1
            now = time.monotonic()
            if over:
                return
            if (share / "status").exists():
                ended = ended or now
                if now > ended + POWEROFF_SECONDS:
                    return  # the command is done: QEMU is terminated
            elif now > deadline:
                raise GuestError("the guest did not end in time")
            time.sleep(0.5)


def main(arguments: Sequence[str]) -> int:
    """`python -m qa.kernel.guest COMMAND …` runs any command in the guest."""
    root = Path(__file__).resolve().parents[2]
    files = kernel_files(root / "build" / "kernel", print)
    return Guest(files).run(arguments, Path.cwd(), 24 * 3600, print)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
