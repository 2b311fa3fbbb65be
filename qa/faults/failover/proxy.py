"""HAProxy in front of the servers and of the Galera nodes; the latter with the configuration of docs/databases.md."""

from __future__ import annotations

import abc
import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from tests.support.ports import free_port
from tests.support.process import TemporaryServer

PAGE = Path(__file__).parents[3] / "docs" / "databases.md"
_API = """defaults
    mode http
    timeout connect 5s
    timeout client 90s
    timeout server 90s

listen api
    bind 127.0.0.1:{port}
    balance roundrobin
    option httpchk
    http-check send meth GET uri /healthcheck hdr Host localhost
    retries 2
    option redispatch
    retry-on conn-failure empty-response
    http-request disable-l7-retry unless METH_GET
    default-server check inter 2s fall 2 rise 2
{servers}
"""


def documented(language: str) -> str:
    """The first block of this language on the page."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f"{PAGE.name} has no block of {language}"
    return found[1]


class Proxy(TemporaryServer):
    """One HAProxy, at `port` of loopback."""

    name = "haproxy"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()

    @abc.abstractmethod
    def configuration(self) -> str: ...

    def start(self) -> None:
        program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        assert program, "haproxy is not installed: run scripts/setup test"
        config = self.write("haproxy.cfg", self.configuration())
        self.run([program, "-c", "-f", config])
        self.spawn([program, "-db", "-f", config], ready=self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class ApiProxy(Proxy):
    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__()
        self._ports = ports

    def configuration(self) -> str:
        servers = "\n".join(f"    server server{n} 127.0.0.1:{port}" for n, port in enumerate(self._ports, 1))
        return _API.format(port=self.port, servers=servers)


class GaleraProxy(Proxy):
    """The proxy of one server, which uses the first of these nodes while it is synced."""

    def __init__(self, addresses: Sequence[str]) -> None:
        super().__init__()
        self._addresses = addresses
        self._check = self.write("galera-check", documented("sh"))
        self._check.chmod(0o755)

    def configuration(self) -> str:
        text = documented("haproxy")
        replaced = {"127.0.0.1:3307": f"127.0.0.1:{self.port}", "/usr/local/bin/galera-check": str(self._check)}
        replaced |= {f"192.0.2.{21 + n}": address for n, address in enumerate(self._addresses)}
        for old, new in replaced.items():
            assert old in text, old
            text = text.replace(old, new)
        assert "192.0.2." not in text
        return text
