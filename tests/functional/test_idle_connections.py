"""Idle connections of clients: kept for `client_socket_timeout`, then closed by the server."""

import socket

from tests.support.neutrino import Neutrino

REQUEST = b"GET / HTTP/1.1\r\nHost: neutrino\r\n\r\n"


def test_an_idle_connection_is_closed_after_the_time_out() -> None:
    with (
        Neutrino({"DEFAULT": {"client_socket_timeout": 1}}) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
    ):
        for _ in range(2):  # the second request proves that the first one's answer has not ended the connection
            client.sendall(REQUEST)
            answer = client.recv(65536)
            assert answer.startswith(b"HTTP/1.1 ")
            assert b"connection: close" not in answer.lower()
        while client.recv(65536):  # the rest of the answer; then the end
            pass


def test_a_time_out_of_zero_is_none() -> None:
    with (
        Neutrino({"DEFAULT": {"client_socket_timeout": 0}}) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as client,
    ):
        for _ in range(2):
            client.sendall(REQUEST)
            assert client.recv(65536).startswith(b"HTTP/1.1 ")
