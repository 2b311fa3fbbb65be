"""`neutrino pki`: certificates that openssl accepts, files that are not overwritten, renewal, errors."""

from __future__ import annotations

import datetime
import json
import os
import re
import ssl
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from neutrino.agent.config import GROUPS as AGENT
from neutrino.cli.main import main
from neutrino.cli.pki import certificates as c
from neutrino.cli.pki import command
from neutrino.server.config import OPTIONS as SERVER
from neutrino.tls import TlsFiles, load

Pki = Callable[..., str]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "pki"


@pytest.fixture
def pki(directory: Path, capsys: pytest.CaptureFixture[str]) -> Pki:
    def run(*words: str, status: int = 0) -> str:
        assert main(["pki", "--directory", str(directory), *words]) == status
        out, err = capsys.readouterr()
        return err if status else out

    return run


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def verify(directory: Path, name: str, *more: str) -> None:
    words = ["openssl", "verify", "-x509_strict", "-CAfile", directory / "ca.crt", *more, directory / f"{name}.crt"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_server(pki: Pki, directory: Path) -> None:
    pki("init", "--name", "Example CA")
    pki("issue", "s1", "--address", "192.0.2.1", "--address", "s1.example.org", "--address", "2001:db8::1")
    assert [mode(directory / name) for name in ("ca.key", "s1.key", "ca.crt", "s1.crt")] == [0o600, 0o600, 0o644, 0o644]
    for check in (("-verify_ip", "192.0.2.1"), ("-verify_ip", "2001:db8::1"), ("-verify_hostname", "s1.example.org")):
        verify(directory, "s1", "-purpose", "sslserver", *check)
    with pytest.raises(AssertionError):
        verify(directory, "s1", "-verify_ip", "192.0.2.9")
    load(TlsFiles(str(directory / "s1.crt"), str(directory / "s1.key")))
    made, authority = certificate(directory / "s1.crt"), certificate(directory / "ca.crt")
    assert authority.subject.rfc4514_string() == "CN=Example CA"
    assert made.serial_number.bit_length() > 100
    assert c.days_of(made) == 397
    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)


def test_the_printed_options_are_those_of_server_and_agent(pki: Pki, directory: Path) -> None:
    pki("init")
    text = pki("issue", "s1", "--address", "192.0.2.1", "--address", "s1.example.org")
    server, _, agent = text.partition("in agent.conf")
    for part, groups in (
        (server, SERVER.items()),
        (agent.partition("for clients")[0], AGENT),
    ):
        known = {(group or "DEFAULT", option.name) for group, options in groups for option in options}
        group = ""
        found = 0
        for line in part.splitlines():
            if header := re.fullmatch(r"  \[(\w+)\]", line):
                group = header[1]
            elif option := re.fullmatch(r"  (\w+) = .*", line):
                assert (group, option[1]) in known, line
                found += 1
        assert found >= 2
    assert "bind = 192.0.2.1:9697" in server
    assert "server = wss://s1.example.org:9697" in agent


def test_nothing_is_overwritten(pki: Pki, directory: Path) -> None:
    pki("init")
    pki("issue", "s1")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert "ca.crt exists and is not overwritten: use another --directory" in pki("init", status=2)
    assert "s1.crt exists and is not overwritten: `neutrino pki renew s1` replaces it" in pki("issue", "s1", status=2)
    (directory / "s1.crt").unlink()
    assert "s1.key exists and is not overwritten" in pki("issue", "s1", status=2)
    (directory / "s1.crt").write_bytes(before["s1.crt"])
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_renew_replaces_what_ends_soon(pki: Pki, directory: Path) -> None:
    pki("init")
    pki("issue", "short", "--address", "192.0.2.1", "--days", "20")
    pki("issue", "long", "--address", "192.0.2.2")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert pki("renew").splitlines() == [f"renewed short, valid until {days(20)}"]
    changed = {path.name for path in directory.iterdir() if path.read_bytes() != before[path.name]}
    assert changed == {"short.crt", "short.key"}
    assert mode(directory / "short.key") == 0o600
    verify(directory, "short", "-verify_ip", "192.0.2.1")
    pki("renew", "--days", "90")
    assert pki("renew") == "no certificate ends within 30 days\n"
    pki("renew", "long", "--days", "10")
    assert "ends soon" in pki("list")


