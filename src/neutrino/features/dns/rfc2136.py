"""The driver `rfc2136`: dynamic updates to a name server such as BIND, Knot, PowerDNS or Windows DNS, signed with TSIG.

An update has prerequisites: the record set is still as it was read a moment before, and it contained only addresses that
this server had published. The name server checks them together with the update, so records of others are never overwritten.
"""

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.update
from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.features.dns.driver_api import ForeignRecords, RecordSet, Refused, Unreachable

# As tsig-keygen writes it: key "name" { algorithm hmac-sha256; secret "…"; };
_KEY_FILE = re.compile(
    r'key\s+"?(?P<name>[^\s"{;]+)"?\s*\{(?=[^}]*algorithm\s+"?(?P<algorithm>[\w.-]+?)\.?"?\s*;)'
    r'[^}]*secret\s+"?(?P<secret>[A-Za-z0-9+/=]+)"?\s*;[^}]*\}'
)
_CHANGED = (dns.rcode.YXRRSET, dns.rcode.NXRRSET, dns.rcode.YXDOMAIN)  # a prerequisite does not hold
ATTEMPTS = 3  # if others write the record set between the reading and the update


class Rfc2136:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.rfc2136
        if not options.server:
            raise RefusedToStart("[rfc2136] server is not set: the name server that receives the updates")
        if not options.zones:
            raise RefusedToStart("[rfc2136] zones is empty: name the zones that may be written")
        self._server, self._port = options.server, options.port
        self._ttl, self._timeout = options.ttl, options.timeout
        self._zones = [_zone(text) for text in options.zones]
        self._key = tsig_key(options)

    def replace(
        self,
        record_set: RecordSet,
        addresses: frozenset[str],
        ours: frozenset[str],
        private: frozenset[str] = frozenset(),
    ) -> None:
        zone, name = self._zone_of(record_set), dns.name.from_text(record_set.name)
        for _ in range(ATTEMPTS):
            current = self._read(zone, name, record_set.type)
            foreign = current - ours
            if foreign and (addresses or not current & ours):
                if not addresses:
                    return  # others have replaced our records: there is nothing of ours to remove
                raise ForeignRecords(record_set, ", ".join(sorted(foreign)))
            if current == addresses:
                return
            update = self._update(zone, name, record_set.type, current, addresses, current & ours)
            code = self._ask(update).rcode()
            if code == dns.rcode.NOERROR:
                return
            if code == dns.rcode.YXRRSET and self._read_alias(zone, name):
                raise ForeignRecords(record_set, "a CNAME")
            if code not in _CHANGED:
                raise Refused(f"zone {zone}: the name server answers {dns.rcode.to_text(code)} to the update")
        raise Refused(f"{record_set.name} is changed by others at the same time")

    def _update(
        self,
        zone: dns.name.Name,
        name: dns.name.Name,
        type_: str,
        current: frozenset[str],
        addresses: frozenset[str],
        removed: frozenset[str],
    ) -> dns.update.UpdateMessage:
        update = dns.update.UpdateMessage(zone, keyring=self._key)
        if current:
            update.present(name, type_, *sorted(current))
        else:
            update.absent(name, type_)
        if addresses:
            # Next to a CNAME a name server silently drops other records.
            update.absent(name, "CNAME")
            update.replace(name, self._ttl, type_, *sorted(addresses))
        else:  # record by record: the set may contain records of others too
            update.delete(name, type_, *sorted(removed))
        return update

    def _read(self, zone: dns.name.Name, name: dns.name.Name, type_: str) -> frozenset[str]:
        """The addresses that the name server has for a name now."""
        query = dns.message.make_query(name, type_, flags=0)  # no recursion: the server is asked for its own data
        if self._key is not None:
            query.use_tsig(self._key)
        answer = self._ask(query)
        code = answer.rcode()
        if code == dns.rcode.NXDOMAIN:
            return frozenset()
        if code != dns.rcode.NOERROR:
            raise Refused(f"zone {zone}: the name server answers {dns.rcode.to_text(code)} to a query")
        if not answer.flags & dns.flags.AA:
            raise Refused(f"the name server {self._server} is not authoritative for {name}")
        found = answer.get_rrset(answer.answer, name, dns.rdataclass.IN, dns.rdatatype.from_text(type_))
        return frozenset(record.address for record in found) if found is not None else frozenset()

    def _read_alias(self, zone: dns.name.Name, name: dns.name.Name) -> bool:
        query = dns.message.make_query(name, "CNAME", flags=0)
        if self._key is not None:
            query.use_tsig(self._key)
        return bool(self._ask(query).answer)

    def _ask(self, message: dns.message.Message) -> dns.message.Message:
        """The name server's answer. By TCP: an update that is sent again, as with UDP, would fail on its own effect."""
        try:
            return dns.query.tcp(message, self._resolved(), timeout=self._timeout, port=self._port)
        except dns.tsig.PeerError as error:
            raise Refused(f"the name server refuses the TSIG key {self._key and self._key.name}: {error}") from error
        except (dns.tsig.BadSignature, dns.tsig.BadTime, dns.tsig.BadKey) as error:
            raise Refused(f"the answer of the name server has a bad signature: {error}") from error
        except (OSError, EOFError, dns.exception.DNSException) as error:
            text = str(error) or type(error).__name__
            raise Unreachable(f"{self._server} port {self._port}: {text}") from error

    def _resolved(self) -> str:
        """The address of the server; a name is resolved for each message, as it may move."""
        found = socket.getaddrinfo(self._server, self._port, type=socket.SOCK_STREAM)
        return str(found[0][4][0])

    def _zone_of(self, record_set: RecordSet) -> dns.name.Name:
        """The most specific of the configured zones that contains the domain."""
        domain = dns.name.from_text(record_set.zone)
        found = [zone for zone in self._zones if domain.is_subdomain(zone)]
        if not found:
            raise Refused(f"the domain {record_set.zone} is in none of [rfc2136] zones: {_joined(self._zones)}")
        return max(found, key=len)


