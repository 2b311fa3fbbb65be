"""Checks of the agent on a host: the feed with this credential, the clock, the cache, drift and orphans. All reading."""

import contextlib
import fcntl
import http.client
import logging
import os
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from oslo_config import cfg

from neutrino.agent.config import feed_addresses
from neutrino.agent.dhcp.network import NAMESPACE_KIND
from neutrino.agent.l3.names import FIP_KIND, ROUTER_KIND, SNAT_KIND
from neutrino.agent.runtime.role import START, Drift
from neutrino.cli.doctor.files import expires_soon
from neutrino.cli.doctor.host import has_net_admin
from neutrino.cli.doctor.openvswitch import read as read_switch
from neutrino.cli.doctor.ovsdb_client import NotReachable, several
from neutrino.cli.doctor.subject import CACHE, Subject
from neutrino.cli.errors import one_line
from neutrino.dataplane.ovsdb.api import OvsdbError
from neutrino.diagnosis import host_problems, machine_problems
from neutrino.diagnosis.problems import Finding
from neutrino.errors import OperatorError
from neutrino.feed.address import Address, short_path
from neutrino.feed.credential_file import CredentialFile
from neutrino.feed.messages import HOST_HEADER

SECONDS: Final = 5.0
SKEW_SECONDS: Final = 5.0
SYNC_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 3.0  # a change that the running agent is applying is no drift
MAX_LISTED: Final = 5
NAMESPACES = "/run/netns"


# --- the feed ---------------------------------------------------------------------------------------------------------


def feed(subject: Subject) -> Iterator[Finding]:
    """Check that each configured server is reachable, is trusted, accepts this host, and has the same clock."""
    conf = subject.conf
    try:
        credential = CredentialFile(conf.feed.credential_file).read()
    except OSError:  # the check of files states it
        return
    except ValueError as error:
        yield host_problems.FEED_REFUSED(f"[feed] credential_file = {conf.feed.credential_file}: {error}")
        return
    try:
        addresses = feed_addresses(conf)
    except OperatorError as error:  # an agent would not start: the credential is not sent in clear here either
        yield machine_problems.CONFIGURATION_INVALID(str(error))
        return
    for address in addresses:
        try:
            answer = _upgrade(address, conf, credential)
        except ssl.SSLCertVerificationError as error:
            yield host_problems.FEED_UNTRUSTED(f"{address}: {error.verify_message}")
            continue
        except (OSError, http.client.HTTPException) as error:
            yield host_problems.FEED_UNREACHABLE(
                f"{address}: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
            )
            continue
        if answer.status in (401, 403):
            yield host_problems.FEED_REFUSED(
                f"{address} refuses host {conf.host} with the credential in {conf.feed.credential_file}: "
                f"{answer.body or answer.status}"
            )
        elif answer.status != http.client.SWITCHING_PROTOCOLS:
            yield host_problems.FEED_UNREACHABLE(
                f"{address} responds with {answer.status}: {answer.body or 'it is not the feed'}"
            )
        now = subject.machine.now()
        yield from clock_finding(address, answer.date, now)
        if answer.valid_until:
            end = datetime.fromtimestamp(ssl.cert_time_to_seconds(answer.valid_until), UTC)
            yield from expires_soon(f"the certificate of {address}", end, datetime.fromtimestamp(now, UTC))


class AgentAnswer(NamedTuple):
    """The answer of a feed to a login."""

    status: int
    body: str  # the text of a refusal
    date: str  # of the server's clock
    valid_until: str = ""  # of the server's certificate


