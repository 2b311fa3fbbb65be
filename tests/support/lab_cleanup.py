"""Restores a lab: its processes, the objects of the API and, because agents remove what is deleted, its hosts.

A module of tests that shares a lab leaves it as it was: `HostState` is compared before and after.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from neutrino.lab.api_client import ApiError
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.instances import plug
from neutrino.lab.instances.plug import Vm
from neutrino.lab.settings import EXTERNAL
from tests.support.lab_control import Lab
from tests.support.routing_lab import delete_router
from tests.support.waiting import paced

SOON = 30.0
HTTP_NOT_FOUND = 404
# Users before what they use. Networks take their subnets along, labels and policies their rules.
_BEFORE_ROUTERS = (
    *("taas/tap_flows", "taas/tap_services", "taas/tap_mirrors", "log/logs"),
    *("vpn/ipsec-site-connections", "vpn/vpnservices", "vpn/endpoint-groups", "vpn/ikepolicies", "vpn/ipsecpolicies"),
    *("fwaas/firewall_groups", "fwaas/firewall_policies", "fwaas/firewall_rules"),
    *("metering/metering-labels", "bgp-speakers", "bgp-peers", "ndp_proxies", "floatingips"),
)
_AFTER_ROUTERS = (
    *("ports", "networks", "subnetpools", "address-scopes"),
    *("security-groups", "address-groups", "qos/policies"),
)
_NONE_LEFT = ("routers", "ports", "networks", "subnetpools")
_STATE = """
ip netns | sed 's/ .*//;s/^/namespace /'
ip -o link | awk -F '[:@] *' '{print "device " $2}'
for bridge in $(ovs-vsctl list-br); do
    ovs-vsctl list-ports $bridge | sed "s/^/port of $bridge /"
    ovs-ofctl -O OpenFlow14 --no-stats dump-flows $bridge | sed "1d;s/^/flow of $bridge /"
done
for table in QoS Queue; do ovs-vsctl --bare --columns=_uuid list $table | sed "/^$/d;s/^/$table /"; done
"""
_EXTERNAL_STATE = """
ip -br address | sed 's/^/address /'
ip route | sed 's/^/route /'
ip -6 route | sed 's/ expires [^ ]*//;s/^/route /'
"""
_COOKIE = re.compile(r"cookie=0x[0-9a-f]+, ?")  # of the agent's run
_HOST_MAC = "fa:16:3f:"  # of a host that has had a distributed router: it is the host's, not the router's


# --- the API ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def cleaned(lab: Lab) -> Iterator[Lab]:
    """For objects shared by several tests: cleaned up afterwards, also if their creation failed."""
    try:
        yield lab
    finally:
        clean(lab)


def clean(lab: Lab) -> None:
    """Restore the state after `up`: all processes run, no VMs, and no objects in the API except default ones."""
    _start_everything(lab)
    _unplug_all(lab)
    for path in _BEFORE_ROUTERS:
        _delete_all(lab, path)
    for router in _objects(lab, "routers"):
        delete_router(lab, router)
    for local_ip in _objects(lab, "local-ips"):
        _delete_all(lab, f"local_ips/{local_ip}/port_associations", key="fixed_port_id")
        lab.api.request("DELETE", f"/v2.0/local-ips/{local_ip}")
    for trunk in lab.api.list("trunk"):
        lab.api.update("port", trunk["port_id"], **{"binding:host_id": "", "device_owner": "", "device_id": ""})
        lab.api.delete("trunk", trunk["id"])
    for path in _AFTER_ROUTERS:
        _delete_all(lab, path)
    left = [path for path in _NONE_LEFT if _objects(lab, path)]
    assert not left, f"the API still has {left}"


def _objects(lab: Lab, path: str, key: str = "id") -> list[str]:
    try:
        (found,) = lab.api.request("GET", f"/v2.0/{path}").values()
    except ApiError as error:
        if error.status == HTTP_NOT_FOUND:  # the server does not have this plugin
            return []
        raise
    return [each[key] for each in found]


def _delete_all(lab: Lab, path: str, key: str = "id") -> None:
    for found in _objects(lab, path, key):
        with contextlib.suppress(ApiError):  # default objects cannot be deleted
            lab.api.request("DELETE", f"/v2.0/{path}/{found}")


def _unplug_all(lab: Lab) -> None:
    """Unplug all VMs of a host at once."""
    by_host: dict[str, list[Vm]] = defaultdict(list)
    for vm in lab.vms.all():
        by_host[vm.host].append(vm)
    for host, vms in by_host.items():
        plug.unplug(lab.ovs(host), vms)
        for vm in vms:
            lab.vms.remove(vm.name)


# --- processes --------------------------------------------------------------------------------------------------------


def _start_everything(lab: Lab) -> None:
    lab.start_server()
    for host in lab.hosts:
        if "metadata" in lab.settings.roles:
            lab.start_nova(host)
        options = lab.options_file(host)
        if lab.agent_pid(host) is not None and options.exists() and "[" in options.read_text():
            lab.stop_agent(host)  # a test has started it with other options
        switch = lab.ovs(host)
        if None in (switch.pid(SWITCH), switch.pid(DATABASE)):
            lab.start_ovs(host)
        if lab.agent_pid(host) is None:
            lab.start_agent(host, {})
        lab.wait_for_agent(host)


# --- hosts ------------------------------------------------------------------------------------------------------------

HostState = frozenset[str]


def host_state(lab: Lab) -> HostState:
    """Namespaces, devices, switch ports, flows and queues of all hosts, and the addresses of the external machine."""
    where = dict.fromkeys(lab.hosts, _STATE) | {EXTERNAL: _EXTERNAL_STATE}
    with ThreadPoolExecutor(len(where)) as pool:
        texts = pool.map(lambda name: lab.run(name, ["sh", "-c", where[name]]).stdout, where)
        return frozenset(
            f"{name}: {_COOKIE.sub('', line).strip()}"
            for name, text in zip(where, texts, strict=True)
            for line in text.splitlines()
            if _HOST_MAC not in line
        )


def wait_for_host_state(lab: Lab, before: HostState) -> None:
    """Wait until hosts have nothing that they did not have before, and lack nothing."""
    changed: list[str] = []

    def restored() -> bool:
        now = host_state(lab)
        changed[:] = [*(f"new: {line}" for line in sorted(now - before)), *(f"gone: {line}" for line in before - now)]
        return not changed

    try:
        wait_until(paced(restored), SOON, "hosts are not as before")
    except LabError:
        raise AssertionError("hosts are not as before:\n" + "\n".join(changed)) from None
