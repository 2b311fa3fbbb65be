"""Control data, trees and maintainer scripts of the Debian packages; `make package-test` installs the real ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from neutrino.agent.programs import PROGRAMS
from neutrino.cli.main import build_parser
from tests.support.packaging import PACKAGING, ROOT, containerfile, control, environment, packages, tree

BUILD = control.Build(version="1.2.3", architecture="arm64", python="3.11", seconds=1_700_000_000)
BY_NAME = {package.name: package for package in packages.PACKAGES}
SCRIPTS = sorted((PACKAGING / "scripts").iterdir())


def _fields(package: packages.Package) -> dict[str, str]:
    text = control.control(package, BUILD, 10)
    return dict(re.findall(r"^([A-Z][A-Za-z-]+): (.*)$", text, re.MULTILINE))


def test_control_data() -> None:
    found = _fields(BY_NAME["neutrino-common"])
    assert found["Architecture"] == "arm64"
    assert found["Depends"].startswith("python3 (>= 3.11~), python3 (<< 3.12~)")
    for name in ("neutrino-cli", "neutrino-server", "neutrino-agent"):
        found = _fields(BY_NAME[name])
        assert found["Architecture"] == "all"
        assert "neutrino-common (= 1.2.3)" in found["Depends"]
        assert found["Version"] == "1.2.3"


def test_descriptions_are_wrapped_and_indented() -> None:
    for package in packages.PACKAGES:
        description = control.control(package, BUILD, 1).partition("\nDescription: ")[2].splitlines()
        assert len(description[0]) < 60
        assert all(line.startswith(" ") and len(line) < 80 for line in description[1:])


def test_an_agent_depends_on_the_programs_of_all_roles() -> None:
    depends = _fields(BY_NAME["neutrino-agent"])["Depends"].split(", ")
    required = {package for programs in PROGRAMS.values() for package in programs.values()}
    assert required - {"openvswitch-common", "frr"} <= set(depends)  # the first is a dependency of openvswitch-switch
    assert "frr" in _fields(BY_NAME["neutrino-agent"])["Suggests"].split(", ")  # few hosts have the role bgp
    assert "openvswitch-switch" in depends
    assert not set(depends) & {"neutrino-server"}


def test_a_server_needs_no_program_of_a_host() -> None:
    assert not set(_fields(BY_NAME["neutrino-server"])["Depends"].split(", ")) & set(packages.AGENT_PROGRAMS)


def test_no_file_is_in_two_packages() -> None:
    files = [target for package in packages.PACKAGES for target in (*package.files, *package.sample, *package.links)]
    assert len(files) == len(set(files))
    for package in packages.PACKAGES:
        assert all((PACKAGING / source).is_file() for source in package.files.values())


def test_configuration_is_preserved() -> None:
    assert "/etc/neutrino/server.conf" in BY_NAME["neutrino-server"].conffiles
    assert control.conffiles(BY_NAME["neutrino-agent"]).splitlines() == [
        "/etc/default/neutrino-agent",
        "/etc/logrotate.d/neutrino-agent",
        "/etc/neutrino/agent.conf",
    ]


def test_copyright_lists_bundled_packages() -> None:
    text = control.copyright_file(BUILD, {"falcon 4.0": "Apache-2.0"})
    assert "\n  falcon 4.0: Apache-2.0\n" in text
    assert "Copyright: 2023 the neutrino authors" in text
    header, files = text.split("\n\n")[:2]
    assert header.startswith("Format:")
    assert files.startswith("Files: *")
    assert "Comment" not in control.copyright_file(BUILD, {})


# --- maintainer scripts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_maintainer_scripts_are_valid_shell(path: Path) -> None:
    subprocess.run(["sh", "-n", str(path)], check=True)
    lines = path.read_text().splitlines()
    assert lines[0] == "#!/bin/sh"
    assert "set -e" in lines


def test_every_maintainer_script_belongs_to_a_package() -> None:
    used = [name for package in packages.PACKAGES for name in package.scripts]
    assert sorted(used) == [path.name for path in SCRIPTS]


@pytest.mark.parametrize(("package", "mode"), [("server", 0o640), ("agent", 0o600)])
@pytest.mark.parametrize("exists", [True, False], ids=["present", "deleted"])
def test_a_configuration_file_that_the_administrator_deleted(
    tmp_path: Path, package: str, mode: int, exists: bool
) -> None:
    """dpkg does not restore it; the package is configured all the same."""
    path = tmp_path / f"{package}.conf"
    if exists:
        path.touch(0o644)
    _stub(tmp_path / "bin" / "dpkg-statoverride", "exit 1")
    _stub(tmp_path / "bin" / "chgrp", '[ -e "$2" ]')
    for program in ("systemd-sysusers", "systemd-tmpfiles", "deb-systemd-helper", "deb-systemd-invoke", "systemctl"):
        _stub(tmp_path / "bin" / program, "exit 0")
    text = (PACKAGING / "scripts" / f"neutrino-{package}.postinst").read_text().replace("/etc/neutrino", str(tmp_path))
    environment_ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", text, "postinst", "configure", "1.0"], check=True, env=environment_)
    assert path.exists() == exists
    if exists:
        assert path.stat().st_mode & 0o777 == mode


def _stub(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_units_that_share_a_runtime_directory_keep_it() -> None:
    """Without it, the end of one unit would remove the other's directory."""
    for name in ("server", "feed"):
        lines = (PACKAGING / "systemd" / f"neutrino-{name}.service").read_text().splitlines()
        assert "RuntimeDirectory=neutrino" in lines
        assert "RuntimeDirectoryPreserve=yes" in lines


