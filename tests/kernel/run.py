"""`make kernel`: tests of the kernel's Open vSwitch datapath, in a guest that has it.

Takes a quarter of an hour where the guest is emulated, a minute with /dev/kvm. Arguments are pytest's.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.kernel.guest import Guest, GuestError, kernel_files

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 3600.0
# Without plugins that these tests do not need: an emulated guest takes minutes to import them.
PYTEST = (
    *("env", "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", "PYTHONDONTWRITEBYTECODE=1"),
    *(sys.executable, "-m", "pytest", "--verbose", "--noconftest", "-p", "no:cacheprovider", "--durations=5"),
    "--maxfail=3",
)
FILES = ("tests/kernel/flows.py", "tests/kernel/packets.py")


def main(arguments: Sequence[str]) -> int:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {text}", flush=True)

    if os.geteuid() != 0:
        print("make kernel: the guest reads the machine's files as they are: run this as root", file=sys.stderr)
        return 1
    try:
        files = kernel_files(ROOT / "build" / "kernel", say)
        guest = Guest(files)
        speed = "emulated: this takes a while" if guest.is_emulated else "with KVM"
        say(f"boot Linux {files.release}, {speed}")
        status = guest.run([*PYTEST, *(arguments or FILES)], ROOT, SECONDS, say)
    except GuestError as error:
        print(f"make kernel: {error}", file=sys.stderr)
        return 1
    say("all is well" if status == 0 else f"it failed with status {status}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
