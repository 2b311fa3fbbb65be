"""Certificates of listeners: reload of changed files, files that cannot be used, expiry; CA files of clients."""

from __future__ import annotations

import datetime
import logging
import os
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from neutrino.errors import RefusedToStart
from neutrino.tls import CHECK_SECONDS, DAY, ClientContext, ReloadingContext, TlsFiles, Watch, load, warn_of_expiry
from tests.support.certificates import Authority

AUTHORITY = Authority()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(tmp_path: Path) -> TlsFiles:
    write(tmp_path, AUTHORITY.issue("server"))
    options = ("tls_cert_file", "tls_key_file", "tls_ca_file")
    return TlsFiles(str(tmp_path / "s.crt"), str(tmp_path / "s.key"), group="feed", options=options)


def write(directory: Path, pem: str) -> None:
    certificate, found, key = pem.partition("-----BEGIN PRIVATE")
    (directory / "s.crt").write_text(certificate)
    (directory / "s.key").write_text(found + key)


def serial(context: ssl.SSLContext) -> str:
    """Of the certificate in a handshake, without sockets."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cadata=AUTHORITY.certificate)
    client = trusting.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    server = context.wrap_bio(to_server, to_client, server_side=True)
    ends: list[Callable[[], None]] = [client.do_handshake, server.do_handshake]
    while ends:
        try:
            ends[0]()
            ends.pop(0)
        except ssl.SSLWantReadError:
            ends.reverse()
    certificate = client.getpeercert()
    assert certificate
    return str(certificate["serialNumber"])


def test_new_connections_use_changed_files_once_they_are_settled(pair: TlsFiles, tmp_path: Path, clock: Clock) -> None:
    context = ReloadingContext(Watch(pair, clock))
    first = serial(context)
    write(tmp_path, AUTHORITY.issue("server"))
    assert serial(context) == first, "within the interval the files are not looked at"
    clock.now += CHECK_SECONDS
    assert serial(context) == first, "may be written still"
    clock.now += CHECK_SECONDS
    assert serial(context) != first


def test_a_signal_reads_changed_files_at_once(pair: TlsFiles, tmp_path: Path, clock: Clock) -> None:
    watch = Watch(pair, clock)
    assert not watch.check(now=True)
    write(tmp_path, AUTHORITY.issue("server"))
    assert watch.check(now=True)


def test_files_that_do_not_match_are_logged_once_and_the_previous_stay(
    pair: TlsFiles, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    watch = Watch(pair, clock)
    context = ReloadingContext(watch)
    first = serial(context)
    caplog.clear()
    certificate = AUTHORITY.issue("server").partition("-----BEGIN PRIVATE")[0]
    (tmp_path / "s.crt").write_text(certificate)
    for _ in range(4):
        clock.now += CHECK_SECONDS
        assert not watch.check()
    assert serial(context) == first
    assert [record.getMessage() for record in caplog.records] == [
        "the changed TLS files are not used, the previous ones stay in use: "
        f"[feed] tls_cert_file={tmp_path}/s.crt (with [feed] tls_key_file) cannot be used: key values mismatch"
    ]
    (tmp_path / "s.key").unlink()
    assert not watch.check(now=True)
    assert (
        caplog.records[-1]
        .getMessage()
        .endswith(f"[feed] tls_key_file={tmp_path}/s.key cannot be read: No such file or directory")
    )
    write(tmp_path, AUTHORITY.issue("server"))
    assert watch.check(now=True)
    assert serial(context) != first


def test_a_certificate_that_only_openssl_reads_is_logged_and_the_previous_stays(
    pair: TlsFiles, tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(pair, clock)
    context = ReloadingContext(watch)
    first = serial(context)
    pem = AUTHORITY.issue("server")
    write(tmp_path, pem.replace(" CERTIFICATE-----", " TRUSTED CERTIFICATE-----"))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(pair.cert, pair.key)
    caplog.clear()
    assert not watch.check(now=True)
    assert "previous ones stay in use" in caplog.text
    assert f"[feed] tls_cert_file={pair.cert} cannot be used" in caplog.text
    assert serial(context) == first


def test_a_changed_ca_file_replaces_the_cas_of_clients(pair: TlsFiles, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text(AUTHORITY.certificate)
    watch = Watch(TlsFiles(pair.cert, pair.key, str(ca)))
    old = watch.loaded.context.get_ca_certs()
    ca.write_text(Authority().certificate)
    assert watch.check(now=True)
    new = watch.loaded.context
    assert new.verify_mode is ssl.CERT_REQUIRED
    assert [each["serialNumber"] for each in new.get_ca_certs()] != [each["serialNumber"] for each in old]


def test_a_file_behind_a_symbolic_link(pair: TlsFiles, tmp_path: Path) -> None:
    """certbot and Kubernetes replace links."""
    for name, text in (("one", AUTHORITY.issue("a")), ("two", AUTHORITY.issue("b"))):
        (tmp_path / name).mkdir()
        write(tmp_path / name, text)
    link = tmp_path / "live"
    link.symlink_to("one")
    watch = Watch(TlsFiles(str(link / "s.crt"), str(link / "s.key")))
    (tmp_path / "new").symlink_to("two")
    os.replace(tmp_path / "new", link)
    assert watch.check(now=True)


def test_expiry_is_logged_at_the_start_and_once_a_day(
    pair: TlsFiles, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = Watch(pair, clock)  # the certificate is valid for a day
    message = (
        f"[feed] tls_cert_file={pair.cert} expires at {watch.loaded.expires:%Y-%m-%d %H:%M} UTC, in 0 days: renew it"
    )
    assert caplog.messages == [message]
    clock.now += DAY + 1
    for _ in range(3):
        clock.now += CHECK_SECONDS
        watch.check()
    assert caplog.messages == [message, message]


@pytest.mark.parametrize(("days", "text"), [(31, ""), (29, "in 29 days"), (-1, "expired at")])
def test_thirty_days(pair: TlsFiles, days: int, text: str, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(pair)
    warn_of_expiry(pair, loaded, loaded.expires - datetime.timedelta(days=days, hours=1))
    assert (text in caplog.text) if text else not caplog.text


def test_the_lowest_version_is_1_2(pair: TlsFiles) -> None:
    assert load(pair).context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert ClientContext(None)().minimum_version is ssl.TLSVersion.TLSv1_2


# --- clients ----------------------------------------------------------------------------------------------------------


def test_a_client_reads_a_changed_ca_file_again(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text(AUTHORITY.certificate)
    client = ClientContext(str(ca))
    first = client()
    assert client() is first
    assert (first.check_hostname, first.verify_mode) == (True, ssl.CERT_REQUIRED)
    ca.write_text(Authority().certificate)
    assert client() is not first
    ca.write_text("nothing")
    with pytest.raises(OSError, match=rf"\[feed\] ca_file={ca} has no valid CA certificate"):
        client()
    ca.unlink()
    with pytest.raises(OSError, match=rf"\[feed\] ca_file={ca} cannot be read: No such file or directory"):
        client()


def test_a_ca_file_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(RefusedToStart, match=r"\[feed\] ca_file=/none cannot be read: No such file or directory"):
        ClientContext("/none")


def test_a_refused_certificate_is_explained(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text(AUTHORITY.certificate)
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: x (_ssl.c:1)")
    error.verify_message = "certificate has expired"
    text = "the server's certificate is not accepted: certificate has expired; it is checked with "
    assert ClientContext(str(ca)).explain(error) == f"{text}[feed] ca_file={ca}"
    assert ClientContext(None).explain(error) == f"{text}the system's CAs, as [feed] ca_file is not set"
    assert ClientContext(None).explain(ConnectionRefusedError("refused")) == "refused"