def days(number: int) -> str:
    return f"{datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=number):%Y-%m-%d}"


def test_a_renewed_authority_keeps_certificates_valid(pki: Pki, directory: Path) -> None:
    pki("init", "--days", "10")
    text = pki("issue", "s1", "--days", "397")
    assert f"valid until {days(10)}" in text, "no certificate outlives its authority"
    assert "run `neutrino pki renew ca`" in pki("renew", "s1")
    old, key = certificate(directory / "ca.crt"), (directory / "ca.key").read_bytes()
    pki("renew", "ca", "--days", "3650")
    assert certificate(directory / "ca.crt").not_valid_after_utc > old.not_valid_after_utc
    assert (directory / "ca.key").read_bytes() == key
    verify(directory, "s1")
    pki("renew", "s1", "--days", "397")
    verify(directory, "s1")


def test_an_expired_authority_signs_nothing(pki: Pki, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pki("init", "--days", "1")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)
    monkeypatch.setattr(command, "_now", lambda: later)
    assert "has expired: run `neutrino pki renew ca`" in pki("issue", "s1", status=1)
    assert "expired" in pki("list")


def test_list_and_show(pki: Pki, directory: Path) -> None:
    pki("init")
    pki("issue", "s1", "--address", "192.0.2.1")
    pki("issue", "ops", "--client")
    rows: list[dict[str, Any]] = json.loads(pki("list", "--json"))
    assert [(row["name"], row["addresses"], row["state"]) for row in rows] == [
        ("ca", [], "valid"),
        ("ops", [], "valid"),
        ("s1", ["192.0.2.1"], "valid"),
    ]
    assert pki("list").splitlines()[3].split() == ["s1", "192.0.2.1", days(397), "397", "valid"]
    shown = json.loads(pki("show", "s1", "--json"))
    assert shown["purpose"] == "server"
    assert int(shown["serial"], 16) == certificate(directory / "s1.crt").serial_number
    assert json.loads(pki("show", "ops", "--json"))["purpose"] == "client"
    assert "OS_CERT=" in pki("show", "ops")
    assert "ca_file = /etc/neutrino/ca.crt" in pki("show", "ca")
    verify(directory, "ops", "-purpose", "sslclient")
    (directory / "ca.crt").write_bytes(c.new_authority("other", 10, datetime.datetime.now(datetime.UTC)).pem)
    assert "signed by another authority" in pki("list")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("issue", "ca"), "the name ca is that of the authority"),
        (("issue", "../x", "--address", "192.0.2.1"), "cannot be a file name"),
        (("issue", "s1", "--address", "192.0.2.300"), "neither an IP address nor a DNS name"),
        (("issue", "s1", "--address", "a b"), "neither an IP address nor a DNS name"),
        (("issue", "s1", "--days", "0"), "--days 0 is not between 1 and 36500"),
        (("issue", "s1", "--owner", "no-such-user"), "--owner no-such-user: this machine has no such user"),
        (("issue", "a_b!", "--address", "192.0.2.1"), "cannot be a file name"),
        (("issue", "x" * 70, "--address", "192.0.2.1"), "needs 1 to 64 characters"),
    ],
)
def test_bad_arguments(pki: Pki, directory: Path, words: tuple[str, ...], message: str) -> None:
    pki("init")
    assert message in pki(*words, status=2)
    assert {path.name for path in directory.iterdir()} == {"ca.crt", "ca.key"}


def test_without_an_authority(pki: Pki, directory: Path) -> None:
    for words in (("list",), ("issue", "s1"), ("renew",), ("show", "s1")):
        assert "cannot be read: No such file or directory" in pki(*words, status=1)
    pki("init")
    (directory / "ca.key").write_text("nothing")
    assert "ca.key is not a key" in pki("issue", "s1", status=1)
    (directory / "ca.key").write_bytes(c.new_authority("x", 1, datetime.datetime.now(datetime.UTC)).key_pem)
    assert "is not the key of" in pki("issue", "s1", status=1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_the_key_belongs_to_the_servers_user_also_after_renewal(pki: Pki, directory: Path) -> None:
    pki("init")
    pki("issue", "s1", "--owner", "nobody")
    assert (directory / "s1.key").owner() == "nobody"
    pki("renew", "s1")
    assert (directory / "s1.key").owner() == "nobody"
    assert ssl.PEM_cert_to_DER_cert((directory / "s1.crt").read_text())
