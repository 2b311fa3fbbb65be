"""Nova behind TLS: its certificate is checked, and ours is shown, though the process may read neither from a file."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.agent.metadata.messages import ProxySettings
from neutrino.agent.metadata.proxy.connections import explain
from tests.support.certificates import Authority
from tests.support.metadata import SECRET, TIMES, Host, dhcp_port, network, port, until
from tests.support.nova_metadata import NovaMetadata

LOGGED = {
    "no certificate": " accept our certificate",
    "another authority": "Nova's certificate is not accepted: ",
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def number(authority: Authority, tmp_path: Path) -> Iterator[int]:
    """The port of a Nova that wants to see a certificate."""
    (tmp_path / "nova.pem").write_text(authority.issue("nova"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(tmp_path / "nova.pem")
    with NovaMetadata(("127.0.0.1", 0), SECRET) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("case", ["right", "no certificate", "another authority", "another authority, insecure"])
def test_nova_behind_tls(case: str, authority: Authority, number: int, tmp_path: Path) -> None:
    settings = ProxySettings(
        nova_metadata_port=number,
        metadata_proxy_shared_secret=SECRET,
        timeouts=TIMES,
        nova_metadata_protocol="https",
        nova_metadata_insecure=case.endswith("insecure"),
        ca=(Authority() if case.startswith("another") else authority).certificate,
        certificate="" if case == "no certificate" else authority.issue("neutrino"),
    )
    host = Host(tmp_path, settings)
    this = port("blue", 5, "10.0.0.5")
    host.namespace("qdhcp-blue", "10.0.0.2/24", "169.254.169.254/32")
    host.instance("blue", "qdhcp-blue", this)
    host.feed.put("dhcp_network", "blue", network("blue"))
    for each in (dhcp_port("blue"), this):
        host.feed.put("dhcp_port", each.id, each)
    wanted = (200, this.device_id) if case in ("right", "another authority, insecure") else (502, None)

    def answered() -> bool:
        try:
            status, text = host.fetch("blue")
        except OSError:
            return False
        return (status, text if status == 200 else None) == wanted

    async def scenario() -> None:
        host.feed.synced()
        async with host.agent():
            await until(answered)
            assert LOGGED.get(case, "") in Path(host.daemon.log_file).read_text()

    try:
        asyncio.run(scenario())
    finally:
        host.close()


def test_what_is_logged_of_a_certificate_that_is_not_as_it_should_be() -> None:
    missing = ssl.SSLCertVerificationError(1, "certificate verify failed")
    missing.verify_code, missing.verify_message = 85, "Missing Authority Key Identifier"
    assert explain(missing) == (
        "Nova's certificate is not accepted: Missing Authority Key Identifier (auth_ca_cert, nova_metadata_host); with"
        " Python 3.13 and later, certificates have to follow RFC 5280, the authority's too"
    )
    missing.verify_code, missing.verify_message = 20, "unable to get local issuer certificate"
    assert explain(missing).endswith("unable to get local issuer certificate (auth_ca_cert, nova_metadata_host)")
    assert explain(ConnectionResetError(104, "Connection reset by peer")) == "[Errno 104] Connection reset by peer"
    options = "(nova_client_cert, nova_client_priv_key)"
    reset = explain(ConnectionResetError(104, "Connection reset by peer"), first=True)
    assert reset == f"[Errno 104] Connection reset by peer; Nova may not accept our certificate {options}"
    alert = ssl.SSLError(1, "alert")
    alert.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert explain(alert) == f"Nova does not accept our certificate: certificate required {options}"
