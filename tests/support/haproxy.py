"""HAProxy with the configuration of docs/operator-guide.md."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

from tests.support.process import TemporaryServer

GUIDE = Path(__file__).parents[2] / "docs" / "operator-guide.md"


def documented_configuration() -> str:
    found = re.search(r"^```haproxy\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert found, "the guide has no configuration of HAProxy"
    return found[1]


class HAProxy(TemporaryServer):
    """`replacements` are the addresses and files of the test, in place of those of the guide; each must occur there."""

    name = "haproxy"

    def __init__(self, replacements: Mapping[str, str], port: int) -> None:
        super().__init__()
        text = documented_configuration()
        for old, new in replacements.items():
            assert old in text, old
            text = text.replace(old, new)
        assert "192.0.2." not in text
        self._port = port
        self._config = self.write("haproxy.cfg", text)

    def start(self) -> None:
        program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        assert program, "haproxy is not installed: run scripts/setup test"
        self.run([program, "-c", "-f", self._config])
        self.spawn([program, "-db", "-f", self._config], ready=self._listens)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
