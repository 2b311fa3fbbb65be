"""Failed starts: one line with cause and fix, an exit status, no traceback, and nothing left behind."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.certificates import Authority
from tests.support.commands import run_neutrino
from tests.support.launcher import PROGRAM
from tests.support.machine import Machine
from tests.support.neutrino import configuration
from tests.support.ports import free_port
from tests.support.up import up

NO_CAPABILITIES = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--")


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    """A machine without devices, which every failed start leaves unchanged."""
    with Machine() as machine:
        yield machine


def refused(
    here: Machine | None,
    *arguments: str | Path,
    before: Sequence[str] = (),
    cwd: str | Path = "/tmp",
) -> str:
    """The error line of a command that fails to start."""
    status, out, error = started(here, [*map(str, arguments)], before, cwd)
    assert status in (1, 2), out + error
    assert error.startswith("neutrino: "), error
    assert error.count("\n") == 1, error
    assert "Traceback" not in out
    if here is not None:
        assert (here.devices(), here.named_namespaces()) == (set(), set())
    return error.removeprefix("neutrino: ").strip()


def started(
    here: Machine | None, arguments: Sequence[str], before: Sequence[str], cwd: str | Path
) -> tuple[int, str, str]:
    if not before:
        done = run_neutrino(arguments, directory=cwd, inside=here.pid if here is not None else None)
        return done.status, done.out, done.error
    assert here is None
    argv = [*before, str(PROGRAM), *arguments]
    ended = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, cwd=cwd
    )
    return ended.returncode, ended.stdout, ended.stderr


def server_file(directory: Path, **sections: dict[str, object]) -> Path:
    """A valid server configuration, with the options of a test added."""
    settings: dict[str, dict[str, object]] = {
        "DEFAULT": {"auth_strategy": "noauth", "bind_port": free_port(), "state_path": directory / "server"}
    }
    for section, options in sections.items():
        settings.setdefault(section, {}).update(options)
    path = directory / "neutrino.conf"
    path.write_text(configuration(settings))
    return path


def agent_file(directory: Path, **sections: dict[str, object]) -> Path:
    (directory / "credential").write_text("secret")
    settings: dict[str, dict[str, object]] = {
        "DEFAULT": {"host": "h1", "state_path": directory / "agent", "roles": "l2"},
        "feed": {"server": f"unix:{directory}/feed.sock", "credential_file": directory / "credential"},
        "ovs": {"ovsdb_connection": f"unix:{directory}/db.sock", "ovsdb_timeout": 1},
    }
    for section, options in sections.items():
        settings.setdefault(section, {}).update(options)
    path = directory / "agent.conf"
    path.write_text(configuration(settings))
    return path


# --- wrong options ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["server", "feed", "agent", "up"])
def test_a_missing_configuration_file(here: Machine, tmp_path: Path, command: str) -> None:
    message = refused(here, command, "--config-file", tmp_path / "none.conf", cwd=tmp_path)
    assert message == f"there is no configuration file {tmp_path}/none.conf"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["server", "feed"])
def test_an_option_of_the_server_that_is_wrong(here: Machine, tmp_path: Path, command: str) -> None:
    path = server_file(tmp_path, feed={"heartbeat": "soon"})
    assert "heartbeat" in refused(here, command, "--config-file", path)


@pytest.mark.parametrize("command", ["server", "up"])
def test_a_plugin_that_does_not_exist(here: Machine, tmp_path: Path, command: str) -> None:
    path = server_file(tmp_path, DEFAULT={"service_plugins": "nonesuch"})
    assert "nonesuch" in refused(here, command, "--config-file", path, cwd=tmp_path)


def test_a_certificate_that_does_not_exist(here: Machine, tmp_path: Path) -> None:
    path = server_file(tmp_path, DEFAULT={"use_ssl": True}, ssl={"cert_file": "/none", "key_file": "/none"})
    message = refused(here, "server", "--config-file", path)
    assert message == "[ssl] cert_file=/none cannot be read: No such file or directory"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["neutrino.conf"]


def test_up_does_not_serve_with_tls(here: Machine, tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    pem.write_text(Authority().issue("server"))
    path = server_file(tmp_path, DEFAULT={"use_ssl": True}, ssl={"cert_file": pem, "key_file": pem})
    message = refused(here, "up", "--config-file", path, cwd=tmp_path)
    assert message == "use_ssl: neutrino up serves its own machine without TLS; use neutrino server"


def test_an_option_of_the_agent_that_is_wrong(here: Machine, tmp_path: Path) -> None:
    path = agent_file(tmp_path, agent={"report_interval": "soon"})
    assert "report_interval" in refused(here, "agent", "--config-file", path)
    path = agent_file(tmp_path, agent={"tunnel_types": "vxlan"}, ovs={"local_ip": "here"})
    assert "local_ip=here" in refused(here, "agent", "--config-file", path)


def test_advertisements_that_no_version_of_vrrp_can_send(here: Machine, tmp_path: Path) -> None:
    for given, reason in (
        ({"ha_vrrp_advert_int": "40.5"}, "ha_vrrp_advert_int=40.5 has a fraction, with which 40 seconds are the most"),
        (
            {"ha_vrrp_advert_int": "0.2", "ha_vrrp_auth_password": "secret"},
            "ha_vrrp_auth_password: VRRP version 3, which ha_vrrp_advert_int=0.2 needs, has no authentication",
        ),
        (
            {"ha_vrrp_health_check_interval": "1.5"},
            "ha_vrrp_health_check_interval=1.5: whole seconds, or a fraction of one from 0.05",
        ),
        (
            {"ha_vrrp_health_check_interval": "0.01"},
            "ha_vrrp_health_check_interval=0.01: whole seconds, or a fraction of one from 0.05",
        ),
    ):
        assert refused(here, "agent", "--config-file", agent_file(tmp_path, DEFAULT=given)) == reason


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("2001:db8::1", "a link-local address"),
        ("192.0.2.1", "an IPv6 address"),
        ("router", "an IPv6 address"),
        ("fe80::1%eth0", "an address alone"),
    ],
)
def test_an_ipv6_gateway_that_is_not_link_local(here: Machine, tmp_path: Path, given: str, reason: str) -> None:
    path = agent_file(tmp_path, DEFAULT={"ipv6_gateway": given})
    assert refused(here, "agent", "--config-file", path) == f"ipv6_gateway={given} is not {reason}"


def test_an_option_of_ups_agent_that_is_wrong(here: Machine, tmp_path: Path) -> None:
    more = tmp_path / "more.conf"
    more.write_text("[ovs]\nlocal_ip = here\n")
    message = refused(here, "up", "--port", str(free_port()), "--agent-config-file", more, cwd=tmp_path)
    assert "local_ip=here" in message


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_without_authentication_it_refuses_to_listen_beyond_loopback(here: Machine, tmp_path: Path, host: str) -> None:
    path = server_file(tmp_path, DEFAULT={"bind_host": host})
    message = refused(here, "server", "--config-file", path)
    for option in ("auth_strategy=noauth", f"bind_host={host}", "allow_noauth_beyond_loopback=true"):
        assert option in message


def test_a_lab_with_a_wrong_option(here: Machine, tmp_path: Path) -> None:
    assert "--hosts 0" in refused(here, "lab", "up", "--state", tmp_path / "lab", "--hosts", "0")
    assert not (tmp_path / "lab").exists()


# --- ports in use -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command,fix", [("up", "use --port"), ("server", "set bind_port")])
def test_the_api_port_in_use(tmp_path: Path, command: str, fix: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        path = server_file(tmp_path, DEFAULT={"bind_port": port})
        message = refused(None, command, "--config-file", path, cwd=tmp_path)
    assert message == (
        f"cannot listen on 127.0.0.1 port {port}: Address already in use; stop what listens there, or {fix}"
    )


def test_the_api_port_of_a_lab_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refused(None, "lab", "up", "--state", tmp_path / "lab", "--port", str(port))
    assert (
        message
        == f"cannot listen on 127.0.0.1 port {port}: Address already in use; stop what listens there, or use --port"
    )
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize("command", ["server", "feed"])
def test_the_feeds_address_in_use(tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        path = server_file(tmp_path, feed={"bind": f"127.0.0.1:{port}"})
        message = refused(None, command, "--config-file", path)
    assert message.startswith(f"cannot listen on 127.0.0.1 port {port}: Address already in use; ")
    assert "[feed] bind" in message


# --- the database -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["server", "feed", "up"])
@pytest.mark.parametrize("driver", ["postgresql+psycopg", "mysql+pymysql"])
def test_a_database_that_cannot_be_reached(here: Machine, tmp_path: Path, command: str, driver: str) -> None:
    url = f"{driver}://neutrino:secret@127.0.0.1:{free_port()}/neutrino"
    path = server_file(tmp_path, database={"connection": url})
    message = refused(here, command, "--config-file", path, cwd=tmp_path)
    assert "cannot be used" in message
    assert "[database] connection" in message
    assert "secret" not in message


@pytest.mark.parametrize("command", ["server", "feed"])
def test_a_database_file_below_a_file(here: Machine, tmp_path: Path, command: str) -> None:
    (tmp_path / "file").touch()
    path = server_file(tmp_path, database={"connection": f"sqlite:///{tmp_path}/file/neutrino.sqlite"})
    assert f"{tmp_path}/file/neutrino.sqlite cannot be used" in refused(here, command, "--config-file", path)


def newer(database: Path) -> None:
    """Set the schema version of a later release."""
    engine = sa.create_engine(f"sqlite:///{database}")
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()


@pytest.mark.parametrize("command", ["server", "feed", "up"])
def test_a_database_of_a_newer_release(here: Machine, tmp_path: Path, command: str) -> None:
    path = server_file(tmp_path)
    assert run_neutrino(["db", "upgrade", "--config-file", str(path)]).status == 0
    newer(tmp_path / "server" / "neutrino.sqlite")
    message = refused(here, command, "--config-file", path, cwd=tmp_path)
    assert "was written by a newer release (schema 9999" in message


# --- the machine ------------------------------------------------------------------------------------------------------


def test_a_state_directory_of_a_newer_agent(here: Machine, tmp_path: Path) -> None:
    path = agent_file(tmp_path)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "format").write_text("99\n")
    message = refused(here, "agent", "--config-file", path)
    assert f"state_path={tmp_path}/agent was written by a newer release (format 99" in message


def test_an_agent_whose_switch_does_not_run(here: Machine, tmp_path: Path) -> None:
    """A running agent waits for Open vSwitch; --dry-run reports that it is not there."""
    done = subprocess.run(
        here.inside([str(PROGRAM), "agent", "--dry-run", "--config-file", str(agent_file(tmp_path))]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    message = done.stderr.splitlines()[-1]
    assert "Open vSwitch cannot be reached" in message
    assert "[ovs] ovsdb_connection" in message


def without(*programs: str) -> list[str]:
    """A command prefix that hides programs: /dev/null, which is not executable, is mounted over each."""
    paths = [shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") for program in programs]
    hidden = " && ".join(f"mount --bind /dev/null {path}" for path in paths)
    return ["unshare", "--mount", "bash", "-c", f'{hidden} && exec "$@"', "bash"]


def test_an_agent_without_its_programs(tmp_path: Path) -> None:
    path = agent_file(tmp_path, DEFAULT={"roles": "l2,dhcp"})
    message = refused(None, "agent", "--config-file", path, before=without("dnsmasq"))
    assert message == "dnsmasq not found: apt-get install dnsmasq-base"


def test_a_lab_without_open_vswitch(tmp_path: Path) -> None:
    message = refused(None, "lab", "up", "--state", tmp_path / "lab", before=without("ovs-vswitchd"))
    assert message == "ovs-vswitchd not found: apt-get install openvswitch-switch"
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(
    "before,cause",
    [
        (
            without("ovs-vswitchd", "ethtool", "nsenter"),
            "programs are missing: apt-get install ethtool openvswitch-switch util-linux",
        ),
        (NO_CAPABILITIES, "creating network devices needs CAP_NET_ADMIN: run it as root"),
    ],
    ids=["no programs", "not root"],
)
def test_up_serves_the_api_only_if_networks_cannot_be_wired(
    here: Machine, tmp_path: Path, before: Sequence[str], cause: str
) -> None:
    with up(tmp_path, on=here, before=before) as running:
        assert f"neutrino: networks are not wired on this machine: {cause}" in running.text
        assert running.ctrl_c() == 0
    assert here.devices() == set()


@pytest.mark.parametrize("command", ["agent", "lab", "vm"])
def test_not_root(tmp_path: Path, command: str) -> None:
    arguments: dict[str, list[str | Path]] = {
        "agent": ["--config-file", agent_file(tmp_path)],
        "lab": ["up", "--state", tmp_path / "lab"],
        "vm": ["list"],
    }
    message = refused(None, command, *arguments[command], before=NO_CAPABILITIES, cwd=tmp_path)
    assert "as root" in message
    assert not (tmp_path / "lab").exists()
