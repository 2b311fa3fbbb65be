"""QEMU with an emulated Intel 82576, a card with SR-IOV: `-device igb`, which QEMU has from version 8 on.

Where the machine's own is older, as in Debian 12, that of Debian 13 is unpacked into a bare root below the cache directory,
by debootstrap, and runs with that root's loader and libraries: as the machine's processes do, without a chroot.
"""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

from qa.kernel.guest import Processor, Qemu, Say, call

LEAST = 8
RELEASE = "trixie"
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}
FIRMWARE = ("share/qemu", "share/seabios", "lib/ipxe/qemu")


def with_igb(processor: Processor, cache: Path, say: Say) -> Qemu:
    """The machine's QEMU if it is new enough; else that of Debian 13, kept in `cache`."""
    own = shutil.which(processor.qemu)
    if own is not None and _version(own) >= LEAST:
        return Qemu((own,))
    root = cache / "root"
    if not (cache / "ready").exists():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        say(f"debootstrap {RELEASE} with {processor.package}, for a QEMU with the card igb: some minutes")
        # In a mount namespace, with which its mounts go also where it is interrupted.
        mounts = ("unshare", "--mount", "--propagation", "private")
        options = ("--variant=minbase", f"--include={processor.package}")
        call([*mounts, "debootstrap", *options, RELEASE, str(root), *_mirror()], seconds=1800)
        (cache / "ready").touch()
    return _of_root(processor, root)


def card(wire: int, number: int) -> list[str]:
    """Options for a card below a root port of its own; cards with the same wire are connected."""
    name = f"card{number}"
    return [
        *("-netdev", f"hubport,id={name}-wire,hubid={wire}"),
        *("-device", f"pcie-root-port,id={name}-port,chassis={number + 1},slot={number + 1}"),
        *("-device", f"igb,bus={name}-port,netdev={name}-wire,mac=02:00:00:00:0{number}:00"),
    ]


def _of_root(processor: Processor, root: Path) -> Qemu:
    libraries = next((root / "usr/lib").glob(f"{platform.machine()}-linux-gnu"))
    loader = (str(libraries / LOADERS[platform.machine()]), "--library-path", str(libraries))
    firmware = (option for path in FIRMWARE for option in ("-L", str(root / "usr" / path)))
    command = (*loader, str(root / "usr/bin" / processor.qemu), *firmware)
    return Qemu(command, {"QEMU_MODULE_DIR": str(libraries / "qemu")})


def _version(program: str) -> int:
    found = re.search(r"version (\d+)", call([program, "--version"]))
    return int(found[1]) if found else 0


def _mirror() -> list[str]:
    """The Debian archive that apt uses on this machine; none: debootstrap's default."""
    targets = call(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"])
    found = [line.split()[1] for line in targets.splitlines() if line.startswith("Debian ")]
    return [address for address in found if "security" not in address][:1]
