"""The plan of a teardown: what is known as the agent's, what stays, and what refuses it."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.runtime.own_state import LOCK, AgentRuns, own_state
from neutrino.agent.teardown.plan import BridgeFlows, Facts, Selection, TeardownPlan, plan_teardown
from neutrino.agent.teardown.records import Records
from neutrino.cli.agent import agent
from neutrino.cli.main import build_parser
from neutrino.dataplane.openflow.api import COOKIE, flow
from neutrino.dataplane.ovsdb.api import (
    MARK,
    NAMESPACE,
    OWNER,
    Bridge,
    Interface,
    Port,
    PortSettings,
    Qos,
    Snapshot,
)
from neutrino.dataplane.process.api import Process
from neutrino.errors import OperatorError
from neutrino.model.roles import ROLES

STATE = "/var/lib/neutrino"
ROUTER = "7e1ab6d2-0000-4000-8000-000000000001"
NETWORK = "2c5f09aa-0000-4000-8000-000000000003"
OPTIONS = L2Options(bridge_mappings=(("outside", "br-ex"),), tunnel_types=("vxlan",))
ALL = Selection(frozenset(ROLES))
OURS = BridgeFlows(frozenset({flow(0, 1, "", "drop", cookie=COOKIE)}))


def port(name: str, **ids: str) -> Port:
    return Port(name, interfaces=(Interface(name, "internal", 1, external_ids=ids),))


def bridge(name: str, *ports: Port, mark: str = "bridge", fail_mode: str = "secure") -> Bridge:
    ids = {MARK: mark} if mark else {}
    return Bridge(name, "", fail_mode, ids, {each.name: each for each in (port(name), *ports)})


def service(name: str, namespace: str, owner: str = STATE) -> Port:
    return port(name, **{MARK: "service", NAMESPACE: namespace, OWNER: owner, "iface-id": "a"})


def lines(plan: TeardownPlan) -> list[str]:
    return [each.text() for each in plan.removals]


def plan(*bridges: Bridge, selection: Selection = ALL, **facts: object) -> TeardownPlan:
    snapshot = Snapshot({each.name: each for each in bridges})
    return plan_teardown(OPTIONS, Facts(STATE, snapshot=snapshot, **facts), selection)  # type: ignore[arg-type]


def test_a_host_without_an_agent_has_nothing_to_remove() -> None:
    found = plan(
        bridge("br-ex", mark=""), bridge("br-mine", port("eth1"), mark=""), flows={"br-ex": BridgeFlows(others=3)}
    )
    assert found == TeardownPlan()


@pytest.mark.parametrize(
    ("marks", "is_ours"),
    [
        ({}, False),
        ({"recorded": frozenset({f"qrouter-{ROUTER}"})}, True),
        ({"inhabited": frozenset({f"qrouter-{ROUTER}"})}, True),
    ],
)
def test_a_namespace_is_removed_by_a_mark_alone(marks: dict[str, object], is_ours: bool) -> None:
    found = plan(namespaces={f"qrouter-{ROUTER}": ""}, **marks)
    assert bool(found.removals) is is_ours
    assert bool(found.kept) is not is_ours


def test_a_namespace_is_known_by_the_port_that_names_it() -> None:
    name = f"qrouter-{ROUTER}"
    found = plan(bridge("br-int", service("qr-a", name)), namespaces={name: ""})
    assert lines(found) == [f"remove namespace {name} with its devices", "delete bridge br-int"]
    network = f"qdhcp-{NETWORK}"
    dhcp = port("tap-a", **{MARK: f"dhcp:{NETWORK}", OWNER: STATE, "iface-id": "a"})
    assert lines(plan(bridge("br-int", dhcp), namespaces={network: ""}))[0].startswith(f"remove namespace {network}")


def test_ports_of_another_neutrino_agent_keep_the_bridge_and_their_namespaces() -> None:
    name = f"qrouter-{ROUTER}"
    found = plan(bridge("br-int", service("qr-a", name, owner="/srv/other")), namespaces={name: "it is another's"})
    assert [name in each for each in found.kept] == [True]
    assert "another neutrino agent" in found.obstacles[0]


def test_a_port_whose_namespace_is_gone_is_unplugged() -> None:
    found = plan(bridge("br-int", service("qr-a", f"qrouter-{ROUTER}")), selection=Selection(frozenset({"l3"})))
    assert lines(found) == ["unplug qr-a"]
    assert plan(bridge("br-int", service("qr-a", "x", owner="/srv/other")), selection=Selection(frozenset({"l3"}))) == (
        TeardownPlan()
    )


def test_flows_of_others_on_our_bridge_refuse() -> None:
    """A host that was given back to Neutron: its bridges still carry our mark."""
    found = plan(bridge("br-int"), flows={"br-int": BridgeFlows(others=214)})
    assert found.obstacles == ("bridge br-int has 214 flows of others: it is not this agent's alone",)


def test_ports_of_instances_refuse_stay_or_are_removed() -> None:
    tap = port("tap1", **{"iface-id": "vm"})
    between = port("patch-tun", **{MARK: "patch"})
    here = bridge("br-int", tap, between), bridge("br-tun", port("patch-int", **{MARK: "patch"}))
    flows = {"br-int": OURS, "br-tun": OURS}
    assert "tap1" in plan(*here, flows=flows).obstacles[0]
    kept = plan(*here, flows=flows, selection=Selection(frozenset(ROLES), keep_ports=True))
    assert kept.obstacles == ()
    assert lines(kept) == ["remove 1 flows of br-int", "delete port br-int patch-tun", "delete bridge br-tun"]
    removed = plan(*here, flows=flows, selection=Selection(frozenset(ROLES), all_ports=True))
    assert lines(removed) == ["delete bridge br-int", "delete bridge br-tun"]


def test_functions_of_instances_refuse_or_are_cut() -> None:
    used = {"used_functions": ("0000:03:10.1",), "lost_functions": ("0000:99:10.1",)}
    refused = plan(**used)
    assert refused.obstacles[0].startswith("there is VF 0000:03:10.1 of instances: move them")
    assert refused.kept == {"VF 0000:99:10.1": "no device of physical_device_mappings has it"}
    for given in ({"keep_ports": True}, {"all_ports": True}):
        assert plan(selection=Selection(frozenset(ROLES), **given), **used).obstacles == ()
    assert plan(selection=Selection(frozenset({"l2"})), **used) == TeardownPlan()


def test_the_bridge_of_a_physical_network_forwards_again() -> None:
    """Else a host whose own address is on it would be cut off by the next restart of the switch."""
    patch = port("phy-br-ex", **{MARK: "patch"})
    outer = bridge("br-ex", patch, port("eth0"), mark="")
    assert lines(plan(outer, flows={"br-ex": OURS})) == [
        "remove 1 flows of br-ex, which forwards by MAC then",
        "delete port br-ex phy-br-ex",
        "set bridge br-ex fail_mode=standalone",
    ]
    others = BridgeFlows(OURS.ours, staying=1)
    assert lines(plan(outer, flows={"br-ex": others})) == ["remove 1 flows of br-ex", "delete port br-ex phy-br-ex"]


def test_settings_of_ports_go_before_the_ports() -> None:
    limited = Port("tap1", interfaces=(Interface("tap1", external_ids={"iface-id": "vm"}),))
    limited = Port(limited.name, interfaces=limited.interfaces, settings=PortSettings(qos=Qos("linux-htb")))
    found = lines(plan(bridge("br-int", limited), selection=Selection(frozenset(ROLES), all_ports=True)))
    assert found == ["configure port tap1 none", "delete bridge br-int"]


def test_roles_select_daemons_and_files() -> None:
    names = ("dnsmasq a", "keepalived b", "metadata", "bgpd c", "charon b", "bfd")
    daemons = tuple(Process(name, number, number) for number, name in enumerate(names, 1))
    files = (("dhcp", Path("/d")), ("l3", Path("/l")), ("", Path("/feed.json")))

    def of(*roles: str) -> list[str]:
        selection = Selection(frozenset(roles))
        return [each.name for each in plan(daemons=daemons, files=files, selection=selection).removals]

    assert of("dhcp") == ["dnsmasq a", "/d"]
    assert of("l3") == ["keepalived b", "charon b", "bfd", "/l"]
    assert of("metadata") == ["metadata"]
    assert of("bgp") == ["bgpd c"]
    assert set(of(*ROLES)) == {*names, "/d", "/l", "/feed.json"}


def test_no_file_of_others_is_listed(tmp_path: Path) -> None:
    """The directories may be those of Neutron's agents, with files of other routers."""
    from neutrino.agent.config import configuration

    state = tmp_path / "state"
    for path in (
        f"routers/{ROUTER}",
        f"ha_confs/{ROUTER}/x",
        f"ha_confs/{NETWORK}/x",
        f"ra/{ROUTER}.radvd.conf",
        "credential",
    ):
        (state / path).parent.mkdir(parents=True, exist_ok=True)
        (state / path).write_text("")
    (tmp_path / "agent.conf").write_text(f"[DEFAULT]\nstate_path = {state}\n")
    found = {str(path.relative_to(state)) for _, path in Records(configuration([str(tmp_path / "agent.conf")])).files()}
    assert found == {"routers", f"ha_confs/{ROUTER}", f"ra/{ROUTER}.radvd.conf"}


def test_the_lock_of_a_file_that_a_teardown_has_removed_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that has opened the file right before would run beside the next one, which makes it anew."""
    flock, calls = fcntl.flock, list[int]()

    def removed_before(descriptor: int, operation: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            (tmp_path / LOCK).unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with own_state(tmp_path), pytest.raises(AgentRuns), own_state(tmp_path):
        pass
    assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize("option", ["--roles=l2", "--keep-ports", "--all-ports", "--json"])
def test_options_of_teardown_do_not_start_an_agent(option: str, tmp_path: Path) -> None:
    (tmp_path / "agent.conf").write_text("")
    for action in ((), ("run",), ("verify",)):
        with pytest.raises(OperatorError, match="teardown alone"):
            agent(build_parser().parse_args(["agent", *action, option, "--config-file", str(tmp_path / "agent.conf")]))
