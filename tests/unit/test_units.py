"""systemd units, sysusers, tmpfiles and logrotate files of the packages."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.packaging import PACKAGING, packages

UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
# The highest accepted exposure of `systemd-analyze security`, from 0 (none) to 10. The agent configures the host's network.
EXPOSURE = {"neutrino-server.service": 1.5, "neutrino-feed.service": 1.5, "neutrino-agent.service": 6.0}


def _unit(path: Path) -> configparser.RawConfigParser:
    class Repeated(dict[str, str]):
        """Repeated keys are lists in units: the values are joined."""

        def __setitem__(self, key: str, value: object) -> None:
            if isinstance(value, list) and isinstance(self.get(key), list):
                value = [*self[key], *value]
            super().__setitem__(key, value)  # type: ignore[assignment]

    parser = configparser.RawConfigParser(dict_type=Repeated, strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


def test_there_are_three_units() -> None:
    assert {path.name for path in UNITS} == set(EXPOSURE)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """In a root where the program exists, as an installation has it."""
    program = tmp_path / "usr/lib/neutrino/bin/neutrino"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    kill = tmp_path / "bin/kill"
    kill.parent.mkdir()
    kill.symlink_to(shutil.which("kill") or "/bin/kill")
    for path in UNITS:
        text = path.read_text().replace("/usr/lib/neutrino/bin/neutrino", str(program))
        text = re.sub(r"^Documentation=.*\n", "", text, flags=re.MULTILINE)  # the man pages are not installed
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--recursive-errors=no", *(str(tmp_path / path.name) for path in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "neutrino-" in line] == []


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_are_restricted(path: Path) -> None:
    threshold = EXPOSURE[path.name]
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={threshold * 10:.0f}", "--no-pager", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:]
    assert "Overall exposure level" in done.stdout


def test_the_agent_has_no_mount_namespace_of_its_own() -> None:
    """Namespaces below /run/netns are mounts: in a mount namespace of the agent's, nobody else would see them."""
    implied = re.compile(
        r"^(ProtectSystem|ProtectHome|PrivateTmp|PrivateDevices|PrivateMounts|ProtectKernel\w+|ProtectControlGroups|ProtectProc"
        r"|ProcSubset|ReadWritePaths|ReadOnlyPaths|InaccessiblePaths|BindPaths|BindReadOnlyPaths|TemporaryFileSystem"
        r"|RootDirectory|RootImage|MountFlags|MountAPIVFS|DynamicUser|PrivateUsers|PrivateNetwork)=",
        re.MULTILINE,
    )
    text = (PACKAGING / "systemd" / "neutrino-agent.service").read_text()
    assert implied.findall(text) == []
    assert "KillMode=process" in text


def test_the_server_has_no_privileges() -> None:
    for name in ("neutrino-server.service", "neutrino-feed.service"):
        service = dict(_unit(PACKAGING / "systemd" / name)["Service"])
        assert service["User"] == "neutrino"
        assert service["CapabilityBoundingSet"] == ""
        assert service["NoNewPrivileges"] == "true"
        assert service["ProtectSystem"] == "strict"


def test_paths_of_units_are_those_of_the_packages() -> None:
    """Programs, configuration and environment files that units name are in the packages."""
    installed = {target for package in packages.PACKAGES for target in (*package.files, *package.sample)}
    for path in UNITS:
        text = path.read_text()
        assert f"ExecStart={packages.PREFIX}/bin/neutrino " in text
        assert set(re.findall(r"--config-file (\S+)", text)) <= installed
        assert set(re.findall(r"^EnvironmentFile=-(\S+)", text, re.MULTILINE)) <= installed
        variables = set(re.findall(r"\$(NEUTRINO_\w+)", text))
        defaults = "".join(each.read_text() for each in (PACKAGING / "files").glob("default-*"))
        assert all(f"{variable}=" in defaults for variable in variables)


@pytest.mark.parametrize("name", ["tmpfiles-server.conf", "tmpfiles-agent.conf"])
def test_tmpfiles(name: str, tmp_path: Path) -> None:
    text = (PACKAGING / "files" / name).read_text().replace(" neutrino neutrino ", " root root ")
    (tmp_path / "x.conf").write_text(text)
    subprocess.run(["systemd-tmpfiles", "--create", f"--root={tmp_path}", str(tmp_path / "x.conf")], check=True)
    made = "var/lib/neutrino" if "server" in name else "var/lib/neutrino-agent"
    assert (tmp_path / made).stat().st_mode & 0o777 == 0o711


def test_sysusers(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    conf = tmp_path / "neutrino.conf"
    conf.write_text((PACKAGING / "files" / "sysusers.conf").read_text())
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", str(conf)], check=True)
    (line,) = [line for line in (tmp_path / "etc/passwd").read_text().splitlines() if line.startswith("neutrino:")]
    assert line.endswith(":neutrino server:/var/lib/neutrino:/usr/sbin/nologin")


@pytest.mark.parametrize("program", ["server", "agent"])
def test_logrotate_files(program: str) -> None:
    text = (PACKAGING / "files" / f"logrotate-{program}").read_text()
    assert text.count("{") == text.count("}") == 1
    assert "copytruncate" in text
    assert f"/{program}.log {{" in text
