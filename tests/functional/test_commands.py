"""Every command with bad input: one line with the cause, an exit status, no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.cli.main import build_parser
from tests.support.commands import Done, Leaf, leaves, run_neutrino
from tests.support.launcher import PROGRAM
from tests.support.neutrino import configuration
from tests.support.ports import free_port
from tests.support.process import wait_until

LEAVES = list(leaves(build_parser()))
# A lab starts processes that read the files: that they are checked before is tested with a file that does not exist.
CONFIGURED = [leaf for leaf in LEAVES if "--config-file" in leaf.options and leaf.words[0] != "lab"]
ASKING = [leaf for leaf in LEAVES if "--endpoint" in leaf.options]
GARBAGE = {
    "no section": b"no section\n",
    "binary": bytes(range(256)),
    "a wrong value": b"[DEFAULT]\nauth_strategy = noauth\nbind_port = many\nstate_path = PLACE/state\n[agent]\ndscp = x\n",
    "a loop": b"[DEFAULT]\nstate_path = $state_path\n",
}
STATUSES = (1, 2, 3)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users reach too, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="neutrino-commands-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def refused(done: Done, *, what: str = "") -> str:
    assert "Traceback" not in done.out + done.error, done.error
    assert "unexpected error" not in done.error, done.error
    assert done.status in STATUSES, f"{done.status}: {done.out}{done.error}"
    lines = done.error.splitlines()
    assert lines, done.out
    if lines[0].startswith("usage: "):
        assert ": error: " in lines[-1]
    else:
        assert len(lines) == 1, done.error
        assert lines[0].startswith("neutrino: "), done.error
    assert what in done.error
    return lines[-1]


def names(items: list[Leaf]) -> list[str]:
    return [str(leaf) for leaf in items]


def test_the_commands_are_found() -> None:
    found = names(LEAVES)
    for expected in ("server", "db upgrade", "host add", "agent run", "lab up", "vm create", "status", "doctor"):
        assert expected in found
    assert len(found) > 25


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", LEAVES, ids=names(LEAVES))
def test_an_unknown_option(leaf: Leaf) -> None:
    done = run_neutrino([*leaf.words, *leaf.arguments, "--no-such-option"])
    if "exec" in leaf.words or (leaf.words[0] in ("vm", "lab") and done.status == 1):
        return  # the rest of the line is the command of an instance
    assert done.status == 2
    refused(done, what="no-such-option")


@pytest.mark.parametrize("command", sorted({leaf.words[0] for leaf in LEAVES}))
@pytest.mark.parametrize("output", ["broken", "closed", "/dev/full"])
def test_help_without_a_reader(command: str, output: str) -> None:
    done = run_neutrino([command, "--help"], output=output)
    assert "Traceback" not in done.error
    assert "Exception ignored" not in done.error
    assert done.status in (0, 1, 141)
    assert len(done.error.splitlines()) <= 1


# --- configuration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", CONFIGURED, ids=names(CONFIGURED))
def test_a_missing_configuration_file(leaf: Leaf, place: Path) -> None:
    done = run_neutrino(
        [*leaf.words, *leaf.arguments, "--config-file", f"{place}/none.conf", *_state(leaf, place)], directory=place
    )
    assert "none.conf" in refused(done)
    assert done.status == 2
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", GARBAGE)
@pytest.mark.parametrize("leaf", CONFIGURED, ids=names(CONFIGURED))
def test_garbage_in_a_configuration_file(leaf: Leaf, kind: str, place: Path) -> None:
    path = place / "garbage.conf"
    path.write_bytes(GARBAGE[kind].replace(b"PLACE", str(place).encode()))
    done = run_neutrino(
        [*leaf.words, *leaf.arguments, "--config-file", str(path), *_state(leaf, place)], directory=place
    )
    if leaf.words[0] == "doctor" and kind != "binary":  # it states what is wrong, as a finding
        assert done.status == 1
        assert "garbage.conf" in done.out
        assert "Traceback" not in done.out + done.error
        assert done.error == ""
        return
    if leaf.words[0] in ("db", "host") and kind == "a wrong value" and done.status == 0:
        return  # an option that they do not read
    if leaf.words == ("takeover", "status") and kind == "a wrong value" and "nothing was imported" in done.out:
        return  # the same
    refused(done)


@pytest.mark.parametrize("leaf", CONFIGURED, ids=names(CONFIGURED))
def test_a_configuration_file_without_permission(leaf: Leaf, place: Path) -> None:
    path = place / "secret.conf"
    path.write_text("[DEFAULT]\nauth_strategy = noauth\n")
    path.chmod(0o600)
    arguments = [*leaf.words, *leaf.arguments, "--config-file", str(path), *_state(leaf, place)]
    assert "secret.conf" in refused(run_neutrino(arguments, unprivileged=True, directory=place))


@pytest.mark.parametrize("leaf", CONFIGURED, ids=names(CONFIGURED))
def test_a_directory_as_configuration_file(leaf: Leaf, place: Path) -> None:
    done = run_neutrino(
        [*leaf.words, *leaf.arguments, "--config-file", str(place), *_state(leaf, place)], directory=place
    )
    refused(done)


def _state(leaf: Leaf, place: Path) -> list[str]:
    return ["--state", f"{place}/state"] if "--state" in leaf.options else []


def test_a_lab_checks_its_configuration_files_first(place: Path) -> None:
    for option in ("--config-file", "--agent-config-file"):
        done = run_neutrino(["lab", "--state", f"{place}/lab", "up", option, f"{place}/none.conf"])
        assert refused(done) == f"neutrino: there is no configuration file {place}/none.conf"
    assert list(place.iterdir()) == []


# --- privileges and files ---------------------------------------------------------------------------------------------

STATEFUL = [leaf for leaf in LEAVES if leaf.words[0] in ("lab", "vm")]


@pytest.mark.parametrize("leaf", STATEFUL, ids=names(STATEFUL))
@pytest.mark.parametrize("unprivileged", [True, False], ids=["unprivileged", "no lab"])
def test_labs_and_instances_that_do_not_exist(leaf: Leaf, place: Path, unprivileged: bool) -> None:
    if not unprivileged and leaf.words in (("lab", "up"), ("lab", "demo")):
        return  # they would create one
    arguments = [*leaf.words, "--state", f"{place}/none", *leaf.arguments]
    if "exec" in leaf.words:
        arguments += ["--", "true"]
    elif leaf.words[-1] in ("create", "vm"):
        arguments += ["--network", "blue"]
    done = run_neutrino(arguments, unprivileged=unprivileged, directory=place)
    if not unprivileged and leaf.words == ("lab", "down"):
        assert (done.status, done.error) == (0, "")  # nothing to remove
        return
    refused(done)


@pytest.mark.parametrize("command", ["server", "feed", "db version", "host list", "agent", "up"])
def test_a_state_directory_without_permission(place: Path, command: str) -> None:
    """As an unprivileged user, in a directory of root's."""
    path = place / "neutrino.conf"
    settings = {"DEFAULT": {"auth_strategy": "noauth", "bind_port": free_port(), "state_path": place / "state"}}
    path.write_text(
        configuration({**settings, "feed": {"server": f"unix:{place}/feed.sock", "credential_file": "/none"}})
    )
    words = [*command.split(), "--config-file", str(path)]
    if command == "up":
        words += ["--state", f"{place}/state", "--no-dataplane", "--port", str(free_port())]
    refused(run_neutrino(words, unprivileged=True, directory=place))


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", ASKING, ids=names(ASKING))
def test_a_server_that_is_not_there(leaf: Leaf) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    done = run_neutrino([*leaf.words, *leaf.arguments, "--endpoint", endpoint])
    refused(done)
    if leaf.words == ("status",):
        assert done.status == 3


