"""`make kernel`: tests of the kernel's Open vSwitch datapath, in a guest that has it.

Takes one to two hours where the guest is emulated, minutes with /dev/kvm. Arguments are pytest's:
`make kernel PYTEST_ARGS=qa/kernel/routers.py`.
"""

from __future__ import annotations

import compileall
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from neutrino.lab import timing
from qa.kernel.guest import Guest, GuestError, KernelFiles, Say, kernel_files, processor
from qa.kernel.qemu import card, with_igb

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 3 * 3600.0
EMULATION_FACTOR = 40  # how much slower an emulated guest is than the machine: all time-outs of a lab are scaled by it
# Without plugins that these tests do not need: an emulated guest takes minutes to import them.
PYTEST = (
    *(sys.executable, "-m", "pytest", "--verbose", "--noconftest", "-p", "no:cacheprovider", "--durations=10"),
    "--maxfail=5",
)
# The datapath and its flows alone, then a whole cloud: server, feed, and the agents of two hosts with all roles.
FILES = (
    "qa/kernel/flows.py",
    "qa/kernel/packets.py",
    "qa/kernel/takeover.py",
    "qa/kernel/networks.py",
    "qa/kernel/routers.py",
    "qa/kernel/limits.py",
    "qa/kernel/restarts.py",
    "qa/kernel/services.py",
)
# In a guest of its own, with two cards on one wire.
CARD_FILES = ("qa/kernel/sriov.py",)
CARD_MODULES = ("8021q", "igb", "igbvf")


CLOUD = ("-p", "qa.kernel.cloud")  # of the tests that share a cloud


def command(arguments: Sequence[str], *, emulated: bool) -> list[str]:
    factor = EMULATION_FACTOR if emulated else 1
    environment = (
        f"{timing.VARIABLE}={factor}",
        "NEUTRINO_TEST_DATAPATH=system",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",
        "PYTHONDONTWRITEBYTECODE=1",
    )
    return ["env", *environment, *PYTEST, *arguments]


def guests(files: KernelFiles, arguments: Sequence[str], say: Say) -> Iterator[tuple[Guest, Sequence[str]]]:
    """The guests with their tests, each made when the one before is done."""
    named = any(argument.partition("::")[0] in CARD_FILES for argument in arguments)
    if not named:
        yield Guest(files), [*CLOUD, *(arguments or FILES)]
    if named or not arguments:
        qemu = with_igb(processor(), ROOT / "build" / "kernel-qemu", say)
        yield Guest(files, qemu, [*card(0, 0), *card(0, 1)], CARD_MODULES), arguments or CARD_FILES


def main(arguments: Sequence[str]) -> int:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    if os.geteuid() != 0:
        print("make kernel: the guest reads the machine's files as they are: run this as root", file=sys.stderr)
        return 1
    try:
        files = kernel_files(ROOT / "build" / "kernel", say)
        # Here: in the guest, each process that a lab starts would take minutes to compile what it imports.
        for directory in ("src", "qa/kernel", "tests/lab", "tests/support"):
            compileall.compile_dir(ROOT / directory, quiet=1)
        status = 0
        for guest, tests in guests(files, arguments, say):
            speed = "emulated: this takes a while" if guest.is_emulated else "with KVM"
            say(f"boot Linux {files.release}, {speed}")
            status = guest.run(command(tests, emulated=guest.is_emulated), ROOT, SECONDS, say) or status
    except GuestError as error:
        print(f"make kernel: {error}", file=sys.stderr)
        return 1
    say("all is well" if status == 0 else f"it failed with status {status}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
