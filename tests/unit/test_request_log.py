"""The client's address and the log line of a request: neither can be chosen by the client."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from neutrino.errors import RefusedToStart
from neutrino.server import requests
from neutrino.server.config import configuration
from neutrino.server.middleware import wrap

PEER = "192.0.2.1"


def client(tmp_path: Path, parsing: bool, *, proxies: str = f"203.0.113.0/24,{PEER}", **environment: str) -> str:
    """The client's address as an application inside all middleware finds it."""
    file = tmp_path / "neutrino.conf"
    options = f"enable_proxy_headers_parsing = {parsing}\n" + (f"trusted_proxies = {proxies}\n" if proxies else "")
    file.write_text(f"[DEFAULT]\nauth_strategy = noauth\n[oslo_middleware]\n{options}")
    found: list[str] = []

    def api(environ: dict[str, Any], start: Any) -> list[bytes]:
        found.append(environ[requests.CLIENT])
        start("200 OK", [])
        return []

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": PEER, "SCRIPT_NAME": "", **environment}
    b"".join(wrap(api, configuration([str(file)]))(environ, lambda *answer: None))
    return found[0]


@pytest.mark.parametrize(
    ("forwarded_for", "address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("10.0.0.1, 198.51.100.7", "198.51.100.7"),
        ("10.0.0.1,2001:DB8::1", "2001:db8::1"),
        ("10.0.0.1, 198.51.100.7, 203.0.113.8", "198.51.100.7"),  # two proxies
        (", ".join(["203.0.113.1"] * 5000), "203.0.113.1"),
        ("198.51.100.7, unknown", PEER),
        ("198.51.100.7,", PEER),
        ("fe80::1%forged", PEER),
        ("198.51.100.7\x85forged", PEER),
        ("", PEER),
    ],
)
def test_the_client_of_a_proxy_is_the_address_that_the_proxy_added(
    tmp_path: Path, forwarded_for: str, address: str
) -> None:
    assert client(tmp_path, True, HTTP_X_FORWARDED_FOR=forwarded_for) == address
    assert client(tmp_path, True, HTTP_X_FORWARDED_FOR=forwarded_for, HTTP_FORWARDED="for=203.0.113.9") == address
    assert client(tmp_path, False, HTTP_X_FORWARDED_FOR=forwarded_for) == PEER


@pytest.mark.parametrize(
    ("proxies", "address", "found"),
    [
        ("", "127.0.0.1", "198.51.100.7"),
        ("", "::1", "198.51.100.7"),
        ("", "", "198.51.100.7"),  # by a Unix socket
        ("", PEER, PEER),
        ("10.0.0.0/8", PEER, PEER),
        ("10.0.0.0/8", "127.0.0.1", "127.0.0.1"),
        ("10.0.0.0/8", "::ffff:10.0.0.1", "198.51.100.7"),
        ("2001:db8::/32", "2001:db8::5", "198.51.100.7"),
    ],
)
def test_only_a_proxy_says_who_the_client_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, proxies: str, address: str, found: str
) -> None:
    chosen = client(tmp_path, True, proxies=proxies, REMOTE_ADDR=address, HTTP_X_FORWARDED_FOR="198.51.100.7")
    assert chosen == found
    assert ("trusted_proxies" in caplog.text) == (found == address)


def test_a_proxy_that_is_no_address_refuses_the_start(tmp_path: Path) -> None:
    with pytest.raises(RefusedToStart, match="trusted_proxies: 'proxy1' does not appear to be"):
        client(tmp_path, True, proxies="proxy1")


def log_line(environ: dict[str, str], caplog: pytest.LogCaptureFixture) -> str:
    """The line that is logged for a request."""

    def api(environ: dict[str, Any], start: Any) -> list[bytes]:
        start("200 OK", [])
        return []

    with caplog.at_level(logging.INFO, requests.LOG.name):
        requests.observed(api, requests.ALL)(dict(environ), lambda *answer: None)
    (line,) = caplog.messages
    return line


@pytest.mark.parametrize("name", ["REMOTE_ADDR", "REQUEST_METHOD", "PATH_INFO", "SERVER_PROTOCOL"])
@pytest.mark.parametrize("end", ["\x85", "\n", "\u2028"])
def test_no_part_of_a_request_ends_its_log_line(name: str, end: str, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": PEER, "SERVER_PROTOCOL": "HTTP/1.1"}
    line = log_line({**environ, name: f"{environ[name]}{end}forged"}, caplog)
    assert "forged" in line
    assert len(line.splitlines()) == 1


@pytest.mark.parametrize(
    ("query", "logged"),
    [
        ("psk=s3cret", "psk=***"),
        ("name=a&psk=s3cret&psk=other&limit=5", "name=a&psk=***&psk=***&limit=5"),
        ("name=psk", "name=psk"),
    ],
)
def test_pre_shared_keys_in_filters_are_not_logged(query: str, logged: str, caplog: pytest.LogCaptureFixture) -> None:
    path = "/v2.0/vpn/ipsec-site-connections"
    line = log_line({"REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "REMOTE_ADDR": PEER}, caplog)
    assert f"{path}?{logged} HTTP" in line
