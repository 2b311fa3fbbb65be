"""Internal DNS names on a network that several projects share: a name belongs to the first of them."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.client import Api

DOMAIN = "example.org."


@pytest.fixture
def shared(admin: Api) -> Object:
    network = admin.network(shared=True)
    admin.subnet(network)
    return network


def known_as(port: Object) -> list[str]:
    """The names that the network's dnsmasq answers with the port's addresses."""
    return [name["fqdn"].removesuffix(f".{DOMAIN}") for name in port["dns_assignment"]]


def by_address(port: Object) -> list[str]:
    return ["host-" + fixed["ip_address"].replace(".", "-").replace(":", "-") for fixed in port["fixed_ips"]]


@pytest.mark.every_database
def test_a_name_belongs_to_the_first_project(api: Api, shared: Object) -> None:
    first, second = api.as_stranger(), api.as_stranger()
    port = first.port(shared, dns_name="web")
    assert known_as(port) == ["web"]
    for name in ("web", "WEB", f"web.{DOMAIN}", f"web.deeper.{DOMAIN}"):
        other = second.port(shared, dns_name=name)
        assert (other["dns_name"], known_as(other)) == (name.lower(), by_address(other))
        assert known_as(second.change("port", other["id"], name="x")) == by_address(other)
    renamed = second.port(shared, dns_name="mine")
    assert known_as(renamed) == ["mine"]
    assert known_as(second.change("port", renamed["id"], dns_name="web")) == by_address(renamed)
    assert known_as(first.port(shared, dns_name="web")) == ["web"], "a project may have several"
    assert known_as(second.port(shared, dns_name="web2")) == ["web2"]
    assert known_as(second.port(shared, dns_name="we")) == ["we"]


def test_a_name_that_becomes_free_can_be_set_again(api: Api, shared: Object) -> None:
    first, second = api.as_stranger(), api.as_stranger()
    port, other = first.port(shared, dns_name="web"), second.port(shared, dns_name="web")
    again = {"port": {"dns_name": "web"}}
    assert known_as(second.put(f"/ports/{other['id']}", again).expect(200).body["port"]) == by_address(other)
    first.delete(f"/ports/{port['id']}").expect(204)
    assert known_as(second.put(f"/ports/{other['id']}", again).expect(200).body["port"]) == ["web"]
    assert known_as(first.port(shared, dns_name="web")) != ["web"], "now it is the other's"


def test_other_networks_have_their_own_names(api: Api, admin: Api, shared: Object) -> None:
    api.as_stranger().port(shared, dns_name="web")
    own = api.network()
    api.subnet(own)
    assert known_as(api.port(own, dns_name="web")) == ["web"]
    another = admin.network(shared=True)
    admin.subnet(another)
    assert known_as(api.as_stranger().port(another, dns_name="web")) == ["web"]


def test_the_name_of_an_address_is_no_other_ports(api: Api, shared: Object) -> None:
    first, second = api.as_stranger(), api.as_stranger()
    unnamed = first.port(shared)
    (name,) = by_address(unnamed)
    thief = second.port(shared, dns_name=name)
    assert known_as(thief) == by_address(thief)
    assert known_as(second.port(shared, dns_name="host-2001-db8--5")) != ["host-2001-db8--5"]
    for harmless in ("host-1", "host-db", "host"):
        assert known_as(second.port(shared, dns_name=harmless)) == [harmless]
    assert known_as(second.change("port", thief["id"], dns_name=by_address(thief)[0])) == by_address(thief)


def test_an_address_that_a_subnet_adds_does_not_join_the_name(api: Api, admin: Api, shared: Object) -> None:
    first, second = api.as_stranger(), api.as_stranger()
    port, other = first.port(shared, dns_name="web"), second.port(shared, dns_name="web")
    modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    admin.subnet(shared, "2001:db8::/64", **modes)
    assert known_as(first.show("port", port["id"])) == ["web", "web"]
    changed = second.show("port", other["id"])
    assert known_as(changed) == by_address(changed)
    assert len(known_as(changed)) == 2


def test_names_of_before_the_rule_stay_as_they_are(server: Server, api: Api, shared: Object) -> None:
    """Hosts decide then: which project was the first is not known."""
    first, second = api.as_stranger(), api.as_stranger()
    port, other = first.port(shared, dns_name="web"), second.port(shared, dns_name="db")
    with server.db.transaction() as tx:
        row = sa.select(t.ports.c.dns_assignment).where(t.ports.c.id == port["id"]).scalar_subquery()
        tx.execute(sa.update(t.ports).where(t.ports.c.id == other["id"]).values(dns_name="web", dns_assignment=row))
    assert known_as(first.change("port", port["id"], name="x")) == ["web"]
