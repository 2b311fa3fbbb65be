"""A transaction that the database aborts because of a concurrent writer is retried, everywhere."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa

from neutrino.model.agents import DHCP
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from neutrino.server.quota.plugin import recount
from tests.api.agents import report, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, gateway, inside, l3_agent, outside
from tests.faults import integrity
from tests.support.databases import prepared_sqlite

# What PyMySQL raises, with the SQLSTATE that MariaDB sends along.
DEADLOCK = pymysql.err.OperationalError(1213, "Deadlock found when trying to get lock", sqlstate="40001")
TIMEOUT = pymysql.err.OperationalError(1205, "Lock wait timeout exceeded", sqlstate="HY000")
CHANGED = pymysql.err.OperationalError(1020, "Record has changed since last read in table 'ports'", sqlstate="HY000")


class AbortFirstAttempts:
    """Aborts the first attempt of every transaction at its commit."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self._threads = threading.local()
        self.taken_back = 0

    def flush(self, real: Any) -> Any:
        def flush(tx: Transaction) -> Any:
            self._threads.again = again = not getattr(self._threads, "again", False)
            if again:
                self.taken_back += 1
                raise sa.exc.OperationalError("COMMIT", {}, self._error)
            return real(tx)

        return flush


@pytest.fixture(params=[DEADLOCK, TIMEOUT, CHANGED], ids=["deadlock", "lock wait timeout", "record has changed"])
def races(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AbortFirstAttempts:
    made = AbortFirstAttempts(request.param)
    monkeypatch.setattr(Transaction, "flush", made.flush(Transaction.flush))
    return made


@pytest.fixture
def server(tmp_path: Path, races: AbortFirstAttempts) -> Any:
    made = start(
        tmp_path, prepared_sqlite(tmp_path / "one.sqlite"), {"DEFAULT": {"l3_ha_net_cidr": "169.254.192.0/18"}}
    )
    yield made
    made.close()


def test_requests_of_clients_are_retried(server: Server, races: AbortFirstAttempts) -> None:
    api = Api(server.app)
    admin = api.as_admin()
    external = outside(admin, is_default=True)
    for host in ("h1", "h2"):
        switch(server, host)
        report(server, DHCP, host, dhcp_port_by_server=True)
        l3_agent(server, host, agent_mode="dvr_snat")
    network, subnet = inside(api)
    port = admin.port(network, binding__host_id="h1")
    api.put(f"/ports/{port['id']}/tags", {"tags": ["red"]}).expect(200)
    admin.put(f"/quotas/{api.project}", {"quota": {"network": 50}}).expect(200)
    admin.delete(f"/quotas/{api.project}").expect(204)
    admin.make(
        "rbac_policy", object_type="network", object_id=network["id"], action="access_as_shared", target_tenant="*"
    )
    group = api.make("security_group", name="web")
    api.make("security_group_rule", security_group_id=group["id"], direction="ingress")
    addresses = api.make("address_group", addresses=["192.0.2.0/24"])
    api.put(f"/address-groups/{addresses['id']}/add_addresses", {"addresses": ["198.51.100.0/24"]}).expect(200)
    scope = admin.make("address_scope", name="blue", ip_version=4, shared=True)
    pool = {"prefixes": ["10.64.0.0/10"], "default_prefixlen": 24, "address_scope_id": scope["id"]}
    admin.make("subnetpool", name="p", is_default=True, shared=True, **pool)
    kinds: list[dict[str, Any]] = [{}, {"ha": True}, {"distributed": True}]
    for kind in kinds:
        router = admin.make("router", **kind, external_gateway_info=gateway(external))
        own, _ = inside(admin, "10.9.0.0/24")
        attach(admin, router, subnet_id=admin.all("/subnets", {"network_id": own["id"]})[0]["id"]).expect(200)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    helper = {"conntrack_helper": {"protocol": "udp", "port": 69, "helper": "tftp"}}
    admin.post(f"/routers/{router['id']}/conntrack_helpers", helper).expect(201)
    floating = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    api.change("floatingip", floating["id"], port_id=None)
    forwarding = {
        "protocol": "tcp",
        "internal_port_id": port["id"],
        "internal_ip_address": port["fixed_ips"][0]["ip_address"],
        "internal_port": 80,
        "external_port": 8080,
    }
    nested = f"/floatingips/{floating['id']}/port_forwardings"
    made = api.post(nested, {"port_forwarding": forwarding}).expect(201).body["port_forwarding"]
    api.delete(f"{nested}/{made['id']}").expect(204)
    profile = admin.make("service_profile", driver="", metainfo="{}", description="any")
    flavor = admin.make("flavor", name="f", service_type="L3_ROUTER_NAT")
    admin.post(f"/flavors/{flavor['id']}/service_profiles", {"service_profile": {"id": profile["id"]}}).expect(201)
    other = admin.as_stranger().as_admin()
    other.get(f"/auto-allocated-topology/{other.project}").expect(200)
    other.delete(f"/auto-allocated-topology/{other.project}").expect(204)
    api.delete(f"/floatingips/{floating['id']}").expect(204)
    assert races.taken_back > 50
    integrity.check(server.db)


def test_writes_of_hosts_and_operators_are_retried(server: Server, races: AbortFirstAttempts) -> None:
    switch(server, "h1")
    credentials = Credentials(server.db)
    credentials.add("h1")
    credentials.rotate("h1")
    credentials.remove("h1")
    ChangeLog(server.db).sequence()
    ChangeLog(server.db).compact(0, now=2e9)
    recount(server.db)
    assert races.taken_back >= 6


def test_other_database_errors_are_not_retried(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/one.sqlite")
    tries = []

    def attempt() -> None:
        tries.append(1)
        raise sa.exc.OperationalError(
            "SELECT", {}, pymysql.err.OperationalError(1054, "Unknown column", sqlstate="42S22")
        )

    with pytest.raises(sa.exc.OperationalError):
        db.retrying(attempt)
    assert len(tries) == 1
