"""BIND's name server in a temporary directory: primary of some zones, which a TSIG key may update."""

from __future__ import annotations

import base64
import secrets
import shutil
import signal
from collections.abc import Sequence

import dns.message
import dns.query
import dns.rdatatype
import dns.tsig
import dns.update

from tests.support.ports import free_port, listening
from tests.support.process import TemporaryServer

ADDRESS = "127.0.0.1"
KEY_NAME = "neutrino"
_ZONE = """$TTL 300
@ IN SOA ns hostmaster ( 1 3600 600 86400 60 )
@ IN NS ns
ns IN A 127.0.0.1
"""


class Named(TemporaryServer):
    name = "named"

    def __init__(self, zones: Sequence[str] = ("example.net", "example.com"), read_only: Sequence[str] = ()) -> None:
        super().__init__()
        self.port = free_port()
        self.secret = base64.b64encode(secrets.token_bytes(32)).decode()
        self.key_file = self.write(
            "update.key", f'key "{KEY_NAME}" {{\n\talgorithm hmac-sha256;\n\tsecret "{self.secret}";\n}};\n'
        )
        self._zones = (*zones, *read_only)
        declared = []
        for zone in self._zones:
            self.write(f"{zone}.zone", _ZONE)
            allowed = f"key {KEY_NAME};" if zone in zones else "none;"
            declared.append(f'zone "{zone}" {{ type primary; file "{zone}.zone"; allow-update {{ {allowed} }}; }};')
        self._config = self.write(
            "named.conf",
            f"""
include "{self.key_file}";
options {{
    directory "{self.directory}";
    pid-file none;
    session-keyfile "{self.directory}/session.key";
    listen-on port {self.port} {{ {ADDRESS}; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    empty-zones-enable no;
    notify no;
}};
controls {{ }};
"""
            + "\n".join(declared),
        )

    def start(self) -> None:
        program = shutil.which("named", path="/usr/sbin:/usr/bin:/usr/local/sbin")
        assert program, "named is not installed: run scripts/setup test"
        self.spawn([program, "-g", "-c", self._config], ready=self._serves)

    def _serves(self) -> bool:
        """It listens before it has loaded its zones: until then it answers SERVFAIL."""
        if not listening(self.port):
            return False
        soa = [dns.message.make_query(zone, "SOA") for zone in self._zones]
        return all(dns.query.tcp(one, ADDRESS, port=self.port, timeout=10).rcode() == 0 for one in soa)

    def halt(self) -> None:
        """End the process, and keep the zones: `start` continues with them."""
        process, _ = self._processes.pop()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)

    # --- the DNS as others see and change it ----------------------------------------------------------------------

    def look(self, name: str, type_: str = "A") -> set[str]:
        answer = dns.query.tcp(dns.message.make_query(name, type_), ADDRESS, port=self.port, timeout=10)
        return {record.to_text() for rrset in answer.answer for record in rrset}

    def put(self, name: str, type_: str, values: set[str]) -> None:
        """Replace records, in the zone that is the name without its first label."""
        update = dns.update.UpdateMessage(name.partition(".")[2], keyring=self.key())
        update.delete(name, type_)
        for value in values:
            update.add(name, 300, type_, value)
        answer = dns.query.tcp(update, ADDRESS, port=self.port, timeout=10)
        assert answer.rcode() == 0, answer

    def key(self) -> dns.tsig.Key:
        return dns.tsig.Key(KEY_NAME, self.secret, "hmac-sha256")

    def options(self) -> dict[str, object]:
        """The section [rfc2136] of a server that publishes here."""
        return {
            "server": ADDRESS,
            "port": self.port,
            "zones": "example.net,example.com",
            "tsig_key_file": self.key_file,
        }
