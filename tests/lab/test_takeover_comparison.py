"""`neutrino takeover host --compare`: what flows do with packets, compared with security groups."""

from __future__ import annotations

from neutrino.lab.lab import NEUTRINO
from tests.support.commands import run_neutrino
from tests.support.lab_control import Lab
from tests.support.lab_guests import Spec, allow, make_group, make_guests, make_network

HOST = "h1"


def compare(lab: Lab) -> tuple[int, list[str]]:
    files = lab.agent_command(HOST)[len(NEUTRINO) + 1 :]
    done = run_neutrino(
        ["takeover", "host", "--compare", *files], environment=lab.processes.environment(), inside=lab.holder(HOST)
    )
    return done.status, done.out.splitlines()


def test_flows_that_differ_from_the_security_groups_are_listed(lab: Lab) -> None:
    network = make_network(lab, "compared")
    remote, _ = make_group(lab, "remote")
    rules = (
        allow("tcp", (22, 25)),
        allow("icmp"),
        allow("udp", remote_group_id=remote),
        allow("tcp", 80, ethertype="IPv6"),
    )
    group, _ = make_group(lab, "compared", *rules)
    guest, _ = make_guests(lab, Spec("compared", network, HOST, [group]), Spec("member", network, "h2", [remote]))
    status, lines = compare(lab)
    assert status == 0, lines
    assert int(lines[-1].split()[0]) == 24, "packets"

    number = lab.ovs(HOST).vsctl("get", "interface", guest.vm.tap, "ofport").strip()
    match = f"cookie=0x77,table=82,priority=200,ct_state=+new-est,tcp,reg5={number},tp_dst=443"
    lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", "add-flow", "br-int", f"{match},actions=output:{number}"])
    try:  # as a rule that Neutron's agent has not removed
        status, lines = compare(lab)
    finally:
        lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", "del-flows", "br-int", "cookie=0x77/-1"])
    assert status == 1
    assert len(lines) == 2, lines
    assert f"ingress: tcp 198.51.100.77:40000 → {guest.addresses[4]}:443 passes now, and would be dropped" in lines[0]
