"""Make the pictures of the topology page in docs/images anew, as root: screenshots of tests with real hosts.

python -m qa.page.pictures
"""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.support.browser import ROOT, SCREENSHOTS

# The picture, and the test that makes it with the name of its screenshot.
PICTURES = {
    "topology.png": ("tests/lab/test_ui.py::test_a_trace_is_drawn_on_the_graph", "lab-trace-delivered.png"),
}


def main() -> None:
    tests = sorted({test for test, _ in PICTURES.values()})
    for _, screenshot in PICTURES.values():
        (SCREENSHOTS / screenshot).unlink(missing_ok=True)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", *tests], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    for name, (_, screenshot) in PICTURES.items():
        shutil.copyfile(SCREENSHOTS / screenshot, ROOT / "docs" / "images" / name)
        print(f"docs/images/{name}")


if __name__ == "__main__":
    main()
