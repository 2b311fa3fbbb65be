"""The log line of a request."""

from __future__ import annotations

import pytest

from neutrino.server import requests


@pytest.mark.parametrize(
    ("query", "logged"),
    [
        ("psk=s3cret", "psk=***"),
        ("name=a&psk=s3cret&psk=other&limit=5", "name=a&psk=***&psk=***&limit=5"),
        ("name=psk", "name=psk"),
    ],
)
def test_pre_shared_keys_in_filters_are_not_logged(query: str, logged: str) -> None:
    environ = {"PATH_INFO": "/v2.0/vpn/ipsec-site-connections", "QUERY_STRING": query, requests.CLIENT: "192.0.2.1"}
    line = requests._record(environ, "GET", "200", (), 0.001).getMessage()
    assert f"/v2.0/vpn/ipsec-site-connections?{logged} HTTP" in line
