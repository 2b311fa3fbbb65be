"""`scripts/suite`: nothing is left of a run that was killed, and tests that pass only by themselves are named."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import wait_until

ROOT = Path(__file__).parents[2]
WAITING = """
import subprocess, tempfile, time
from pathlib import Path

def test_waits():
    Path(tempfile.mkdtemp(), "file").touch()
    subprocess.Popen(["sleep", "1000"], start_new_session=True)
    *_, tmp = (line.split()[3] for line in open("/proc/self/mountinfo") if line.split()[4] == "/var/tmp")
    namespace = Path("/proc/self/ns/pid").readlink()
    ready = Path(__file__).with_name("ready")
    ready.with_suffix(".new").write_text(f"{namespace} {Path(tmp).parent.name}")
    ready.with_suffix(".new").rename(ready)
    time.sleep(1000)
"""
UNSTABLE = """
from pathlib import Path

def test_passes_the_second_time():
    already = Path(__file__).with_name("already")
    ran = already.exists()
    already.touch()
    assert ran

def test_passes():
    pass
"""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


@pytest.fixture
def directory() -> Iterator[Path]:
    """In the checkout: the suite hides all else of /tmp."""
    (ROOT / "build").mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="suite-", dir=ROOT / "build"))
    yield path
    shutil.rmtree(path)


def start(directory: Path, code: str) -> subprocess.Popen[str]:
    (directory / "test_it.py").write_text(code)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        [ROOT / "scripts/suite", directory / "test_it.py"],
        env={**environment, "STATE": str(directory), "WORKERS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def in_namespace(namespace: str) -> list[str]:
    """The processes of a PID namespace."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if str((entry / "ns/pid").readlink()) == namespace:
                found.append(entry.name)
        except OSError:
            continue  # it has ended meanwhile
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_run_leaves_no_process_and_no_directory(directory: Path, number: signal.Signals) -> None:
    process = start(directory, WAITING)
    ready = directory / "ready"
    wait_until(
        ready.exists, timeout=120, what="the test", failed=lambda: "has ended" if process.poll() is not None else None
    )
    namespace, tmp = ready.read_text().split()
    assert len(in_namespace(namespace)) >= 4  # the script, pytest, its worker, what the test has started
    assert (Path("/tmp") / tmp).exists()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode != 0
    wait_until(lambda: not in_namespace(namespace), timeout=60, what="the end of all processes", failed=lambda: None)
    wait_until(lambda: not (Path("/tmp") / tmp).exists(), timeout=60, what="its removal", failed=lambda: None)


def test_a_test_that_passes_only_by_itself_is_named_and_counted(directory: Path) -> None:
    name = f"{directory.relative_to(ROOT)}/test_it.py::test_passes_the_second_time"
    (directory / "unstable").write_text(f"{name}\n")  # of an earlier run
    output, _ = (process := start(directory, UNSTABLE)).communicate(timeout=180)
    assert process.returncode == 0, output
    assert "suite: 1 passed only by themselves" in output
    assert output.splitlines()[-1].split() == ["2", name]
