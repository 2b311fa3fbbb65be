"""What is left on hosts: of Neutron, of a lost state directory, of a network that is deleted with all that is on it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from neutrino.dataplane.openflow.api import LEARNED_COOKIE
from neutrino.lab.errors import wait_until
from tests.support.lab import Pinging, log_sizes
from tests.support.lab_control import Lab
from tests.support.lab_dhcp import pid
from tests.support.lab_guests import EVERYTHING, Spec, make_group, make_guests
from tests.support.lab_kinds import LabKind
from tests.support.routing_lab import (
    SOON,
    drift_on,
    in_router,
    make_router,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
    wait_until_unreachable,
)

ROUTER = "7e1ab6d2-0000-4000-8000-000000000001"
GUEST = "7e1ab6d2-0000-4000-8000-000000000002"
NETWORK = "2c5f09aa-0000-4000-8000-000000000003"
NEUTRON = f"""set -e
plug() {{  # namespace, device, port
    ovs-vsctl add-port br-int $2 -- set interface $2 type=internal external_ids:iface-id=$3
    ip link set $2 netns $1
}}
for name in qrouter-{ROUTER} snat-{ROUTER} fip-{NETWORK} qdhcp-{NETWORK} qrouter-{GUEST} qrouter-mine; do
    ip netns add $name
done
plug qrouter-{ROUTER} qr-0123abcd-ef 0123abcd-ef01-4000-8000-000000000004
plug snat-{ROUTER} qg-1123abcd-ef 1123abcd-ef01-4000-8000-000000000004
plug fip-{NETWORK} fg-2123abcd-ef 2123abcd-ef01-4000-8000-000000000004
ip link add tap3123abcd-ef type veth peer name ns-3123abcd-ef netns qdhcp-{NETWORK}
ovs-vsctl add-port br-int tap3123abcd-ef -- set interface tap3123abcd-ef \\
    external_ids:iface-id=3123abcd-ef01-4000-8000-000000000004
plug qrouter-{GUEST} qr-4123abcd-ef 4123abcd-ef01-4000-8000-000000000004
ip link add wg0 netns qrouter-{GUEST} type veth peer name wg1 netns qrouter-{GUEST}
# A reboot deletes namespaces, while OVSDB keeps the ports: their devices are in the host's namespace then.
ovs-vsctl add-port br-int qg-5123abcd-ef -- set interface qg-5123abcd-ef type=internal \\
    external_ids:iface-id=5123abcd-ef01-4000-8000-000000000004
for name in qdhcp-{NETWORK} qrouter-{ROUTER}; do
    ip -n $name link set lo up
    ip netns exec $name setsid dnsmasq --keep-in-foreground --no-hosts --no-resolv --conf-file=/dev/null --pid-file= \\
        --txt-record=$name --user=root --listen-address=127.0.0.1 --bind-interfaces </dev/null >/dev/null 2>&1 &
