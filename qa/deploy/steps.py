"""The steps, in their order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qa.deploy.cloud import Cloud, external_subnet
from qa.deploy.machines import OUTSIDE, Failed, Machine, command, wait_for
from qa.deploy.results import Result
from qa.deploy.traffic import ApiLoad, Ping

SUFFIX = "+1"  # of the version to which the cloud is upgraded
# Prints what a host of the cloud has, and another machine does not.
LEFT_OVER = """
ls -d /etc/neutrino /var/lib/neutrino* /var/log/neutrino* /usr/lib/neutrino /var/cache/neutrino-packages 2>/dev/null
ls /run/netns 2>/dev/null
dpkg-query -W -f '${Package}\\n' 'neutrino-*' 2>/dev/null
ovs-vsctl list-br | grep -v '^br-underlay$'
pgrep -x dnsmasq; pgrep -x keepalived; pgrep -f neutrino
"""

# The same of a server.
LEFT_OVER_SERVER = """
ls -d /etc/neutrino /var/lib/neutrino /var/log/neutrino* /run/neutrino /usr/lib/neutrino /var/cache/neutrino-packages \\
    /etc/systemd/system/neutrino* 2>/dev/null
dpkg-query -W -f '${Package}\\n' 'neutrino-*' 2>/dev/null
getent passwd neutrino; pgrep -f neutrino
"""


@dataclass(frozen=True)
class Step:
    name: str
    text: str
    run: Callable[[Cloud, Result], None]
    is_needed: bool = False  # by all later ones
    shapes: tuple[str, ...] = ("full", "small")


# --- installing and using ---------------------------------------------------------------------------------------------


def install(cloud: Cloud, result: Result) -> None:
    outcome = cloud.operator.play("site")
    result.figures.append(f"{sum(outcome.changed.values())} tasks changed {len(outcome.changed)} machines")
    if cloud.monitoring:
        try:
            wait_for("Prometheus", 90, lambda: not unscraped(cloud), 3.0)
        except Failed:
            raise Failed(f"Prometheus: {', '.join(unscraped(cloud))}") from None
        result.figures.append("Prometheus has the metrics of all servers, feeds and hosts")


def unscraped(cloud: Cloud) -> list[str]:
    """Targets of Prometheus that are not up."""
    text = cloud.monitoring[0].run("curl", "-s", "http://127.0.0.1:9090/api/v1/targets", check=False)
    targets = json.loads(text)["data"]["activeTargets"] if text else []
    wanted = 2 * len(cloud.of("s")) + len(cloud.of("h"))
    found = [target["scrapeUrl"] + ": " + target["lastError"] for target in targets if target["health"] != "up"]
    return found if len(targets) == wanted else [f"{len(targets)} targets instead of {wanted}", *found]


def again(cloud: Cloud, result: Result) -> None:
    outcome = cloud.operator.play("site")
    if any(outcome.changed.values()):
        raise Failed(f"a second run has changed something: {dict(outcome.changed)}: {cloud.place.work}/log")
    result.figures.append("changed=0")


def use(cloud: Cloud, result: Result) -> None:
    external = cloud.create(
        "network",
        **{
            "name": "outside",
            "router:external": True,
            "provider:network_type": "flat",
            "provider:physical_network": "external",
        },
    )
    cloud.ids["external"] = external["id"]
    cloud.create("subnet", network_id=external["id"], **external_subnet())
    network = cloud.create("network", name="blue")
    subnet = cloud.create("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    is_ha = cloud.shape.network_hosts > 1
    router = cloud.create(
        "router", name="r", ha=is_ha, distributed=False, external_gateway_info={"network_id": external["id"]}
    )
    cloud.ids |= {"network": network["id"], "router": router["id"]}
    cloud.call("PUT", f"routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]})
    project = network["project_id"]
    group = cloud.find("security-groups", name="default", project_id=project)[0]["id"]
    rule = {"security_group_id": group, "direction": "ingress", "protocol": "icmp"}
    cloud.call("POST", "security-group-rules", {"security_group_rule": rule})
    for index, host in enumerate(cloud.of("h"), 1):
        add_instance(cloud, host.name, index)
    took = wait_for("all paths", 120, lambda: all(cloud.pings(path.words, path.target) for path in paths(cloud)), 1.0)
    result.figures.append(f"{len(paths(cloud))} paths after {took:.1f} s")


def add_instance(cloud: Cloud, host: str, index: int) -> None:
    name = f"vm{index}"
    cloud.ids[f"floating-{name}"] = cloud.start_instance(host, name, f"10.0.0.{10 + index}")
    cloud.ids[f"host-{name}"] = host


def remove_instance(cloud: Cloud, host: Machine, name: str) -> None:
    cloud.vm(host, "delete", name)
    del cloud.ids[f"host-{name}"]


def paths(cloud: Cloud) -> list[Ping]:
    """Between each two hosts in both directions, to the router, out of the cloud by SNAT, and in by floating IPs."""
    names = [key.removeprefix("host-") for key in cloud.ids if key.startswith("host-")]
    found: list[tuple[str, list[str], str]] = []
    for name in names:
        host = cloud.ids[f"host-{name}"]
        if not cloud.machines[host].runs:
            continue
        words = cloud.inside(host, name)
        for other in names:
            if other != name and cloud.machines[cloud.ids[f"host-{other}"]].runs:
                found.append((f"{name}-{other}", words, f"10.0.0.{10 + int(other[2:])}"))
        found.append((f"{name}-router", words, "10.0.0.1"))
        found.append((f"{name}-out", words, OUTSIDE))
        found.append((f"in-{name}", [], cloud.ids[f"floating-{name}"]))
    return [Ping(name, words, target, cloud.place.work / "log" / f"ping-{name}") for name, words, target in found]


@contextmanager
def traffic(cloud: Cloud, result: Result, *, lost: int | None = 0, failed: int | None = 0) -> Iterator[ApiLoad]:
    """Pings on all paths and requests of the API during the block. `lost`, `failed`: how many may be; None: any number."""
    assert cloud.tokens
    running = paths(cloud)
    load = ApiLoad(cloud.url, cloud.tokens, cloud.ca)
    for ping in running:
        ping.log = ping.log.with_name(f"{result.step}-{ping.log.name}")
        ping.start()
    load.start()
    try:
        time.sleep(1)  # some traffic before
        yield load
        time.sleep(1)  # and after it
    finally:
        load.stop()
        counts = {ping.name: ping.stop() for ping in running}
        total = sum(count.lost for count in counts.values())
        sent = sum(count.sent for count in counts.values())
        worst = max(counts.values(), key=lambda count: count.longest)
        gap = f"longest gap {worst.longest:.2f} s"
        if worst.ended:
            gap += f" until {time.strftime('%H:%M:%S', time.localtime(worst.ended))}"
        requests = load.outcomes.total()
        result.figures.append(f"{total} of {sent} pings lost on {len(counts)} paths, {gap}")
        result.figures.append(f"{load.outcomes['failed']} of {requests} requests failed, slowest {load.longest:.1f} s")
    if silent := [name for name, count in counts.items() if not count.sent]:
        raise Failed(f"no ping was answered on {', '.join(silent)}")
    if lost is not None and total > lost:
        raise Failed(f"pings were lost: { {name: count.lost for name, count in counts.items() if count.lost} }")
    if failed is not None and load.outcomes["failed"] > failed:
        raise Failed(f"requests failed: {load.failures[:10]}")


# --- faults -----------------------------------------------------------------------------------------------------------


def kill_server(cloud: Cloud, result: Result) -> None:
    victim = cloud.of("s")[-1]
    # What it was answering is lost: 502 for changes, which the load balancer does not repeat.
    with traffic(cloud, result, failed=3) as load:
        victim.kill()
        time.sleep(15)
        serves(load, result)
    restart(cloud, victim)


def kill_feed(cloud: Cloud, result: Result) -> None:
    with traffic(cloud, result):
        for server in cloud.of("s")[:1]:
            server.run("systemctl", "kill", "--signal=KILL", "neutrino-feed")
        took = wait_for("all hosts connected", 60, lambda: connected(cloud), 0.5)
    result.figures.append(f"all hosts connected after {took:.1f} s")


def kill_balancer(cloud: Cloud, result: Result) -> None:
    victim = cloud.of("lb")[0]
    with traffic(cloud, result, failed=None) as load:
        victim.kill()
        time.sleep(15)
        serves(load, result)
    restart(cloud, victim)


def kill_database(cloud: Cloud, result: Result) -> None:
    # Requests wait for the standby, which is promoted at once: none fails.
    with traffic(cloud, result) as load:
        cloud.databases.fail_over()
        time.sleep(15)
        serves(load, result)
    restart(cloud, cloud.databases.standby)
    with traffic(cloud, result):
        cloud.databases.follow()


def kill_host(cloud: Cloud, result: Result) -> None:
    """The network host on which the HA router is active."""
    victim = cloud.machines[active_host(cloud)]
    others = [
        path
        for path in paths(cloud)
        if path.name.startswith("in-") and cloud.ids[f"host-{path.name.removeprefix('in-')}"] != victim.name
    ]
    for ping in others:
        ping.start()
    time.sleep(1)
    victim.kill()
    wait_for("the paths of the other hosts", 60, lambda: reachable(cloud), 0.2)
    time.sleep(2)
    counts = [ping.stop() for ping in others]
    longest = max(count.longest for count in counts)
    result.figures.append(f"floating IPs of {len(others)} other hosts without an answer for {longest:.2f} s")
    restart(cloud, victim)
    # Its instance has ended with it: Nova would start it again.
    found = next(key for key, host in cloud.ids.items() if key.startswith("host-") and host == victim.name)
    name = found.removeprefix("host-")
    remove_instance(cloud, victim, name)
    add_instance(cloud, victim.name, int(name.removeprefix("vm")))
    took = wait_for("all paths", 120, lambda: all(cloud.pings(path.words, path.target) for path in paths(cloud)), 1.0)
    result.figures.append(f"after its return all paths answer again after {took:.1f} s")


def serves(load: ApiLoad, result: Result) -> None:
    """From now on requests succeed."""
    before, number = load.outcomes["failed"], load.outcomes["succeeded"]
    time.sleep(5)
    if load.outcomes["failed"] > before or load.outcomes["succeeded"] == number:
        raise Failed(f"requests still fail: {load.failures[-5:]}")


def restart(cloud: Cloud, machine: Machine) -> None:
    machine.boot()
    machine.wait()
    if machine.is_host:
        wait_for(f"{machine.name} connected", 120, lambda: connected(cloud), 1.0)


def connected(cloud: Cloud) -> bool:
    hosts = cloud.call("GET", "status")["status"]["hosts"]
    return all(host["connection"] == "connected" for host in hosts)


def active_host(cloud: Cloud) -> str:
    agents = cloud.call("GET", f"routers/{cloud.ids['router']}/l3-agents")["agents"]
    return str(next(agent["host"] for agent in agents if agent["ha_state"] == "active"))


def ha_states(cloud: Cloud) -> list[str]:
    return sorted(
        str(agent["ha_state"]) for agent in cloud.call("GET", f"routers/{cloud.ids['router']}/l3-agents")["agents"]
    )


def reachable(cloud: Cloud) -> bool:
    return all(cloud.pings(path.words, path.target) for path in paths(cloud) if path.name.startswith("in-"))


def drain(cloud: Cloud, result: Result) -> None:
    """The host on which the HA router is active: its routers and networks go to the others, and it is enabled again."""
    name = active_host(cloud)
    with traffic(cloud, result, lost=None):
        cloud.operator.play("drain_host", neutrino_drained=name, neutrino_despite_instances=True)
    agents = {agent["agent_type"]: agent for agent in cloud.find("agents", host=name)}
    l3 = agents["L3 agent"]["id"]
    left = cloud.call("GET", f"agents/{l3}/l3-routers")["routers"]
    left += cloud.call("GET", f"agents/{agents['DHCP agent']['id']}/dhcp-networks")["networks"]
    if left or any(agent["admin_state_up"] for agent in agents.values()):
        raise Failed(f"{name} is not drained: {[one['id'] for one in left]}, {agents}")
    for agent in agents.values():
        cloud.call("PUT", f"agents/{agent['id']}", {"agent": {"admin_state_up": True}})
    served = cloud.call("GET", f"routers/{cloud.ids['router']}/l3-agents")["agents"]
    if name not in {agent["host"] for agent in served}:
        cloud.call("POST", f"agents/{l3}/l3-routers", {"router_id": cloud.ids["router"]})
    wait_for("an active and a standby host", 60, lambda: ha_states(cloud) == ["active", "standby"], 1.0)


# --- fewer and more hosts ---------------------------------------------------------------------------------------------


def shrink(cloud: Cloud, result: Result) -> None:
    """A host with an instance is refused; without, it is removed, and nothing is left there."""
    victim = cloud.of("h")[-1]
    name = f"vm{len(cloud.of('h'))}"
    cloud.operator.play("remove_host", fails=True, neutrino_drained=victim.name)
    remove_instance(cloud, victim, name)
    with traffic(cloud, result):
        cloud.operator.play("remove_host", neutrino_drained=victim.name)
    left = victim.run("bash", "-c", LEFT_OVER, check=False).split()
    if left:
        raise Failed(f"left on {victim.name}: {left}")
    if cloud.find("agents", host=victim.name):
        raise Failed(f"agents of {victim.name} are left")
    if victim.name in cloud.machines["s1"].run("neutrino", "host", "list"):
        raise Failed(f"the credential of {victim.name} is left")


def shrink_servers(cloud: Cloud, result: Result) -> None:
    """A server is removed, taken out of the inventory, and added again."""
    victim = cloud.of("s")[-1]
    directory = packages(cloud)
    with traffic(cloud, result):
        cloud.operator.play("remove_server", neutrino_removed=victim.name)
        if left := victim.run("bash", "-c", LEFT_OVER_SERVER, check=False).split():
            raise Failed(f"left on {victim.name}: {left}")
        cloud.write_inventory(directory, without=victim.name)
        cloud.operator.play("site")
        if victim.name in cloud.of("lb")[0].run("cat", "/etc/haproxy/haproxy.cfg").split():
            raise Failed(f"the load balancer has {victim.name} still")
        cloud.write_inventory(directory)
        cloud.operator.play("site")


def grow(cloud: Cloud, result: Result) -> None:
    """The host is added again; the others are not changed."""
    added = cloud.of("h")[-1]
    with traffic(cloud, result):
        outcome = cloud.operator.play("site")
    changed = {name: number for name, number in outcome.changed.items() if number and name != added.name}
    # On the first server, its certificate and credential are made.
    if set(changed) - {"s1"}:
        raise Failed(f"other machines were changed: {changed}")
    add_instance(cloud, added.name, len(cloud.of("h")))
    wait_for("all paths", 120, lambda: all(cloud.pings(path.words, path.target) for path in paths(cloud)), 1.0)


# --- upgrade ----------------------------------------------------------------------------------------------------------


def versions(cloud: Cloud) -> set[str]:
    machines = [*cloud.of("s"), *cloud.of("h")]
    return {machine.run("dpkg-query", "-W", "-f", "${Version}", "neutrino-common") for machine in machines}


def packages(cloud: Cloud) -> Path:
    """Those of scripts/deploy-test."""
    return cloud.place.work / "dist"


def upgrade(cloud: Cloud, result: Result) -> None:
    later = cloud.place.work / "dist-next"
    command("scripts/next-packages", str(packages(cloud)), str(later), SUFFIX)
    move(cloud, result, later)


def downgrade(cloud: Cloud, result: Result) -> None:
    move(cloud, result, packages(cloud), back=True)


def move(cloud: Cloud, result: Result, directory: Path, *, back: bool = False) -> None:
    cloud.write_inventory(directory)
    # With one server its restart is seen.
    with traffic(cloud, result, failed=0 if cloud.shape.servers > 1 else None):
        cloud.operator.play("upgrade", neutrino_downgrade=back)
    wanted = {next(iter(directory.glob("neutrino-common_*"))).name.split("_")[1]}
    if versions(cloud) != wanted:
        raise Failed(f"versions {versions(cloud)}, wanted {wanted}")


# --- rotation ---------------------------------------------------------------------------------------------------------


def credentials(cloud: Cloud, result: Result) -> None:
    before = {host.name: host.run("sha256sum", "/etc/neutrino/credential") for host in cloud.of("h")}
    with traffic(cloud, result):
        cloud.operator.play("rotate_credentials")
    same = [
        host.name for host in cloud.of("h") if host.run("sha256sum", "/etc/neutrino/credential") == before[host.name]
    ]
    if same:
        raise Failed(f"the credential is still the old one on {', '.join(same)}")


def certificates(cloud: Cloud, result: Result) -> None:
    before = shown_certificate(cloud)
    with traffic(cloud, result):
        cloud.operator.play("rotate_certificates")
    wait_for("the new certificate of the load balancer", 30, lambda: shown_certificate(cloud) != before)


def shown_certificate(cloud: Cloud) -> str:
    script = f"openssl s_client -connect {cloud.public}:9696 </dev/null 2>/dev/null | openssl x509 -noout -fingerprint"
    return command("bash", "-c", script)


STEPS = (
    Step("install", "install the cloud from the inventory", install, is_needed=True),
    Step("again", "a second run changes nothing", again),
    Step("use", "networks, a router, instances, floating IPs", use, is_needed=True),
    Step("kill-server", "a server loses power", kill_server, shapes=("full",)),
    Step("kill-feed", "a feed is killed", kill_feed, shapes=("full",)),
    Step("kill-balancer", "a load balancer loses power", kill_balancer, shapes=("full",)),
    Step("kill-database", "the primary database loses power", kill_database, shapes=("full",)),
    Step("kill-host", "a network host loses power", kill_host, shapes=("full",)),
    Step("drain", "drain a network host, and enable it again", drain, shapes=("full",)),
    Step("credentials", "rotate credentials under traffic", credentials),
    Step("certificates", "rotate certificates under traffic", certificates),
    Step("upgrade", "upgrade under traffic", upgrade),
    Step("downgrade", "downgrade under traffic", downgrade),
    Step("shrink", "remove a host", shrink),
    Step("grow", "add it again", grow),
    Step("shrink-servers", "remove a server under traffic, and add it again", shrink_servers, shapes=("full",)),
)
