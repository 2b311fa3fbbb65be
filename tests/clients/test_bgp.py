"""BGP speakers through the `openstack` command."""

from __future__ import annotations

from neutrino.model.agents import BGP, AgentState
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry
from tests.clients.conftest import Cloud
from tests.clients.shell import Shell


def test_speakers_and_peers(shell: Shell) -> None:
    made = shell.json("bgp speaker create --ip-version 4 --local-as 4200000000 --no-advertise-tenant-networks edge")
    assert (made["name"], made["local_as"], made["ip_version"]) == ("edge", 4200000000, 4)
    assert (made["advertise_tenant_networks"], made["advertise_floating_ip_host_routes"]) == (False, True)
    peer = shell.json("bgp peer create --peer-ip 192.0.2.1 --remote-as 65000 --auth-type md5 --password s3cret tor")
    assert (peer["peer_ip"], peer["remote_as"], peer["auth_type"]) == ("192.0.2.1", 65000, "md5")
    assert [row["Name"] for row in shell.json("bgp peer list")] == ["tor"]
    shell("bgp peer set --name rack --password other tor")
    shown = shell.json("bgp peer show rack")
    assert shown["id"] == peer["id"]
    assert "password" not in shown

    network = shell.json("network create public --external")
    shell("bgp speaker add peer edge rack")
    shell("bgp speaker add network edge public")
    assert "peer" in shell.refused("bgp speaker add peer edge rack")
    shown = shell.json("bgp speaker show edge")
    assert (shown["peers"], shown["networks"]) == ([peer["id"]], [network["id"]])
    assert shell.json("bgp speaker list advertised routes edge") == []
    shell("bgp speaker set --name core --advertise-tenant-networks edge")
    assert shell.json("bgp speaker show core")["advertise_tenant_networks"] is True
    assert [(row["Name"], row["Local AS"]) for row in shell.json("bgp speaker list")] == [("core", 4200000000)]
    shell("bgp speaker remove peer core rack")
    shell("bgp speaker remove network core public")
    shell("bgp speaker delete core")
    shell("bgp peer delete rack")
    assert shell.json("bgp speaker list") == shell.json("bgp peer list") == []


def test_agents_of_a_speaker(shell: Shell, cloud: Cloud) -> None:
    speaker = shell.json("bgp speaker create --ip-version 4 --local-as 64512 placed")
    database = Database(cloud.server.database)
    state = AgentState(BGP, "neutron-bgp-dragent", "network1", "bgp_dragent", start_flag=True)
    try:
        Registry(database).report(state)
    finally:
        database.close()
    (agent,) = shell.json("network agent list --host network1")
    assert agent["Agent Type"] == BGP
    shell(f"bgp dragent add speaker {agent['ID']} placed")
    assert [row["ID"] for row in shell.json("bgp dragent list --bgp-speaker placed")] == [agent["ID"]]
    assert [row["ID"] for row in shell.json(f"bgp speaker list --agent {agent['ID']}")] == [speaker["id"]]
    shell(f"bgp dragent remove speaker {agent['ID']} placed")
    assert shell.json("bgp dragent list --bgp-speaker placed") == []
    shell("bgp speaker delete placed")