def test_purge_of_the_agent_removes_what_it_recorded(tmp_path: Path) -> None:
    """The postrm with its programs replaced by ones that record their calls, and its paths below a directory."""
    state, netns = tmp_path / "state", tmp_path / "netns"
    router, network = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    for path in (state / "routers", state / "dhcp" / network, netns):
        path.mkdir(parents=True)
    (state / "routers" / router).touch()
    for name in (f"qrouter-{router}", f"qdhcp-{network}", "vm-web", "qrouter-of-another"):
        (netns / name).touch()
    calls = tmp_path / "calls"
    for program in ("ip", "ovs-vsctl", "ovs-ofctl", "deb-systemd-helper", "systemctl", "sleep"):
        stub = tmp_path / "bin" / program
        stub.parent.mkdir(exist_ok=True)
        output = "echo br-int" if program == "ovs-vsctl" else ":"
        stub.write_text(f'#!/bin/sh\necho "{program} $*" >>{calls}\n{output}\n')
        stub.chmod(0o755)
    text = (PACKAGING / "scripts" / "neutrino-agent.postrm").read_text()
    for real, fake in (
        ("/var/lib/neutrino-agent", state),
        ("/var/log/neutrino-agent", tmp_path / "log"),
        ("/etc/neutrino", tmp_path / "etc"),
        ("/run/netns", netns),
    ):
        text = text.replace(real, str(fake))
    daemon = subprocess.Popen(["sleep", "60"], env={"NEUTRINO_OWNER": str(state), "PATH": os.environ["PATH"]})
    other = subprocess.Popen(["sleep", "60"], env={"NEUTRINO_OWNER": f"{state}-other", "PATH": os.environ["PATH"]})
    try:
        environment_ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-c", text, "postrm", "purge"], check=True, env=environment_)
        assert daemon.wait(timeout=10) < 0
        assert other.poll() is None
    finally:
        for process in (daemon, other):
            process.kill()
            process.wait()
    found = calls.read_text().splitlines()
    assert f"ip netns delete qrouter-{router}" in found
    assert f"ip netns delete qdhcp-{network}" in found
    assert len([line for line in found if line.startswith("ip netns delete")]) == 2
    assert "ovs-vsctl --timeout=10 --if-exists del-br br-int" in found
    assert (
        "ovs-vsctl --timeout=10 --if-exists del-port br-int" in found
    )  # the stub has the same answer to all questions
    assert not state.exists()


# --- trees and archives -----------------------------------------------------------------------------------------------


def _stub_environment(target: Path) -> Path:
    """An environment as after pip, with traces of its build directory."""
    (target / "bin").mkdir(parents=True)
    site = target / "lib" / "python3.11" / "site-packages"
    info = site / "thing-1.0.dist-info"
    info.mkdir(parents=True)
    (target / "bin" / "python3").symlink_to("/usr/bin/python3")
    (target / "bin" / "neutrino").write_text(f"#!{target}/bin/python\nprint()\n")
    (target / "bin" / "alembic").write_text(f"#!{target}/bin/python\n")
    (target / "pyvenv.cfg").write_text(f"home = /usr/bin\ncommand = /usr/bin/python3 -m venv {target}\n")
    (info / "direct_url.json").write_text(f'{{"url": "file://{target}"}}')
    (info / "METADATA").write_text("Name: thing\nVersion: 1.0\nClassifier: License :: OSI Approved :: MIT License\n")
    (info / "RECORD").write_text(
        "../../../bin/neutrino,sha256=x,1\n../../../bin/alembic,sha256=x,1\nthing-1.0.dist-info/direct_url.json,,\n"
        "thing-1.0.dist-info/METADATA,sha256=y,2\n"
    )
    return site


def test_the_environment_has_no_trace_of_its_build_directory(tmp_path: Path) -> None:
    target = tmp_path / "build" / "usr" / "lib" / "neutrino"
    site = _stub_environment(target)
    assert list(environment.leaks(target, str(tmp_path).encode()))
    environment._relocate(target)
    assert list(environment.leaks(target, str(tmp_path).encode())) == []
    assert (target / "bin" / "neutrino").read_text().startswith("#!/usr/lib/neutrino/bin/python\n")
    assert sorted(os.listdir(target / "bin")) == ["neutrino", "python3"]
    record = (site / "thing-1.0.dist-info" / "RECORD").read_text()
    assert record == "../../../bin/neutrino,,\nthing-1.0.dist-info/METADATA,sha256=y,2\n"
    assert environment.licenses(target) == {"thing 1.0": "MIT License"}


