"""The feed as a process: with the API or alone, killed and restarted, with TLS between machines."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.messages import VERSION, ErrorMessage, Hello, Refused, Welcome
from neutrino.model.agents import OVS, AgentState
from neutrino.server.config import OPTIONS
from neutrino.server.feed.server import RETRY_SECONDS
from neutrino.tls import ClientContext
from tests.support.commands import run_neutrino
from tests.support.feed import until
from tests.support.feed_raw import Raw
from tests.support.memory import alive, tree
from tests.support.neutrino import Caller, Neutrino, configuration
from tests.support.ports import free_port
from tests.support.process import wait_until

FEED = {"feed": {"run": True}}
AT = "the feed listens on unix:"
STATE = AgentState(
    OVS,
    "neutrino-agent",
    "h1",
    "N/A",
    configurations={"tunnel_types": ["vxlan"], "tunneling_ip": "192.0.2.1", "bridge_mappings": {}},
    start_flag=True,
)


def command(server: Neutrino, *words: str) -> str:
    done = run_neutrino(["host", *words, "--config-file", str(server.config)])
    assert done.status == 0, done.error
    return done.out.strip()


def feed_of(server: Neutrino) -> int:
    """The pid of the server's feed process; 0 while there is none."""
    for pid in tree(server.pids[0]):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if b"server feed" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    return 0


def kill_feed(server: Neutrino) -> int:
    """Never process 0: that is the process group of the tests themselves."""
    wait(lambda: feed_of(server) != 0, "a process with the title of the feed")
    pid = feed_of(server)
    os.kill(pid, signal.SIGKILL)
    return pid


def there(path: str | Path) -> bool:
    return Path(path).exists()


