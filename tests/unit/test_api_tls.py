"""Options of the API server's TLS: what is refused at the start, and with which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from neutrino.errors import RefusedToStart
from neutrino.server import config
from neutrino.server.tls import TLS13, api_tls
from neutrino.tls import TlsFiles
from tests.support.certificates import Authority

AUTHORITY = Authority()


def tls(directory: Path, *, use_ssl: bool = True, **options: str) -> TlsFiles | None:
    lines = "".join(f"{name} = {value}\n" for name, value in options.items())
    (directory / "tls.conf").write_text(f"[DEFAULT]\nuse_ssl = {use_ssl}\n[ssl]\n{lines}")
    return api_tls(config.configuration([str(directory / "tls.conf")]))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A certificate and its key."""
    certificate, key = AUTHORITY.issue("server").split("-----BEGIN PRIVATE", 1)
    (tmp_path / "cert.pem").write_text(certificate)
    (tmp_path / "key.pem").write_text(f"-----BEGIN PRIVATE{key}")
    (tmp_path / "ca.pem").write_text(AUTHORITY.certificate)
    return {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}


def test_the_settings(tmp_path: Path, files: dict[str, str]) -> None:
    assert tls(tmp_path, **files) == TlsFiles(files["cert_file"], files["key_file"])
    assert tls(tmp_path, **files, version="SSLv23", ca_file=str(tmp_path / "ca.pem")) == TlsFiles(
        files["cert_file"], files["key_file"], str(tmp_path / "ca.pem")
    )
    assert tls(tmp_path, **files, version="TLSv1_3") == TlsFiles(files["cert_file"], files["key_file"], lowest=TLS13)


def test_without_use_ssl_there_is_none_and_files_are_reported(
    tmp_path: Path, files: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert tls(tmp_path, use_ssl=False) is None
    assert caplog.messages == []
    assert tls(tmp_path, use_ssl=False, **files) is None
    assert caplog.messages == [
        "[ssl] cert_file and key_file have no effect: use_ssl is off, and the API is served without TLS"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cert_file": ""}, "use_ssl is on, and [ssl] cert_file is not set"),
        ({"key_file": ""}, "use_ssl is on, and [ssl] key_file is not set"),
        ({"cert_file": "/none"}, "[ssl] cert_file=/none cannot be read: No such file or directory"),
        ({"key_file": "/none"}, "[ssl] key_file=/none cannot be read: No such file or directory"),
        ({"ca_file": "/none"}, "[ssl] ca_file=/none cannot be read: No such file or directory"),
        ({"key_file": "/"}, "[ssl] key_file=/ cannot be read: Is a directory"),
        ({"version": "TLSv1"}, "[ssl] version=TLSv1 is not supported: use TLSv1_2 or TLSv1_3"),
        ({"version": "SSLv3"}, "[ssl] version=SSLv3 is not supported: use TLSv1_2 or TLSv1_3"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    tmp_path: Path, files: dict[str, str], changes: dict[str, str], message: str
) -> None:
    with pytest.raises(RefusedToStart) as refused:
        tls(tmp_path, **{**files, **changes})
    assert str(refused.value) == message


def test_files_that_are_no_certificates_are_refused_by_name(tmp_path: Path, files: dict[str, str]) -> None:
    other, empty, encrypted = tmp_path / "other.pem", tmp_path / "empty.pem", tmp_path / "encrypted.pem"
    other.write_text(AUTHORITY.issue("other"))
    empty.write_text("")
    encrypted.write_text(AUTHORITY.issue("server", password="secret"))
    with pytest.raises(RefusedToStart, match=r"\[ssl\] cert_file=.*key_file.*key values mismatch"):
        tls(tmp_path, **{**files, "key_file": str(other)})
    with pytest.raises(RefusedToStart, match=r"\[ssl\] cert_file=.*empty.pem"):
        tls(tmp_path, **{**files, "cert_file": str(empty)})
    with pytest.raises(RefusedToStart, match=r"\[ssl\] ca_file=.*empty.pem cannot be used"):
        tls(tmp_path, **files, ca_file=str(empty))
    with pytest.raises(RefusedToStart, match=r"\[ssl\] key_file is encrypted"):
        tls(tmp_path, cert_file=str(encrypted), key_file=str(encrypted))
