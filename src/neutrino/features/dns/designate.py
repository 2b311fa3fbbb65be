"""The driver `designate`: record sets in zones of the object's own project, PTR records in zones of the service's.

The service's user acts as the project of the port or floating IP (`X-Auth-Sudo-Project-ID`), so that Designate itself
refuses a zone of another project. That needs the role admin, or a rule for `use_sudo` in Designate's policy.
"""

import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from oslo_config import cfg

from neutrino.errors import RefusedToStart
from neutrino.features.dns.driver_api import ForeignRecords, Incomplete, RecordSet, Refused, Unreachable
from neutrino.model.objects import Object, Values
from neutrino.server.events.keystone import forget_catalogue

GROUP = "designate"
REQUEST_TIMEOUT = 20.0
LONGEST = 90.0  # seconds for a record set; with the last request it ends before its claim (`publisher.py`)
_PTR_DESCRIPTION = "Zone for reverse lookups, made by the network service."


@dataclass(frozen=True)
class Answer:
    status: int
    body: Values


# method, path, query, body, project to act as (None: the service's own)
Call = Callable[[str, str, Mapping[str, str] | None, object, str | None], Answer]


@dataclass(frozen=True)
class ReverseZones:
    """Zones for PTR records: a prefix each, of these lengths."""

    ipv4_prefix: int = 24
    ipv6_prefix: int = 120
    email: str = ""  # empty: made of the DNS domain

    def __post_init__(self) -> None:
        for prefix, step, option in ((self.ipv4_prefix, 8, "ipv4"), (self.ipv6_prefix, 4, "ipv6")):
            if prefix % step:
                raise RefusedToStart(f"[designate] {option}_ptr_zone_prefix_size: {prefix} is not a multiple of {step}")

    def names(self, address: str) -> tuple[str, str]:
        """The zone and the name of an address's PTR record."""
        ip = ipaddress.ip_address(address)
        name = f"{ip.reverse_pointer}."
        dropped = (32 - self.ipv4_prefix) // 8 if ip.version == 4 else (128 - self.ipv6_prefix) // 4
        return name.split(".", dropped)[dropped], name