def served(path: Path) -> bool:
    """Whether somebody answers at a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def wait(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, timeout=30, what=what, failed=lambda: None)


def test_beside_the_api_killed_and_started_again() -> None:
    with Neutrino(FEED) as server:
        address = Address(path=str(server.directory / "feed.sock"))
        client = FeedClient(
            ClientOptions(address, "h1", command(server, "add", "h1"), first_delay=0.02, longest_delay=0.2)
        )
        call = Caller(server.url, {"X-Roles": "admin,member", "X-Project-Id": "p"})

        async def test() -> None:
            running = asyncio.create_task(client.run())
            client.report([STATE])
            await until(lambda: client.unacknowledged == 0 and client.is_synced, "the agent to be known", 30)
            network = await asyncio.to_thread(call.create, "network", name="n")
            binding = {"binding:host_id": "h1", "device_owner": "compute:x", "network_id": network["id"]}
            first = await asyncio.to_thread(lambda: call.create("port", **binding))
            await until(lambda: client.state.get("port", first["id"]) is not None, "the port", 30)
            kill_feed(server)
            await until(lambda: not client.connected, "the host to see it", 30)
            second = await asyncio.to_thread(lambda: call.create("port", **binding))
            assert client.state.get("port", first["id"]) is not None
            await until(lambda: client.state.get("port", second["id"]) is not None, "the second port", 30)
            client.port_up(second["id"], client.state.get("port", second["id"]).revision)
            await until(lambda: client.unacknowledged == 0, "the port to be up", 30)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

        asyncio.run(test())
        ports = call("GET", "/v2.0/ports").json()["ports"]
        assert sorted(p["status"] for p in ports) == ["ACTIVE", "DOWN"]
        assert "h1\t" in command(server, "list")
        assert '"port"' in command(server, "show", "h1")
        command(server, "remove", "h1")
        assert command(server, "list") == ""
        call.close()


def test_the_feed_runs_by_default_and_is_respawned() -> None:
    """The first is forked by the main thread, the others by the one that watches."""
    default = next(option.default for option in OPTIONS["feed"] if option.name == "run")
    with Neutrino({"feed": {"run": default}}) as server:
        wait(lambda: served(server.directory / "feed.sock"), "the feed")
        for _ in range(2):
            first = kill_feed(server)
            wait(lambda gone=first: feed_of(server) not in (0, gone), "another feed")  # type: ignore[misc]
            wait(lambda: served(server.directory / "feed.sock"), "the feed")


def test_it_ends_when_the_server_is_killed() -> None:
    with Neutrino(FEED) as server:
        wait(lambda: served(server.directory / "feed.sock"), "the feed")
        kill_feed(server)
        wait(lambda: feed_of(server) != 0 and served(server.directory / "feed.sock"), "another feed")
        pid = feed_of(server)
        os.kill(server.pids[0], signal.SIGKILL)
        wait(lambda: not alive(pid), "the feed to end")
        server._ready = False  # it was not the server's fault


def test_a_hangup_lets_all_begin_anew_by_the_configuration_as_it_is_now() -> None:
    with Neutrino(FEED) as server:
        old, new = server.directory / "feed.sock", server.directory / "other.sock"
        wait(lambda: served(old) and feed_of(server) != 0, "the feed")
        first = feed_of(server)
        server.config.write_text(configuration({**server.settings, "feed": {"run": True, "bind": f"unix:{new}"}}))
        os.kill(server.pids[0], signal.SIGHUP)
        wait(lambda: served(new), "the feed at its new place")
        wait(lambda: not there(old) and feed_of(server) not in (0, first), "the end of the first feed")
        wait(lambda: server.log.count("Stopped old worker-") == 1, "a new worker")
        assert requests.get(f"{server.url}/v2.0/networks", timeout=10).status_code == 200
        server.config.write_text("[feed\n")
        os.kill(server.pids[0], signal.SIGHUP)
        wait(lambda: server.log.count("Stopped old worker-") == 2, "another worker")
        assert "the previous one stays in force" in server.log
        wait(lambda: served(new), "the feed where it was")
        assert requests.get(f"{server.url}/v2.0/networks", timeout=10).status_code == 200


def test_two_servers_with_one_state_path_do_not_fight() -> None:
    """The second one serves its API; it takes the socket over when the first one ends, and not before."""
    with Neutrino(FEED) as first:
        path = first.directory / "feed.sock"
        wait(lambda: served(path), "the feed")
        shared = {"DEFAULT": {"state_path": first.directory}, "database": {"connection": first.database}, **FEED}
        with Neutrino(shared) as second:
            wait(lambda: "another process serves it" in second.log, "the second feed to log it")
            assert f"unix:{path}" in second.log
        with Neutrino(shared) as second:
            wait(lambda: "another process serves it" in second.log, "the second feed to log it")
            assert served(path)
            assert AT not in second.log
            assert feed_of(first) != 0
            os.kill(feed_of(first), signal.SIGSTOP)  # a slow feed keeps its socket
            time.sleep(2 * RETRY_SECONDS)
            assert AT not in second.log
            kill_feed(first)
            wait(lambda: (first.log + second.log).count(AT) == 2 and served(path), "one of the two to serve")
            assert requests.get(f"{second.url}/v2.0/networks", timeout=10).status_code == 200


def test_versions_and_messages_that_are_not_understood() -> None:
    with Neutrino(FEED) as server:
        credential = command(server, "add", "h1")
        address = Address(path=str(server.directory / "feed.sock"))

        async def test() -> None:
            await until(lambda: there(address.path), "the feed", 30)
            async with Raw(address, "h1", credential) as raw:
                await raw.send(Hello(host="h1", version=0))
                assert isinstance((await raw.receive())[0], Refused)
            async with Raw(address, "h1", credential) as raw:
                await raw.send_data(b'[{"type":"sing"}]')
                assert isinstance((await raw.receive())[0], Refused)
            async with Raw(address, "h1", credential) as raw:
                await raw.send(Hello(host="h1", version=99))
                welcome = (await raw.receive_until_synced())[0]
                assert isinstance(welcome, Welcome)
                assert welcome.version == VERSION
                await raw.send_data(b'[{"type":"sing"}]')
                assert isinstance((await raw.receive())[0], ErrorMessage)

        asyncio.run(test())


@pytest.mark.parametrize(
    "bind, words", [("0.0.0.0:1", "without TLS"), ("wss://127.0.0.1:1", "tls_cert_file"), ("nonsense", "bind")]
)
@pytest.mark.parametrize("program", ["server", "feed"])
def test_options_that_are_refused(tmp_path: Path, program: str, bind: str, words: str) -> None:
    path = tmp_path / "neutrino.conf"
    path.write_text(f"[DEFAULT]\nstate_path={tmp_path}\nauth_strategy=noauth\n[feed]\nrun=true\nbind={bind}\n")
    done = run_neutrino([program, "--config-file", str(path)])
    assert done.status == 2
    assert words in done.error


def test_the_credential_is_not_logged_at_debug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for logger in ("", "websockets", "neutrino"):
        caplog.set_level(logging.DEBUG, logger=logger)
    path = str(tmp_path / "feed.sock")
    client = FeedClient(ClientOptions(Address(path=path), "h1", "the-credential", first_delay=0.01))

    async def test() -> None:
        connected = asyncio.Event()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert b"the-credential" in await reader.readuntil(b"\r\n\r\n")
            writer.close()
            connected.set()

        async with await asyncio.start_unix_server(refuse, path):
            task = asyncio.create_task(client.run())
            await connected.wait()
            task.cancel()
            await asyncio.wait([task])

    asyncio.run(test())
    assert "the-credential" not in caplog.text


def test_an_agent_that_starts_before_its_server_waits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    servers = [Address(path=str(tmp_path / name)) for name in ("none", "neither")]
    client = FeedClient(ClientOptions(servers[0], "h1", "x", others=(servers[1],), first_delay=0.01))
    caplog.set_level(logging.DEBUG, logger="neutrino")

    async def test() -> None:
        running = asyncio.create_task(client.run())
        await until(lambda: client._failures > 5, "some attempts")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    asyncio.run(test())
    levels = [r.levelname for r in caplog.records if "no connection to the server" in r.message]
    assert levels[:2] == ["WARNING", "INFO"]  # each server's reason is logged once
    assert {*levels[2:]} == {"DEBUG"}
    assert not client.is_synced


def certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "feed")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = directory / "cert.pem", directory / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encryption, form = serialization.NoEncryption(), serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    return cert_file, key_file


def test_tls(tmp_path: Path) -> None:
    cert_file, key_file = certificate(tmp_path)
    port = free_port()
    settings = {
        "feed": {"run": "true", "bind": f"127.0.0.1:{port}", "tls_cert_file": cert_file, "tls_key_file": key_file}
    }
    with Neutrino(settings) as server:
        credential = command(server, "add", "h1")
        address = Address(host="127.0.0.1", port=port, tls=True)
        trusting = ClientContext(str(cert_file))
        good = FeedClient(ClientOptions(address, "h1", credential, tls=trusting, first_delay=0.05, longest_delay=0.2))
        doubting = FeedClient(ClientOptions(address, "h1", credential, first_delay=0.05, longest_delay=0.2))

        async def test() -> None:
            tasks = [asyncio.create_task(c.run()) for c in (good, doubting)]
            await until(lambda: good.is_synced, "a connection over TLS", 30)
            await until(lambda: doubting._failures > 2, "attempts", 30)
            assert not doubting.connected
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(test())
