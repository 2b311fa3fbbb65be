"""Concurrent writers: nothing is allocated twice, no quota is exceeded, nothing is lost, no lock fails a request."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.client import Api, Response
from tests.api.conftest import configuration_text
from tests.faults import integrity
from tests.faults.live import Client, LiveServer
from tests.support.databases import prepared_database

WRITERS = 8
ROOT = Path(__file__).parents[2]


def at_once(action: Callable[[int], Response], number: int = WRITERS) -> list[Response]:
    """The responses to `number` requests by eight writers; none may have a status of 500 or above."""
    with ThreadPoolExecutor(WRITERS) as pool:
        answers = list(pool.map(action, range(number)))
    assert [a.body for a in answers if a.status >= 500] == []
    return answers


def statuses(answers: list[Response]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


def test_no_address_and_no_mac_is_allocated_twice(api: Api, server: Server) -> None:
    network = api.network()
    api.subnet(network, "10.0.0.0/25")
    api.subnet(network, "fd00::/64")
    answers = at_once(lambda _: api.post("/ports", {"port": {"network_id": network["id"]}}), 140)
    made = [a.body["port"] for a in answers if a.status == 201]
    assert statuses(answers) == {201: 125, 409: 15}  # 126 hosts, one of them the gateway
    taken = [f["ip_address"] for port in made for f in port["fixed_ips"]]
    assert len(taken) == len(set(taken)) == 250
    assert len({port["mac_address"] for port in made}) == 125
    integrity.check(server.db)


def test_one_address_is_allocated_once(api: Api, server: Server) -> None:
    network = api.network()
    api.subnet(network)
    body = {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": "10.0.0.77"}]}}
    assert statuses(at_once(lambda _: api.post("/ports", body))) == {201: 1, 409: 7}
    body = {"port": {"network_id": network["id"], "mac_address": "fa:16:3e:00:00:77"}}
    assert statuses(at_once(lambda _: api.post("/ports", body))) == {201: 1, 409: 7}
    integrity.check(server.db)


def test_no_quota_is_exceeded(api: Api, server: Server) -> None:
    limits = {"port": 20, "network": 10, "security_group": 5}
    api.as_admin().put(f"/quotas/{api.project}", {"quota": limits}).expect(200)
    network = api.network()
    ports = at_once(lambda _: api.post("/ports", {"port": {"network_id": network["id"]}}), 40)
    assert statuses(ports) == {201: 20, 409: 20}
    networks = at_once(lambda _: api.post("/networks", {"network": {}}), 24)
    assert statuses(networks) == {201: 9, 409: 15}
    groups = at_once(lambda _: api.post("/security-groups", {"security_group": {"name": "g"}}), 16)
    assert statuses(groups) == {201: 4, 409: 12}  # the default group counts
    integrity.check(server.db)


def test_bulk_writers(api: Api, server: Server) -> None:
    api.as_admin().put(f"/quotas/{api.project}", {"quota": {"port": 100}}).expect(200)
    network = api.network()
    api.subnet(network, "10.0.0.0/16")
    answers = at_once(lambda _: api.post("/ports", {"ports": [{"network_id": network["id"]}] * 10}), 16)
    assert statuses(answers) == {201: 10, 409: 6}
    integrity.check(server.db)


def test_subnets_from_one_pool(api: Api, server: Server) -> None:
    pool = api.make("subnetpool", name="p", prefixes=["10.0.0.0/22"], default_prefixlen=26)
    networks = [api.network() for _ in range(WRITERS)]

    def create(i: int) -> Response:
        body = {"network_id": networks[i % WRITERS]["id"], "ip_version": 4, "subnetpool_id": pool["id"]}
        return api.post("/subnets", {"subnet": body})

    answers = at_once(create, 24)
    assert statuses(answers) == {201: 16, 409: 8}
    assert len({a.body["subnet"]["cidr"] for a in answers if a.status == 201}) == 16
    integrity.check(server.db)


def test_subnets_on_one_network(api: Api, server: Server) -> None:
    network = api.network()

    def create(i: int) -> Response:
        body = {"network_id": network["id"], "ip_version": 4, "cidr": f"10.0.{i // 2}.{i % 2 * 64}/{24 + i % 2 * 2}"}
        return api.post("/subnets", {"subnet": body})

    answers = at_once(create, 16)  # each of eight /24 and a /26 within it: one of the two
    assert statuses(answers) == {201: 8, 400: 8}
    made = [ipaddress.ip_network(a.body["subnet"]["cidr"]) for a in answers if a.status == 201]
    assert not any(a.overlaps(b) for i, a in enumerate(made) for b in made[:i])
    assert len(api.show("network", network["id"])["subnets"]) == 8
    integrity.check(server.db)


def test_every_vlan_of_a_range_is_allocated_once(api: Api, server: Server) -> None:
    admin = api.as_admin()
    body = {"network": {"provider:network_type": "vlan", "provider:physical_network": "physnet2"}}
    answers = at_once(lambda _: admin.post("/networks", body), 16)
    made = [a.body["network"] for a in answers if a.status == 201]
    assert sorted(n["provider:segmentation_id"] for n in made) == list(range(1, 11))
    assert {a.error for a in answers if a.status != 201} == {"NoNetworkAvailable"}
    integrity.check(server.db)
    for network in made:
        admin.delete(f"/networks/{network['id']}").expect(204)


@pytest.mark.parametrize("round_", range(3))
def test_ports_on_a_network_that_is_deleted(api: Api, server: Server, round_: int) -> None:
    network = api.network()
    api.subnet(network)

    def act(i: int) -> Response:
        if i % 4 == 3:
            return api.delete(f"/networks/{network['id']}")
        return api.post("/ports", {"port": {"network_id": network["id"]}})

    answers = at_once(act, 16)
    assert set(statuses(answers)) <= {201, 204, 404, 409}
    integrity.check(server.db)
    for port in api.all("/ports"):
        assert port["network_id"] == network["id"]
        api.get(f"/networks/{network['id']}").expect(200)


def test_subnets_on_a_network_that_is_deleted(api: Api, server: Server) -> None:
    network = api.network()

    def act(i: int) -> Response:
        if i == 4:
            return api.delete(f"/networks/{network['id']}")
        body = {"network_id": network["id"], "ip_version": 4, "cidr": f"10.0.{i}.0/24"}
        return api.post("/subnets", {"subnet": body})

    assert set(statuses(at_once(act))) <= {201, 204, 403, 404}
    api.get(f"/networks/{network['id']}").expect(404)
    assert api.all("/subnets") == []
    integrity.check(server.db)


def test_concurrent_updates_of_one_port_are_all_kept(api: Api, server: Server) -> None:
    admin = api.as_admin()
    network = api.network()
    subnet = api.subnet(network)
    port = api.port(network)
    group = api.make("security_group", name="g")
    changes: list[dict[str, Any]] = [
        {"name": "new"},
        {"description": "new"},
        {"device_id": "vm"},
        {"admin_state_up": False},
        {"security_groups": [group["id"]]},
        {"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}]},
        {"fixed_ips": [{"subnet_id": subnet["id"], "ip_address": "10.0.0.200"}]},
        {"dns_name": "web"},
    ]
    answers = at_once(lambda i: admin.put(f"/ports/{port['id']}", {"port": changes[i]}))
    assert statuses(answers) == {200: 8}
    after = admin.show("port", port["id"])
    assert (after["name"], after["description"], after["device_id"]) == ("new", "new", "vm")
    assert after["admin_state_up"] is False
    assert after["security_groups"] == [group["id"]]
    assert after["extra_dhcp_opts"][0]["opt_value"] == "1400"
    assert [f["ip_address"] for f in after["fixed_ips"]] == ["10.0.0.200"]
    assert after["dns_assignment"][0]["hostname"] == "web"
    assert after["revision_number"] == port["revision_number"] + 8
    integrity.check(server.db)


def test_if_match_lets_one_through(api: Api) -> None:
    network = api.network()
    headers = {"If-Match": f"revision_number={network['revision_number']}"}
    path = f"/networks/{network['id']}"
    answers = at_once(lambda i: api.put(path, {"network": {"name": f"n{i}"}}, headers=headers))
    assert statuses(answers) == {200: 1, 412: 7}


def test_a_slaac_subnet_is_created_while_ports_are(api: Api, server: Server) -> None:
    network = api.network()
    api.subnet(network)

    def act(i: int) -> Response:
        if i == 6:
            body = {"network_id": network["id"], "ip_version": 6, "cidr": "fd00::/64"}
            modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
            return api.post("/subnets", {"subnet": {**body, **modes}})
        return api.post("/ports", {"port": {"network_id": network["id"]}})

    assert statuses(at_once(act, 24)) == {201: 24}
    integrity.check(server.db)


def test_processes_against_a_live_server(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> None:
    """Four processes with two threads each, and a server of two workers."""
    url = prepared_database(request, database, tmp_path)
    project = uuid.uuid4().hex
    with LiveServer(configuration_text(url)) as live:
        client = Client(live.port, project)
        assert client.call("PUT", f"/v2.0/quotas/{project}", {"quota": {"port": 60}}).status == 200
        network = client.make("network")
        client.make("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
        command = [sys.executable, "-m", "tests.faults.writers", str(live.port), project, network["id"], "20", "2"]
        writers = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(4)]
        answers = [answer for writer in writers for answer in json.loads(writer.communicate(timeout=60)[0])]
    assert Counter(status for status, _, _ in answers) == {201: 60, 409: 20}
    taken = [address for _, addresses, _ in answers for address in addresses]
    assert len(taken) == len(set(taken)) == 60
    assert len({mac for _, _, mac in answers if mac}) == 60