done
ip netns exec qrouter-{ROUTER} setsid sleep 600 </dev/null >/dev/null 2>&1 &
wait_for() {{ for i in $(seq 200); do eval "$1" && return; sleep 0.05; done; exit 1; }}
wait_for 'ip netns pids qdhcp-{NETWORK} | grep -q .'
wait_for 'test $(ip netns pids qrouter-{ROUTER} | wc -l) = 2'
"""
RULES = """*nat
:PREROUTING ACCEPT [0:0]
:neutron-l3-agent-PREROUTING - [0:0]
-A PREROUTING -j neutron-l3-agent-PREROUTING
-A PREROUTING -p tcp --dport 9 -j ACCEPT
-A neutron-l3-agent-PREROUTING -d 203.0.113.9/32 -j DNAT --to-destination 10.0.0.9
COMMIT
"""
OF_NEUTRON = "cookie=0x9c3f,table=94,priority=1,arp,actions=NORMAL"
GONE = {f"qrouter-{ROUTER}", f"snat-{ROUTER}", f"fip-{NETWORK}", f"qdhcp-{NETWORK}"}
KEPT = {f"qrouter-{GUEST}", "qrouter-mine"}
GONE_PORTS = {"qr-0123abcd-ef", "qg-1123abcd-ef", "fg-2123abcd-ef", "tap3123abcd-ef", "qg-5123abcd-ef"}


LAB = LabKind(hosts=1, roles=("l2", "dhcp", "l3"))


def namespaces(lab: Lab) -> set[str]:
    return {line.split()[0] for line in lab.run("h1", ["ip", "netns"]).stdout.splitlines()}


def ports(lab: Lab) -> set[str]:
    return set(lab.run("h1", ["ovs-vsctl", "list-ports", "br-int"]).stdout.split())


def processes(lab: Lab, namespace: str) -> dict[str, str]:
    pids = lab.run("h1", ["ip", "netns", "pids", namespace]).stdout.split()
    return {pid: lab.run("h1", ["cat", f"/proc/{pid}/comm"]).stdout.strip() for pid in pids}


def identity(lab: Lab, namespace: str) -> str:
    return lab.run("h1", ["stat", "-L", "-c", "%i", f"/run/netns/{namespace}"]).stdout


def has_logged(lab: Lab, since: int, text: str) -> bool:
    return text in lab.log_tail("h1-agent", after=since)


def flows(lab: Lab) -> set[str]:
    """The flows of a host, without those that the switch learns."""
    lines = lab.run("h1", ["ovs-ofctl", "dump-flows", "--no-stats", "br-int"]).stdout.splitlines()
    return {line.strip() for line in lines if "priority" in line and f"cookie={LEARNED_COOKIE >> 32:#x}" not in line}


def test_nothing_is_left_of_a_network_that_is_deleted_with_all_that_is_on_it(lab: Lab) -> None:
    group, _ = make_group(lab, "open cascade", *EVERYTHING)
    before = (flows(lab), ports(lab), namespaces(lab))
    full, kept = tenant_network(lab, "full", 5), tenant_network(lab, "kept", 6)
    router = make_router(lab, None, full)
    make_guests(lab, Spec("plain", full, "h1", [group]))
    parent, subport = (lab.api.create("port", network_id=one["id"], security_groups=[group]) for one in (full, kept))
    carried = {"port_id": subport["id"], "segmentation_type": "vlan", "segmentation_id": 10}
    trunk = lab.api.create("trunk", port_id=parent["id"], sub_ports=[carried])
    lab.vm("trunked", port=parent["id"], host="h1", dhcp=False)
    wait_until_reachable(lab, "plain", "10.0.5.1")
    wait_until(lambda: bool(pid(lab, "h1", full["id"])), SOON, "DHCP is not served")
    wait_until(lambda: bool(lab.api.show("trunk", trunk["id"])["status"] == "ACTIVE"), SOON, "the trunk is not wired")
    dnsmasq = pid(lab, "h1", full["id"])

    lab.api.request("DELETE", f"/v2.0/networks/{full['id']}?cascade=true")

    wait_until_unreachable(lab, "plain", "10.0.5.1")
    assert lab.api.list("trunk") == []
    assert lab.api.show("port", subport["id"])["binding:host_id"] == ""
    for name in ("plain", "trunked"):
        lab.delete_vm(name)
    lab.api.delete("router", router["id"])
    lab.api.request("DELETE", f"/v2.0/networks/{kept['id']}?cascade=true")
    wait_until(lambda: not Path(f"/proc/{dnsmasq}").exists(), SOON, "its DHCP server runs on")
    wait_until(lambda: ports(lab) == before[1], SOON, "ports of the switch are left")
    wait_until(lambda: flows(lab) == before[0], SOON, "flows are left")
    wait_until(lambda: namespaces(lab) == before[2], SOON, "namespaces are left")
    wait_until_no_drift(lab, "h1")
    lab.api.delete("security_group", group)


def test_leftovers_are_removed_and_what_is_served_is_taken_over(lab: Lab) -> None:
    blue, red = tenant_network(lab, "blue", 1), tenant_network(lab, "red", 2)
    router = make_router(lab, None, blue, red)
    group, _ = make_group(lab, "open", *EVERYTHING)
    make_guests(lab, Spec("a", blue, "h1", [group]), Spec("b", red, "h1", [group]))
    served = [f"qrouter-{router['id']}", f"qdhcp-{blue['id']}", f"qdhcp-{red['id']}"]
    target = lab.api.list("port", name="b")[0]["fixed_ips"][0]["ip_address"]
    wait_until_reachable(lab, "a", target)
    wait_until(lambda: set(served) <= namespaces(lab), SOON, "DHCP is not served")
    before = {name: identity(lab, name) for name in served}

    with Pinging(lab, "a", target, 0.02) as pings:
        lab.stop_agent("h1")
        state = lab.paths.host("h1")
        for name in ("routers", "fips", "dhcp"):
            shutil.rmtree(state / name, ignore_errors=True)
        (state / "feed.json").unlink()
        lab.run("h1", ["sh", "-c", NEUTRON])
        lab.run("h1", ["ip", "netns", "exec", served[0], "iptables-restore"], text=RULES)

        lab.run("h1", ["ovs-ofctl", "-O", "OpenFlow14", "add-flow", "br-int", OF_NEUTRON])
        size = log_sizes(lab)["h1-agent"]
        lab.start_agent("h1", wait=False)
        for cause in ("foreign_flows", "unknown_ports"):
            wait_until(partial(has_logged, lab, size, f"start_despite = {cause}"), SOON, f"{cause} is not noticed")
        assert GONE | KEPT | set(served) <= namespaces(lab), "an agent that is held deletes nothing"
        assert ports(lab) >= GONE_PORTS
        lab.stop_agent("h1")
        lab.run("h1", ["ovs-ofctl", "-O", "OpenFlow14", "del-flows", "br-int", "cookie=0x9c3f/-1"])

        lab.stop_server()
        size = log_sizes(lab)["h1-agent"]
        lab.start_agent("h1", wait=False)
        waits = "nothing is changed on this host before the server has sent its objects"
        wait_until(partial(has_logged, lab, size, waits), SOON, "the agent does not start")
        assert GONE | KEPT | set(served) <= namespaces(lab), "an agent that has not synced deletes nothing"
        lab.stop_agent("h1")
        lab.start_server()
        found = drift_on(lab, "h1")
        for line in (
            f"router {ROUTER} is not served here any more",
            f"network {NETWORK} is not served here any more",
            f"fip-{NETWORK} has to be removed",
            "unplug qg-5123abcd-ef",
        ):
            assert line in found
        assert GUEST not in "".join(line for line in found.splitlines() if "left alone" not in line)
        assert GONE | KEPT | set(served) <= namespaces(lab), "`verify` changes nothing"

        sleep = next(pid for pid, name in processes(lab, f"qrouter-{ROUTER}").items() if name == "sleep")
        lab.start_agent("h1", {"agent": {"start_despite": "unknown_ports"}})
        wait_until(lambda: not GONE & namespaces(lab), SOON, f"there are still {GONE & namespaces(lab)}")
        wait_until(lambda: not GONE_PORTS & ports(lab), SOON, f"there are still {GONE_PORTS & ports(lab)}")
        wait_until_no_drift(lab, "h1")
    assert pings.lost == 0
    assert lab.run("h1", ["cat", f"/proc/{sleep}/comm"]).stdout == "sleep\n", "no daemon of Neutron's: it is not ended"
    assert set(served) | KEPT <= namespaces(lab)
    assert "qr-4123abcd-ef" in ports(lab), "a namespace with a device of somebody else stays with its ports"
    assert {name: identity(lab, name) for name in served} == before
    rules = in_router(lab, router, "h1", "iptables-save")
    assert "neutron-l3-agent" not in rules
    assert "--dport 9" in rules, "rules of others stay"
    everything = lab.run("h1", ["ps", "-eo", "args"]).stdout
    assert "--listen-address=127.0.0.1 --bind-interfaces" not in everything, "Neutron's dnsmasq is ended"
