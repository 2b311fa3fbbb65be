"""Concurrent writers of trunks: subports are always where their parent is, and a port has one place in one trunk."""

from __future__ import annotations

import random

from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api, Response
from tests.faults import integrity
from tests.faults.test_at_once import at_once, statuses

HOSTS = ("h1", "h2", "h3")


def test_one_of_several_trunks_gets_a_port(api: Api, server: Server) -> None:
    one, *parents = (api.port(api.network())["id"] for _ in range(5))
    subport = {"port_id": one, "segmentation_type": "vlan", "segmentation_id": 10}

    def make(number: int) -> Response:
        if number % 2:
            return api.post("/trunks", {"trunk": {"port_id": one}})
        return api.post("/trunks", {"trunk": {"port_id": parents[number // 2], "sub_ports": [subport]}})

    assert statuses(at_once(make)) == {201: 1, 409: 7}
    integrity.check(server.db)


def test_a_vlan_of_a_trunk_is_given_once(api: Api, server: Server) -> None:
    trunk = api.make("trunk", port_id=api.port(api.network())["id"])["id"]
    ports = [api.port(api.network())["id"] for _ in range(8)]

    def add(number: int) -> Response:
        subport = {"port_id": ports[number], "segmentation_type": "vlan", "segmentation_id": 10 + number // 2}
        return api.put(f"/trunks/{trunk}/add_subports", {"sub_ports": [subport]})

    assert statuses(at_once(add)) == {200: 4, 409: 4}
    integrity.check(server.db)


def test_subports_follow_a_parent_that_moves(api: Api, server: Server) -> None:
    for host in HOSTS:
        switch(server, host)
    admin = api.as_admin()
    parent, *ports = (api.port(api.network())["id"] for _ in range(6))
    trunk = api.make("trunk", port_id=parent)["id"]

    def act(number: int) -> Response:
        chance = random.Random(number)
        if number % 3 == 0:
            host = chance.choice([*HOSTS, ""])
            return admin.put(f"/ports/{parent}", {"port": {"binding:host_id": host}})
        index = chance.randrange(len(ports))
        if chance.random() < 0.6:
            subport = {"port_id": ports[index], "segmentation_type": "vlan", "segmentation_id": 10 + index}
            return api.put(f"/trunks/{trunk}/add_subports", {"sub_ports": [subport]})
        return api.put(f"/trunks/{trunk}/remove_subports", {"sub_ports": [{"port_id": ports[index]}]})

    # 404 and 409: a port that is no subport, or is one already. 503: the request was not executed.
    assert set(statuses(at_once(act, 60))) <= {200, 404, 409, 503}
    integrity.check(server.db)
