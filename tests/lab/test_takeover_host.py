"""`neutrino takeover host`: comparison of security groups with flows, and probes through a real switch."""

from __future__ import annotations

import json
import sys

from neutrino.lab.errors import wait_until
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


PROBING = """
import json, sys, time
from neutrino.dataplane.probes.api import Probe
from neutrino.dataplane.probes.real import SwitchProber
prober = SwitchProber("/run/openvswitch/br-int.mgmt")
prober.start([Probe(*probe) for probe in json.loads(sys.argv[1])])
print("ready", flush=True)
for line in sys.stdin:
    time.sleep(float(line))
    print(json.dumps([(loss.probe.peer, loss.sent, loss.lost, loss.silent) for loss in prober.losses()]), flush=True)
prober.close()
"""


def test_probes_find_loss_on_the_way_of_an_instance(lab: Lab) -> None:
    """To neighbours on another host, of both IP versions: that answer echo requests, that tell their MAC, and to none.

    A probe with an address that is not the port's is dropped like a packet of the instance.
    """
    network = make_network(lab, "probed")
    pinged, _ = make_group(lab, "pinged", allow("icmp"), allow("ipv6-icmp", ethertype="IPv6"))
    silent, _ = make_group(lab, "silent")
    sender, one, other = make_guests(
        lab,
        Spec("sender", network, HOST, [silent]),
        Spec("pinged", network, "h2", [pinged]),
        Spec("silent", network, "h2", [silent]),
    )
    number = int(lab.ovs(HOST).vsctl("get", "interface", sender.vm.tap, "ofport"))
    there = {guest.addresses[version] for guest in (one, other) for version in (4, 6)}
    sources = {False: sender.addresses[4], True: sender.addresses[6]}
    missing = ["10.0.0.250", "fd00:10::250"]
    probes = [(sender.vm.tap, number, sender.mac, sources[":" in peer], peer) for peer in (*there, *missing)]
    spoofed = (sender.vm.tap, number, sender.mac, "fd00:10::251", "fd00:10::1")
    probes += [spoofed]
    prober = lab.popen(HOST, [sys.executable, "-c", PROBING, json.dumps(probes)], stdin=-1)

    def losses(seconds: float) -> dict[str, list[float]]:
        assert prober.stdin is not None
        assert prober.stdout is not None
        prober.stdin.write(f"{seconds}\n")
        prober.stdin.flush()
        return {peer: figures for peer, *figures in json.loads(prober.stdout.readline())}

    with prober:
        assert prober.stdout is not None
        assert prober.stdout.readline() == "ready\n"
        before = losses(1.5)
        assert before.keys() == there, "one that is not there is left out"
        assert [lost for _, lost, _ in before.values()] == [0, 0, 0, 0]
        assert min(sent for sent, _, _ in before.values()) > 5
        flow = f"cookie=0x77,table=0,priority=60000,in_port={number},actions=drop"
        lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", "add-flow", "br-int", flow])
        try:
            after = losses(2.0)
        finally:
            lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", "del-flows", "br-int", "cookie=0x77/-1"])
        assert min(lost for _, lost, _ in after.values()) > 3, after
        assert min(quiet for _, _, quiet in after.values()) > 1.5, after
        wait_until(lambda: max(quiet for _, _, quiet in losses(0.2).values()) < 1, 20, "answers again")
        assert prober.stdin is not None
        prober.stdin.close()
        assert prober.wait(20) == 0