class _Connection(http.client.HTTPConnection):
    """An HTTP connection on a socket that is connected already."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__("feed")
        self.sock = connected


def _upgrade(address: Address, conf: cfg.ConfigOpts, credential: str) -> AgentAnswer:
    """Request the WebSocket as the agent does, and close it."""
    valid_until = ""
    with contextlib.ExitStack() as stack:
        if address.path:
            connected = stack.enter_context(socket.socket(socket.AF_UNIX))
            connected.settimeout(SECONDS)
            connected.connect(stack.enter_context(short_path(address.path)))
        else:
            connected = stack.enter_context(socket.create_connection((address.host, address.port), SECONDS))
        if address.tls:
            context = ssl.create_default_context(cafile=conf.feed.ca_file)
            secured = stack.enter_context(context.wrap_socket(connected, server_hostname=address.host))
            connected, valid_until = secured, str((secured.getpeercert() or {}).get("notAfter", ""))
        headers = {HOST_HEADER: conf.host, "Authorization": f"Bearer {credential}", "Upgrade": "websocket"}
        headers |= {
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "bmV1dHJpbm8gZG9jdG9yIQ==",
        }
        connection = _Connection(connected)
        connection.request("GET", "/", headers=headers)
        response = connection.getresponse()
        is_open = response.status == http.client.SWITCHING_PROTOCOLS  # its body is the feed, and has no end
        body = "" if is_open else response.read(500).decode(errors="replace").strip()
        return AgentAnswer(response.status, one_line(body), response.headers.get("Date", ""), valid_until)


def clock_finding(address: object, date: str, now: float) -> Iterator[Finding]:
    try:
        skew = parsedate_to_datetime(date).timestamp() - now
    except (TypeError, ValueError):  # no date
        return
    if abs(skew) > SKEW_SECONDS:
        ahead = "ahead of" if skew > 0 else "behind"
        yield host_problems.CLOCK_SERVER(
            f"the clock of the server at {address} is {abs(skew):.0f} s {ahead} this machine's"
        )


# --- the agent's state ------------------------------------------------------------------------------------------------


def agent(subject: Subject) -> Iterator[Finding]:
    cache = subject.state_path / CACHE
    since = ""
    if not cache.exists():
        yield host_problems.NEVER_SYNCED(f"there is no {cache}")
    elif subject.state is None:
        yield host_problems.CACHE_DAMAGED(f"{cache} cannot be read")
    else:
        since = time.strftime(
            ", the last change was received at %Y-%m-%d %H:%M UTC", time.gmtime(cache.stat().st_mtime)
        )
    if not is_running(subject.state_path):
        yield host_problems.AGENT_DOWN(f"no agent runs with state_path = {subject.state_path}{since}")


def is_running(state: Path) -> bool:
    """Return whether an agent holds the lock of the state directory."""
    try:
        descriptor = os.open(state / "agent.lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def find_drift(subject: Subject) -> Iterator[Finding]:
    """Find what the agent would change now. While it runs, only differences that last count."""
    if not has_net_admin(subject.machine) or not subject.conf.feed.credential_file:
        return  # stated by the check of privileges
    try:
        drifts, synced = _find(subject)
        if synced and any(drift.plan for drift in drifts) and is_running(subject.state_path):
            time.sleep(SETTLE_SECONDS)
            drifts, synced = _find(subject)
    except (OvsdbError, OperatorError) as error:
        yield host_problems.DRIFT_UNKNOWN(f"the host could not be compared: {one_line(error)}")
        return
    if not synced:
        yield host_problems.DRIFT_UNKNOWN("the server did not give the desired state of this host")
        return
    for drift in drifts:
        lines = drift.plan.splitlines()
        if lines:
            more = f"; … {len(lines) - MAX_LISTED} more" if len(lines) > MAX_LISTED else ""
            shown = "; ".join(line.strip() for line in lines[:MAX_LISTED])
            yield host_problems.DRIFT(f"role {drift.role}: {len(lines)} differences: {shown}{more}")
        for name, reason in sorted(drift.problems.items())[:MAX_LISTED]:
            if drift.role == START:
                yield host_problems.AGENT_HELD(f"{name}: {reason}")
            else:
                yield host_problems.NOT_APPLIED(f"role {drift.role}: {name}: {reason}")


def _find(subject: Subject) -> tuple[list[Drift], bool]:
    from neutrino.agent import main

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return main.find(subject.files, SYNC_SECONDS)
    finally:
        logging.disable(before)


# --- orphans ----------------------------------------------------------------------------------------------------------


def orphans(subject: Subject) -> Iterator[Finding]:
    """Find namespaces and switch ports of objects that this host does not have; the agent's cache lists the objects."""
    state, conf = subject.state, subject.conf
    if state is None:
        return
    served = {
        NAMESPACE_KIND: set(state.objects["dhcp_network"]) | set(state.objects["network"]),
        ROUTER_KIND: set(state.objects["router"]),
        SNAT_KIND: set(state.objects["router"]),
        FIP_KIND: _networks_of(state.objects["router"].values()),
    }
    for name in sorted(os.listdir(NAMESPACES)) if os.path.isdir(NAMESPACES) else ():
        for kind, known in served.items():
            if (key := kind.object_id(name)) and key not in known:
                yield host_problems.ORPHAN_NAMESPACE(f"namespace {name}: this host does not serve {key}", name=name)
    try:
        rows = read_switch(subject)
    except NotReachable:  # the check of Open vSwitch states it
        return
    by_uuid = {row["_uuid"]: row for row in rows["Interface"]}
    ports = {row["_uuid"]: several(row["interfaces"]) for row in rows["Port"]}
    for bridge in rows["Bridge"]:
        if bridge["name"] != conf.ovs.integration_bridge:
            continue
        uuids = (uuid for port in several(bridge["ports"]) for uuid in ports.get(port, ()))
        plugged = (by_uuid[uuid] for uuid in uuids if uuid in by_uuid)
        for row in sorted(plugged, key=lambda row: str(row["name"])):
            port_id = (row.get("external_ids") or {}).get("iface-id")
            if port_id and port_id not in state.objects["port"]:
                text = f"port {row['name']} of {bridge['name']} is for API port {port_id}"
                yield host_problems.ORPHAN_PORT(f"{text}, which is not on this host", name=row["name"])


def _networks_of(routers: Iterable[object]) -> set[str]:
    """Return all networks that the routers have a port on."""

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for name, inner in value.items():
                if name == "network_id" and isinstance(inner, str):
                    yield inner
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    return {network for router in routers for network in walk(msgspec.to_builtins(router))}