def _pack(directory: Path, umask: int) -> bytes:
    """The agent's package, built with the Python of the tests, which has the same code."""
    before = os.umask(umask)
    try:
        root, output = directory / "root", directory / "out"
        root.mkdir(parents=True)
        output.mkdir()
        package = BY_NAME["neutrino-agent"]
        tree.assemble(package, root, Path(sys.executable), BUILD)
        return tree.pack(package, root, BUILD, output).read_bytes()
    finally:
        os.umask(before)


def test_the_same_sources_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(BUILD.seconds))
    first, second = _pack(tmp_path / "a", 0o022), _pack(tmp_path / "b", 0o077)
    assert first == second
    (archive,) = (tmp_path / "a" / "out").iterdir()
    assert archive.name == "neutrino-agent_1.2.3_all.deb"
    listed = subprocess.run(["dpkg-deb", "-c", str(archive)], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^-rw------- root/root .* ./etc/neutrino/agent.conf$", listed, re.MULTILINE)
    assert re.search(r"^-rw-r--r-- root/root .* ./usr/lib/systemd/system/neutrino-agent.service$", listed, re.MULTILINE)
    assert all(" 2023-11-14 " in line for line in listed.splitlines())
    information = subprocess.run(["dpkg-deb", "-I", str(archive)], capture_output=True, text=True, check=True).stdout
    for part in ("conffiles", "md5sums", "postinst", "prerm", "postrm"):
        assert part in information


def test_the_documents_of_the_command_line_package(tmp_path: Path) -> None:
    tree.assemble(BY_NAME["neutrino-cli"], tmp_path, Path(sys.executable), BUILD)
    assert (tmp_path / "usr/bin/neutrino").readlink() == Path("../lib/neutrino/bin/neutrino")
    assert (tmp_path / "usr/share/man/man1/neutrino-server.1.gz").exists()
    assert not list((tmp_path / "usr/share/man/man1").glob("*.1"))
    assert "complete -F _neutrino neutrino" in (tmp_path / tree.SHELLS["bash"]).read_text()


# --- the Containerfile ------------------------------------------------------------------------------------------------

IMAGE = containerfile.parse((PACKAGING / "Containerfile").read_text())
(FROM_PACKAGES,) = containerfile.parse((PACKAGING / "Containerfile.packages").read_text())


def test_the_image_is_small_and_without_root() -> None:
    build, run = IMAGE
    assert build.base == run.base == "debian:bookworm-slim"
    assert run.last("USER").text == "999:999"
    assert not any("python3-venv" in each.text for each in run.instructions)
    names = [each.name for each in run.instructions]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in ("RUN", "COPY"))


def test_what_the_image_copies_exists() -> None:
    for stage in IMAGE:
        for each in stage.instructions:
            if each.name == "COPY" and "from" not in each.flags:
                *sources, _ = each.words
                assert all(source.startswith("dist/") or (ROOT / source).exists() for source in sources)


def test_the_image_installs_the_locked_dependencies() -> None:
    (install,) = [
        each.text for each in IMAGE[0].instructions if each.name == "RUN" and "requirements.lock" in each.text
    ]
    assert "--require-hashes" in install


def test_the_image_starts_the_server_and_checks_it() -> None:
    command = [*IMAGE[1].last("ENTRYPOINT").words, *IMAGE[1].last("CMD").words]
    assert build_parser().parse_args(command[1:]).command == "server"
    assert "/healthcheck" in IMAGE[1].last("HEALTHCHECK").text
    assert IMAGE[1].last("HEALTHCHECK").flags["interval"] == "30s"


def test_the_image_of_packages_runs_as_the_other_one() -> None:
    settings = ("USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD")
    for name in settings:
        own, other = FROM_PACKAGES.last(name), IMAGE[-1].last(name)
        assert (own.text, own.flags) == (other.text, other.flags)


def test_the_image_of_packages_is_made_of_nothing_else() -> None:
    assert FROM_PACKAGES.base.startswith("localhost/")  # no registry
    (install,) = [each.text for each in FROM_PACKAGES.instructions if each.name == "RUN"]
    files = {f"neutrino-{name}" for name in ("common", "cli", "server")}
    assert {
        word.removeprefix("/mnt/").partition("_")[0] for word in install.split() if word.startswith("/mnt/")
    } == files
    assert not any(word in install for word in ("pip", "curl", "://"))
    assert not [each for each in FROM_PACKAGES.instructions if each.name == "COPY"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("RUN true", "before FROM"),
        ("FROM a\nRUNN true", "RUNN is not an instruction"),
        ("FROM a\nCOPY --from=b /x /y", "there is no stage b"),
        ("FROM a\nRUN true \\", "continued"),
        ("FROM a\nUSER", "no argument"),
    ],
)
def test_a_wrong_containerfile_is_refused(text: str, error: str) -> None:
    with pytest.raises(containerfile.Invalid, match=error):
        containerfile.parse(text)