class Designate:
    def __init__(
        self, conf: cfg.ConfigOpts, call: Call | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        options = conf.designate
        self._call = call or keystone_call(conf)
        self._clock, self._deadline = clock, 0.0
        self._reverse = None
        if options.allow_reverse_dns_lookup:
            sizes = options.ipv4_ptr_zone_prefix_size, options.ipv6_ptr_zone_prefix_size
            self._reverse = ReverseZones(*sizes, options.ptr_zone_email)

    def replace(
        self,
        record_set: RecordSet,
        addresses: frozenset[str],
        ours: frozenset[str],
        private: frozenset[str] = frozenset(),
    ) -> None:
        self._deadline = self._clock() + LONGEST
        project = record_set.project_id
        zone_id = self._zone_id(record_set.zone, project)
        if zone_id is None:
            if not addresses:
                self._replace_reverse(record_set, addresses, ours, private)  # its records are gone with the zone
                return
            raise Refused(f"project {project} has no zone {record_set.zone} in Designate")
        found = self._record_set(zone_id, record_set.name, record_set.type, project)
        current = frozenset(map(_canonical, found["records"])) if found is not None else frozenset()
        foreign = current - ours
        if foreign and addresses:
            raise ForeignRecords(record_set, ", ".join(sorted(foreign)))
        # If others have added theirs, only ours are removed.
        self._write(zone_id, record_set, found, addresses or foreign, current)
        self._replace_reverse(record_set, addresses, ours, private)

    def _write(
        self,
        zone_id: str,
        record_set: RecordSet,
        found: Values | None,
        addresses: frozenset[str],
        current: frozenset[str],
    ) -> None:
        path, project = f"/v2/zones/{zone_id}/recordsets", record_set.project_id
        if addresses == current:
            return
        if found is None:
            body = {"name": record_set.name, "type": record_set.type, "records": sorted(addresses)}
            self._expect("POST", path, body, project)
        elif addresses:
            self._expect("PUT", f"{path}/{found['id']}", {"records": sorted(addresses)}, project)
        else:
            self._expect("DELETE", f"{path}/{found['id']}", None, project, gone=True)

    # --- reverse lookups ------------------------------------------------------------------------------------------

    def _replace_reverse(
        self, record_set: RecordSet, addresses: frozenset[str], ours: frozenset[str], private: frozenset[str]
    ) -> None:
        """PTR records of the addresses that are not private; those that name another owner of an address are left alone."""
        if self._reverse is None:
            return
        try:
            for address in sorted(
                (ours - addresses) | (ours & private)
            ):  # private ones have some from before this rule
                self._remove_reverse(self._reverse, record_set, address)
            for address in sorted(addresses - private):
                self._add_reverse(self._reverse, record_set, address)
        except Refused as error:  # the addresses themselves are published already
            raise Incomplete(str(error)) from error

    def _remove_reverse(self, reverse: ReverseZones, record_set: RecordSet, address: str) -> None:
        zone, name = reverse.names(address)
        zone_id = self._zone_id(zone, None)
        found = self._record_set(zone_id, name, "PTR", None) if zone_id is not None else None
        if found is not None and list(found["records"]) == [record_set.name]:
            self._expect("DELETE", f"/v2/zones/{zone_id}/recordsets/{found['id']}", None, None, gone=True)

    def _add_reverse(self, reverse: ReverseZones, record_set: RecordSet, address: str) -> None:
        zone, name = reverse.names(address)
        zone_id = self._zone_id(zone, None)
        if zone_id is None:
            email = reverse.email or f"admin@{record_set.zone.rstrip('.')}"
            made = self._expect(
                "POST", "/v2/zones", {"name": zone, "email": email, "description": _PTR_DESCRIPTION}, None
            )
            zone_id = str(made["id"])
        found = self._record_set(zone_id, name, "PTR", None)
        if found is None:
            body = {"name": name, "type": "PTR", "records": [record_set.name]}
            self._expect("POST", f"/v2/zones/{zone_id}/recordsets", body, None)
        elif list(found["records"]) != [record_set.name]:
            raise Refused(f"{address} has the PTR record {', '.join(found['records'])} of another name, which stays")

    # --- requests -------------------------------------------------------------------------------------------------

    def _zone_id(self, name: str, project: str | None) -> str | None:
        zones = self._expect("GET", "/v2/zones", None, project, query={"name": name})["zones"]
        return next((str(zone["id"]) for zone in zones if zone["name"] == name), None)

    def _record_set(self, zone_id: str, name: str, type_: str, project: str | None) -> Values | None:
        path, query = f"/v2/zones/{zone_id}/recordsets", {"name": name, "type": type_}
        found = self._expect("GET", path, None, project, query=query)["recordsets"]
        return next((one for one in found if (one["name"], one["type"]) == (name, type_)), None)

    def _expect(
        self,
        method: str,
        path: str,
        body: object,
        project: str | None,
        *,
        query: Mapping[str, str] | None = None,
        gone: bool = False,
    ) -> Values:
        """The body of a successful response; `gone`: there is nothing to delete, which is as good."""
        if self._clock() > self._deadline:
            raise Unreachable(f"Designate is too slow: {LONGEST:g} s have passed before {method} {path}")
        answer = self._call(method, path, query, body, project)
        if answer.status < 300 or (gone and answer.status == 404):
            return answer.body
        text = f"Designate answers {answer.status} to {method} {path}: {answer.body.get('message') or answer.body}"
        if answer.status >= 500 or answer.status in (401, 429):
            raise Unreachable(text)
        raise Refused(text)


def _canonical(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address


def keystone_call(conf: cfg.ConfigOpts) -> Call:
    """Requests with the credentials in `[designate]`, to `url` or to the endpoint of type dns in the catalogue.

    keystoneauth is imported here, so that a server without Designate does not load it.
    """
    from keystoneauth1 import exceptions, loading

    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)
    auth = loading.load_auth_from_conf_options(conf, GROUP)
    if auth is None:
        raise RefusedToStart("[designate] auth_type is not set: it is required to publish records in Designate")
    session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
    # requests has no timeout by default, and a silent Designate would hold the thread for ever.
    if session.timeout is None:
        session.timeout = REQUEST_TIMEOUT
    url, region = conf.designate.url, conf.designate.region_name
    # Neutron's `url` often ends with the version, which is a part of our paths.
    base = url.rstrip("/").removesuffix("/v2") if url else None
    endpoint = None if base else {"service_type": "dns", "interface": "public", "region_name": region}

    def call(method: str, path: str, query: Mapping[str, str] | None, body: object, project: str | None) -> Answer:
        headers = {"Accept": "application/json"} | ({"X-Auth-Sudo-Project-ID": project} if project else {})
        try:
            response = session.request(
                path,
                method,
                params=query,
                json=body,
                headers=headers,
                user_agent="neutrino",
                raise_exc=False,
                endpoint_override=base,
                endpoint_filter=endpoint,
            )
        except exceptions.ClientException as why:
            forget_catalogue(session, why)
            missing = isinstance(why, exceptions.EndpointNotFound)
            raise Unreachable(f"Designate has no public endpoint: {why}" if missing else str(why)) from why
        try:
            return Answer(response.status_code, msgspec.json.decode(response.content, type=Object))
        except msgspec.MsgspecError:  # an empty response, or an error page
            return Answer(response.status_code, {})

    return call
