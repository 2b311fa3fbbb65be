"""The API over TLS, with the clients that users have: openstacksdk and requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import openstack
import pytest
import requests

from neutrino.cli.main import main
from tests.support.certificates import Authority
from tests.support.neutrino import Neutrino
from tests.support.process import wait_until


def certificate(port: int, context: ssl.SSLContext) -> bytes:
    """The server's certificate, in a handshake."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.getpeercert(binary_form=True) or b""


class TlsNeutrino(Neutrino):
    """The server with TLS. It is ready when it completes a handshake, which a client certificate is not needed for."""

    def __init__(self, options: dict[str, str], **more: object) -> None:
        super().__init__({"DEFAULT": {"use_ssl": True, **more}, "ssl": options})
        self.url = f"https://127.0.0.1:{self.port}"

    def _answers(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(OSError):
            return bool(certificate(self.port, context))
        return False


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def directory(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    (made / "server.pem").write_text(authority.issue("server"))
    (made / "rsa.pem").write_text(authority.issue("server", use_rsa=True))
    (made / "client.pem").write_text(authority.issue("client"))
    (made / "ca.pem").write_text(authority.certificate)
    (made / "stranger.pem").write_text(Authority().issue("stranger"))
    return made


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[TlsNeutrino]:
    with TlsNeutrino({"cert_file": f"{directory}/server.pem", "key_file": f"{directory}/server.pem"}) as running:
        yield running


def call(server: Neutrino, path: str, ca: Path | bool, certificate: Path | None = None) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(f"{server.url}{path}", verify=str(ca), cert=str(certificate or "") or None, timeout=10)


def test_openstacksdk_works_over_tls(server: TlsNeutrino, directory: Path) -> None:
    cloud = {"auth_type": "none", "endpoint": server.url, "cacert": f"{directory}/ca.pem"}
    with openstack.connect(load_envvars=False, load_yaml_config=False, **cloud) as connection:
        network = connection.network.create_network(name="secret")
        assert [each.name for each in connection.network.networks()] == ["secret"]
        connection.network.delete_network(network)


def test_commands_with_an_endpoint_use_the_ca_of_the_environment(
    server: TlsNeutrino, directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OS_CACERT", f"{directory}/ca.pem")
    assert main(["status", "--json", "--endpoint", server.url]) in (0, 1)
    assert "status" not in capsys.readouterr().err
    monkeypatch.setenv("OS_CACERT", f"{directory}/stranger.pem")
    assert main(["status", "--endpoint", server.url]) == 3


def test_discovery_and_links_have_https(server: TlsNeutrino, directory: Path) -> None:
    versions = call(server, "/", directory / "ca.pem").json()
    assert versions["versions"][0]["links"][0]["href"] == f"{server.url}/v2.0/"
    resources = call(server, "/v2.0/", directory / "ca.pem").json()["resources"]
    assert {each["links"][0]["href"].partition("://")[0] for each in resources} == {"https"}


def test_the_certificate_is_checked_and_plain_http_is_not_served(server: TlsNeutrino, directory: Path) -> None:
    with pytest.raises(requests.exceptions.SSLError):
        call(server, "/", directory / "stranger.pem")
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(f"http://127.0.0.1:{server.port}/", timeout=10)


def test_with_a_ca_file_clients_need_a_certificate(directory: Path) -> None:
    files = {"cert_file": f"{directory}/rsa.pem", "key_file": f"{directory}/rsa.pem", "ca_file": f"{directory}/ca.pem"}
    with TlsNeutrino(files) as server:
        ca = directory / "ca.pem"
        assert call(server, "/v2.0/networks", ca, directory / "client.pem").json() == {"networks": []}
        for certificate in (None, directory / "stranger.pem"):
            with pytest.raises((requests.exceptions.SSLError, requests.exceptions.ConnectionError)):
                call(server, "/v2.0/networks", ca, certificate)


def test_the_lowest_version(directory: Path) -> None:
    files = {"cert_file": f"{directory}/server.pem", "key_file": f"{directory}/server.pem", "version": "TLSv1_3"}
    with TlsNeutrino(files) as server:
        context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        old = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
        with pytest.raises(ssl.SSLError):
            old.request("GET", "/")
        context.maximum_version = ssl.TLSVersion.TLSv1_3
        new = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=10, context=context)
        new.request("GET", "/v2.0/networks")
        assert json.load(new.getresponse()) == {"networks": []}
        new.close()


def test_a_hangup_loads_a_renewed_certificate(authority: Authority, directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "renewed.pem"
    file.write_text((directory / "server.pem").read_text())
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    with TlsNeutrino({"cert_file": str(file), "key_file": str(file)}) as server:
        before = certificate(server.port, context)
        file.write_text(authority.issue("server"))
        os.kill(server.pids[0], signal.SIGHUP)

        def is_new() -> bool:
            with contextlib.suppress(OSError):  # the old worker ended during the handshake
                return certificate(server.port, context) != before
            return False

        wait_until(is_new, timeout=60, what="the new certificate", failed=lambda: None)


def test_connections_are_accepted_while_the_only_worker_is_replaced(
    authority: Authority, directory: Path, tmp_path: Path
) -> None:
    """The new one needs longer to start than granian lets the old one go on."""
    file = tmp_path / "renewed.pem"
    file.write_text((directory / "server.pem").read_text())
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    with TlsNeutrino({"cert_file": str(file), "key_file": str(file)}, api_workers=1) as server:
        before = certificate(server.port, context)
        file.write_text(authority.issue("server"))
        os.kill(server.pids[0], signal.SIGHUP)

        def is_new() -> bool:
            with contextlib.suppress(ConnectionResetError, ssl.SSLError):  # the old worker ended during the handshake
                return certificate(server.port, context) != before  # ConnectionRefusedError fails the test
            return False

        wait_until(is_new, timeout=60, what="the new certificate", failed=lambda: None)
        wait_until(
            lambda: all(is_new() for _ in range(20)), timeout=60, what="the end of the old one", failed=lambda: None
        )
