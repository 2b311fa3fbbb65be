"""Every host serves DHCP, routing and metadata for its own ports, from before they are plugged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neutrino.model.objects import Object
from neutrino.model.roles import USUAL
from tests.support.lab import address, open_group, wait_until
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_dhcp import addresses, elsewhere, home, pid, served, servers, wait_for_renewal
from tests.support.lab_kinds import LabKind
from tests.support.lab_metadata import metadata_route, wait_for_metadata
from tests.support.routing_lab import drift_on, make_router, reaches, tenant_network
from tests.support.shared_labs import wait_for_agents

LAB = LabKind(
    hosts=2,
    roles=USUAL,
    server="[DEFAULT]\nagent_down_time = 16\n",
    agent="""[DEFAULT]
dhcp_distributed = true
dhcp_renewal_time = 3
agent_mode = dvr
[agent]
report_interval = 1
""",
)


@pytest.fixture(autouse=True)
def clean_lab(lab: Lab) -> Iterator[None]:
    wait_for_agents(lab)
    with cleaned(lab):
        open_group(lab)
        yield


def test_a_host_that_is_alone_serves_its_ports(lab: Lab) -> None:
    """Those that it has and those that come, and it takes over the network without its clients noticing."""
    blue = served(lab, "blue")
    there, (away,) = home(lab, blue), elsewhere(lab, blue)
    (before,) = servers(lab, blue)
    lab.vm("a", network="blue", host=away, security_groups=["open"])
    lab.stop_agent(there, kill=True)
    lab.stop_ovs(there, kill=True)
    fresh = lab.define_vm("b", network="blue", host=away, security_groups=["open"])
    lab.plug("b", away)
    lab.wait_for_port(fresh, timeout=12)  # the lost host is thought to live for longer than that
    lab.address("b")
    wait_for_renewal(lab, "a")
    for vm in ("a", "b"):
        assert addresses(lab, vm) == {f"{address(lab, vm)}/24"}
        assert metadata_route(lab, vm) == before["fixed_ips"][0]["ip_address"]
        wait_for_metadata(lab, vm)
    process = pid(lab, away, blue)
    wait_until(lambda: home(lab, blue) == away, 60, "the network is still with the host that is lost")
    (after,) = servers(lab, blue)
    assert (after["id"], after["fixed_ips"]) == (before["id"], before["fixed_ips"])
    wait_for_renewal(lab, "a")
    assert pid(lab, away, blue) == process, "the copy is now the port itself, and nothing else is another"


def test_the_router_is_there_before_the_tap_and_stays(lab: Lab) -> None:
    blue = tenant_network(lab, "blue", 1, six=False)
    wait_until(lambda: home(lab, blue["id"]) != "", 60, "blue is scheduled to no host")
    router = make_router(lab, None, blue, distributed=True)
    (away,) = elsewhere(lab, blue["id"])
    vm = lab.define_vm("a", network="blue", host=away, security_groups=["open"])  # bound, and no more
    wait_until(lambda: "10.0.1.1/24" in in_namespace(lab, away, router), 60, "the router has not come with the binding")
    wait_until(lambda: pid(lab, away, blue["id"]) != 0, 60, "DHCP has not come with the binding")
    assert vm.tap not in lab.run(away, ["ovs-vsctl", "list-ports", "br-int"]).stdout
    wait_until(lambda: not drift_on(lab, away), 60, f"{away} is not done")
    before, process = in_namespace(lab, away, router), pid(lab, away, blue["id"])
    # Server and agent are restarted: everything is sent anew.
    lab.stop_server(kill=True)
    lab.start_server()
    lab.stop_agent(away, kill=True)
    lab.start_agent(away)
    wait_until(lambda: not drift_on(lab, away), 60, f"{away} is not as it should be")
    assert in_namespace(lab, away, router) == before
    assert pid(lab, away, blue["id"]) == process
    lab.plug("a", away)
    lab.wait_for_port(vm)
    lab.address("a")
    assert addresses(lab, "a") == {f"{address(lab, 'a')}/24"}
    assert reaches(lab, "a", "10.0.1.1")
    lab.delete_vm("a")
    wait_until(lambda: in_namespace(lab, away, router) == "", 60, "the router does not go with the last port")
    wait_until(lambda: pid(lab, away, blue["id"]) == 0, 60, "DHCP does not go with the last port")


def in_namespace(lab: Lab, host: str, router: Object) -> str:
    """Which namespace the router has on a host, its devices by number, and their addresses; empty if there is none."""
    name = f"qrouter-{router['id']}"
    which = lab.run(host, ["stat", "-Lc", "%i", f"/run/netns/{name}"], check=False).stdout
    return which + lab.run(host, ["ip", "-n", name, "-4", "-o", "address"], check=False).stdout
