"""An outage of the server: traffic on the hosts continues without loss.

  python -m qa.faults.outage [--minute | --seconds N]

A lab of two hosts with a hundred pings a second on four paths. The server is stopped; a device is plugged meanwhile, whose
port the host has in its cache; the server is started again, and the same objects are changed many times. No ping may be
lost, the new device must be wired without the server, and in the end the hosts must have the state of the last change.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from neutrino.lab.errors import wait_until
from neutrino.lab.hosts.namespaces import vm_network
from neutrino.lab.instances.addressing import apply_static
from neutrino.lab.settings import vm_namespace
from tests.support.lab import temporary_lab
from tests.support.lab_faults import (
    QUICK_AGENT,
    Site,
    Traffic,
    expect_closed,
    expect_open,
    extra_rule,
    make_site,
    wait_until_remembered,
)
from tests.support.lab_guests import SOON, add_rule, allow
from tests.support.routing_lab import wait_until_no_drift

CHANGES = 20
MINUTE = 60.0


def without_server(site: Site, seconds: float) -> Traffic:
    """The results of the pings; any other deviation raises an error."""
    lab = site.lab
    late = lab.define_vm("late", network=site.networks["vxlan"]["id"], host="h1", security_groups=[site.group])
    port, subnets = lab.api.show("port", late.port_id), lab.api.list("subnet")
    wait_until_remembered(lab, "h1", late.port_id)
    with Traffic(site, plugs=True) as traffic:
        lab.stop_server()
        back = time.monotonic() + seconds
        lab.plug("late", "h1")
        apply_static(vm_network(lab.holder("h1"), vm_namespace("late")), port, subnets)
        ask = ["ping", "-n", "-c", "1", "-W", "1", site["vxlan2"].addresses[4]]
        wait_until(lambda: lab.run("late", ask, check=False).returncode == 0, SOON, "the device is not wired")
        time.sleep(max(back - time.monotonic(), 0))
        lab.start_server()
        lab.wait_for_port(late)
        # Many changes of the same objects: only the last one counts.
        for number in range(1, CHANGES):
            with extra_rule(site, 8000 + number):
                lab.api.update("port", late.port_id, admin_state_up=number % 2 == 0)
        rule = add_rule(lab, site.narrow_group, allow("tcp", 8080))
        expect_open(site, 8080)
        expect_closed(site, 8000 + CHANGES - 1)
        lab.wait_for_port(late, "DOWN")
        wait_until_no_drift(lab, "h1")
    lab.api.delete("security_group_rule", rule)
    lab.delete_vm("late")
    return traffic


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the server is away (default: %(default)s)")
    parser.add_argument("--minute", action="store_const", const=MINUTE, dest="seconds", help="for a minute")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="neutrino-outage-") as directory:
        agent = Path(directory) / "agent.conf"
        agent.write_text(QUICK_AGENT)
        with temporary_lab(hosts=2, agent_config_files=(str(agent),)) as lab:
            traffic = without_server(make_site(lab), options.seconds)
    lost = traffic.lost or "none"
    sys.stdout.write(f"the server was away for {options.seconds:.0f} s: {traffic.sent} pings sent, lost: {lost}\n")
    return 1 if traffic.lost else 0


if __name__ == "__main__":
    sys.exit(main())
