"""Rules of other programs in the namespaces that an agent serves: traces, status, doctor and verify know them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.lab.errors import wait_until
from tests.lab.test_doctor import doctor, kinds, problems, verify
from tests.support.lab import network, open_group, pings
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind

LAB = LabKind(hosts=1, roles=("l2", "dhcp"), agent="[agent]\nrepair_interval = 2\ncheck_interval = 0.5\n")


@pytest.fixture
def site(lab: Lab) -> Iterator[Lab]:
    made = network(lab, "blue", enable_dhcp=True)
    lab.vm("a", network=made["id"], host="h1", security_groups=[open_group(lab)])
    with cleaned(lab):
        yield lab


@pytest.mark.parametrize("program", ["iptables-legacy", "iptables-nft", "nft"])
def test_rules_of_another_program_in_a_dhcp_namespace(site: Lab, program: str) -> None:
    """The trace, real packets, status, doctor and verify agree; the agent leaves the rules alone."""
    made = site.api.find("network", "blue")
    (own,) = site.api.list("port", network_id=made["id"], device_owner="network:dhcp")
    address, place = own["fixed_ips"][0]["ip_address"], ["ip", "netns", "exec", f"qdhcp-{made['id']}"]
    wait_until(lambda: pings(site, "a", address, seconds=1), 30, "the DHCP port does not answer")
    add, name = [program, "-A", "INPUT", "-p", "icmp", "-j", "DROP"], f"{program} filter"
    if program == "nft":
        chain = "add chain inet x in { type filter hook input priority 0; }"
        add, name = ["nft", f"add table inet x; {chain}; add rule inet x in icmp type 8 drop"], "inet x"
    name = {"iptables-nft filter": "ip filter"}.get(name, name)

    def traced() -> tuple[str, str]:
        asked = {"source_port_id": site.vms.get("a").port_id, "destination_port_id": own["id"], "protocol": "icmp"}
        found = site.api.request("POST", "/v2.0/traces", {"trace": asked})["trace"]
        return found["verdict"], found["cause"]

    assert traced() == ("delivered", "")
    site.run("h1", [*place, *add])
    assert not pings(site, "a", address, seconds=1)
    assert traced() == ("dropped", "drift")
    what = f"foreign tables in qdhcp-{made['id']}: tables that are not this agent's, and drop packets: {name}"
    wait_until(lambda: what in str(problems(site)), 30, f"the status does not know it: {problems(site)}")
    assert verify(site, "h1").status == 1
    assert what in verify(site, "h1").out
    assert "drift" in kinds(doctor(site, "h1", "--only", "drift")[1])
    for words in ("iptables-legacy -F", "iptables-nft -F", "nft delete table inet x"):
        site.run("h1", [*place, *words.split()], check=False)
    assert pings(site, "a", address)
    assert traced() == ("delivered", "")
    wait_until(lambda: "foreign-rules" not in problems(site), 30, "it is a problem still")