def tsig_key(options: Any) -> dns.tsig.Key | None:
    """The key in `tsig_key_file`, or in the options; None without either: then the name server trusts our address."""
    if options.tsig_key_file:
        if options.tsig_secret:
            raise RefusedToStart("[rfc2136] tsig_key_file and tsig_secret are both set")
        try:
            text = Path(options.tsig_key_file).read_text()
        except OSError as error:
            raise RefusedToStart(f"[rfc2136] tsig_key_file {options.tsig_key_file}: {error.strerror}") from error
        found = _KEY_FILE.search(text)
        if found is None:
            raise RefusedToStart(f"[rfc2136] tsig_key_file {options.tsig_key_file} has no key as tsig-keygen writes it")
        name, secret, algorithm = found["name"], found["secret"], found["algorithm"]
    elif options.tsig_secret:
        if not options.tsig_name:
            raise RefusedToStart("[rfc2136] tsig_name is not set: the name of the key in tsig_secret")
        name, secret, algorithm = options.tsig_name, options.tsig_secret, options.tsig_algorithm
    else:
        return None
    algorithm = "HMAC-MD5.SIG-ALG.REG.INT" if algorithm == "hmac-md5" else algorithm
    try:
        return dns.tsig.Key(name, secret, algorithm)
    except ValueError as error:  # binascii.Error is one
        raise RefusedToStart(f"[rfc2136]: the TSIG key {name} is not in base64: {error}") from error


def _zone(text: str) -> dns.name.Name:
    try:
        return dns.name.from_text(text.strip())
    except dns.exception.DNSException as error:
        raise RefusedToStart(f"[rfc2136] zones: {text!r} is not a domain: {error}") from error


def _joined(zones: Sequence[dns.name.Name]) -> str:
    return ", ".join(str(zone) for zone in zones)
