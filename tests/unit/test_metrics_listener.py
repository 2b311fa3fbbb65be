"""Limits of the listener that Prometheus reads metrics from: number of connections, time, names."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from oslo_config import cfg
from prometheus_client.core import GaugeMetricFamily

from neutrino.metrics import listener
from tests.support.ports import free_port


class Up:
    def collect(self) -> list[GaugeMetricFamily]:
        return [GaugeMetricFamily("up", "Collected.", 1)]


def configuration(bind: str) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(listener.options(bind), "metrics")
    conf([], default_config_files=[])
    return conf


@pytest.fixture
def served() -> Iterator[tuple[str, int]]:
    conf = configuration(f"127.0.0.1:{free_port()}")
    with listener.serving(conf, Up()):
        host, _, port = conf.metrics.bind.rpartition(":")
        yield host, int(port)


def answer(address: tuple[str, int], *headers: str) -> bytes:
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall("\r\n".join(["GET /metrics HTTP/1.1", *headers, "", ""]).encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_new_connection_replaces_the_oldest(served: tuple[str, int]) -> None:
    """Beyond the limit: clients that never ask keep no other out."""
    with contextlib.ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(served, timeout=listener.CLIENT_SECONDS / 2))
            for _ in range(listener.MAX_CONNECTIONS)
        ]
        assert b"up 1" in answer(served)
        assert idle[0].recv(1) == b""  # closed at once: before the end of its time
        idle[1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert b"up 1" in b"".join(iter(lambda: idle[1].recv(1 << 16), b""))


def test_a_request_has_a_deadline_also_if_bytes_arrive(
    served: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "CLIENT_SECONDS", 1.5)
    with socket.create_connection(served, timeout=0.2) as slow:
        began = time.monotonic()
        slow.sendall(b"GET /metrics HTTP/1.0\r\nX-Slow: ")
        while time.monotonic() - began < 60:
            try:
                slow.sendall(b"x")
                if slow.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert 1 < time.monotonic() - began < 30
    assert b"up 1" in answer(served)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", b"200"),
        ("LOCALHOST:9699", b"200"),
        ("127.0.0.1:9699", b"200"),
        ("127.9.9.9", b"200"),
        ("[::1]:9699", b"200"),
        ("", b"200"),
        ("rebound.example.org:9699", b"403"),
        ("127.0.0.1.example.org", b"403"),
        ("localhost.example.org", b"403"),
        ("192.0.2.1", b"403"),
        ("[2001:db8::1]", b"403"),
        ("localhost\r\nHost: rebound.example.org", b"403"),
    ],
)
def test_on_loopback_only_names_of_loopback_are_answered(served: tuple[str, int], host: str, status: bytes) -> None:
    assert answer(served, f"Host: {host}").split()[1] == status


def test_on_other_addresses_any_name_is_answered() -> None:
    conf = configuration(f"0.0.0.0:{free_port()}")
    conf.set_override("allow_plain_beyond_loopback", True, "metrics")
    with listener.serving(conf, Up()):
        port = int(conf.metrics.bind.rpartition(":")[2])
        assert b"up 1" in answer(("127.0.0.1", port), "Host: server1.example.org")