@pytest.mark.parametrize("leaf", ASKING, ids=names(ASKING))
def test_a_cloud_that_is_not_there(leaf: Leaf, place: Path) -> None:
    missing = run_neutrino([*leaf.words, *leaf.arguments, "--os-cloud", "nowhere"], directory=place)
    assert "nowhere" in refused(missing)
    (place / "clouds.yaml").write_bytes(b"clouds: [\x00")
    environment = {"OS_CLIENT_CONFIG_FILE": str(place / "clouds.yaml")}
    broken = run_neutrino([*leaf.words, *leaf.arguments, "--os-cloud", "x"], environment=environment, directory=place)
    assert "clouds.yaml" in refused(broken)
    incomplete = run_neutrino([*leaf.words, *leaf.arguments], environment={"OS_AUTH_URL": "http://127.0.0.1:1/v3"})
    refused(incomplete)


@contextlib.contextmanager
def responding(answer: bytes) -> Iterator[str]:
    """A server that answers every request with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("leaf", ASKING, ids=names(ASKING))
@pytest.mark.parametrize(
    "answer",
    [
        b"not HTTP\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope",
        b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"status":{}}',
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["not HTTP", "not JSON", "an empty object", "a list", "500", "403"],
)
def test_a_server_that_answers_something_else(leaf: Leaf, answer: bytes) -> None:
    with responding(answer) as url:
        refused(run_neutrino([*leaf.words, *leaf.arguments, "--endpoint", url]))


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["status", "status --watch", "doctor"])
def test_an_interrupt_while_a_server_does_not_answer(place: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        words = command.split()
        if words[0] == "doctor":
            words += ["--only", "feed", "--config-file", str(_agent_file(place, f"ws://{address}"))]
        else:
            words += ["--endpoint", f"http://{address}"]
        process = _start(words)
        connection, _ = listener.accept()  # the command waits for the answer now
        with connection:
            out, error = _interrupt(process)
    assert "Traceback" not in out + error
    assert error.strip() == ""
    assert process.returncode == (3 if "--watch" in words else 130)


@pytest.mark.parametrize("command", ["server", "feed", "up", "agent"])
def test_an_interrupt_of_a_service(place: Path, command: str) -> None:
    port = free_port()
    words = [command]
    if command == "agent":
        words += ["--config-file", str(_agent_file(place, f"unix:{place}/none.sock"))]
    elif command == "up":
        words += ["--state", f"{place}/state", "--no-dataplane", "--port", str(port)]
    else:
        path = place / "server.conf"
        path.write_text(
            configuration({"DEFAULT": {"auth_strategy": "noauth", "bind_port": port, "state_path": place / "state"}})
        )
        words += ["--config-file", str(path)]
    with (place / "log").open("w+") as log:
        process = _start(words, stdout=log, stderr=subprocess.STDOUT)

        def is_ready() -> bool:
            if command == "feed":
                return (place / "state" / "feed.sock").exists()
            if command == "agent":
                return "no connection to the server" in (place / "log").read_text()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            return False

        try:
            wait_until(is_ready, timeout=120, what=command, failed=lambda: None if process.poll() is None else "ended")
        finally:
            _interrupt(process)
    text = (place / "log").read_text()
    assert "Traceback" not in text, text
    assert process.returncode in (0, 130), text


def _agent_file(place: Path, server: str) -> Path:
    (place / "credential").write_text("secret")
    (place / "credential").chmod(0o600)
    path = place / "agent.conf"
    ovs = {"ovsdb_connection": f"unix:{place}/db.sock", "ovsdb_timeout": 1}
    default = {"host": "h1", "state_path": place / "agent", "roles": "l2"}
    feed = {"server": server, "credential_file": place / "credential"}
    path.write_text(configuration({"DEFAULT": default, "feed": feed, "ovs": ovs}))
    return path


def _start(words: list[str], **options: object) -> subprocess.Popen[str]:
    pipes: dict[str, object] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = ["setpriv", "--pdeathsig", "KILL", "--", str(PROGRAM), *words]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, **(pipes | options))  # type: ignore[call-overload,no-any-return]


def _interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    try:
        out, error = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        raise
    return out or "", error or ""
