"""`neutrino up` once the API responds: create the external network, restore instances, and print the next steps."""

import http
import shlex
import shutil
import sys
from pathlib import Path

from neutrino.cli.errors import print_error
from neutrino.cli.up.machine import (
    DEFAULT_STATE,
    EXTERNAL_BRIDGE,
    EXTERNAL_CIDR,
    EXTERNAL_GATEWAY,
    EXTERNAL_NETWORK,
    Run,
)
from neutrino.lab.api_client import ApiClient, ApiError
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.instances.instances import Instances
from neutrino.lab.instances.plug import BRIDGE as INTEGRATION_BRIDGE
from neutrino.lab.instances.plug import Vm

API_SECONDS = 180.0  # the first start on a slow machine compiles all modules
AGENT_SECONDS = 30.0
PUBLIC = "public"

NO_AUTH = "no authentication, this machine only"
KEYSTONE = "clients authenticate with Keystone, whose catalog must list it as network endpoint"
DATAPATHS = {"system": "kernel datapath", "netdev": "userspace datapath"}
CREATE_EXTERNAL = f"""\
The external bridge is {EXTERNAL_BRIDGE}; an administrator creates its network with
  openstack network create {PUBLIC} --external \\
    --provider-network-type flat --provider-physical-network {EXTERNAL_NETWORK}"""
NO_CLIENT = "The openstack command is not installed: pip install python-openstackclient"


def next_steps(run: Run) -> None:
    """Wait in a thread until the API responds, prepare networks and instances, then print the next steps."""
    api, external = ApiClient(run.url), ""
    try:
        wait_until(api.responds, API_SECONDS, f"{api.url} does not respond; see {run.state / 'log'}")
    except LabError as error:
        print_error(str(error))
        return
    if run.host and run.no_auth:
        try:
            external = ensure_external_network(api)
            _restore_instances(run)
        except LabError as error:
            print_error(str(error))
    print(_text(run, external), flush=True)


def _restore_instances(run: Run) -> None:
    # br-int is new in each run. The agent's state in the API may still be that of the previous run.
    what = f"the agent has not created {INTEGRATION_BRIDGE}; see {run.state / 'log' / 'agent.log'}"
    wait_until(lambda: INTEGRATION_BRIDGE in run.switch.vsctl("list-br").split(), AGENT_SECONDS, what)
    instances = run.instances()
    for vm in instances.vms.all():
        try:
            _restore(instances, vm)
        except LabError as error:
            print_error(f"VM {vm.name} is not restored: {error}")


def _restore(instances: Instances, vm: Vm) -> None:
    """Plug an instance of the previous run again; one whose port was deleted meanwhile is removed."""
    try:
        instances.api.show("port", vm.port_id)
    except ApiError as error:
        if error.status != http.HTTPStatus.NOT_FOUND:
            raise
        instances.vms.remove(vm.name)
        return
    instances.unplug([vm.name], vm.host)  # a killed run leaves its devices
    instances.plug([vm.name], vm.host)
    instances.wait_for_port(vm)
    instances.address(vm.name)


def _text(run: Run, external: str) -> str:
    log = run.state / "log"
    lines = ["", f"The Networking API v2.0 is on {run.url}: {NO_AUTH if run.no_auth else KEYSTONE}."]
    lines.append(f"The topology page is on {run.url}/ui/: networks, hosts, health and packet traces in a browser.")
    if run.host:
        lines.append(f"Networks are wired by Open vSwitch ({DATAPATHS[run.datapath]}); logs are in {log}.")
        if external:
            lines.append(f"The external network {external} ({EXTERNAL_CIDR}) is on {EXTERNAL_BRIDGE}.")
        elif not run.no_auth:
            lines.append(CREATE_EXTERNAL)
    else:
        lines.append(f"Networks are not wired on this machine; logs are in {log}.")
    if run.no_auth:
        openstack, hint = client()
        lines += ["In another terminal:", "", *(f"  {command}" for command in _commands(run, openstack)), hint]
    lines.append("Ctrl-C ends it and removes what it created on this machine; the next start restores it.\n")
    return "\n".join(lines)


def _commands(run: Run, openstack: str) -> list[str]:
    """Commands for a first network; scripts/fresh and the tests run them as printed."""
    commands = [
        f"export OS_CLIENT_CONFIG_FILE={shlex.quote(str(run.state / 'clouds.yaml'))} OS_CLOUD=neutrino",
        f"{openstack} network create blue",
    ]
    subnet = f"{openstack} subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24"
    if not run.host:
        return [*commands, subnet, f"{openstack} port create --network blue vm1", f"{openstack} port list"]
    is_default = run.state == Path(DEFAULT_STATE).absolute()
    vm = f"{program()} vm" if is_default else f"{program()} vm --state {shlex.quote(run.directory)}"
    return [
        *commands,
        # 10.0.0.9 is outside the pool, so that no other port, such as DHCP's, is allocated it.
        f"{subnet} --allocation-pool start=10.0.0.100,end=10.0.0.199",
        f"{vm} web --network blue",
        f"{vm} db --network blue --address 10.0.0.9",
        f"{vm} exec web -- ping -c 3 10.0.0.9",
    ]


def ensure_external_network(api: ApiClient) -> str:
    """Create an external network unless there is one; returns its name. Floating IPs are reachable from this machine."""
    networks = api.request("GET", "/v2.0/networks?router:external=true&fields=name&sort_key=name")["networks"]
    if networks:
        return str(networks[0]["name"])
    provider = {"provider:network_type": "flat", "provider:physical_network": EXTERNAL_NETWORK}
    network = api.create("network", **{"name": PUBLIC, "router:external": True, **provider})
    addresses = {"ip_version": 4, "cidr": EXTERNAL_CIDR, "gateway_ip": EXTERNAL_GATEWAY, "enable_dhcp": False}
    api.create("subnet", name=f"{PUBLIC}-v4", network_id=network["id"], **addresses)
    return PUBLIC


def program() -> str:
    """Return how to call `neutrino` from a shell."""
    return "neutrino" if shutil.which("neutrino") else shlex.quote(str(Path(sys.executable).with_name("neutrino")))


def find_client() -> str | None:
    """Find the openstack client: of the PATH, or of the virtual environment of this command."""
    own = Path(sys.executable).with_name("openstack")
    return "openstack" if shutil.which("openstack") else str(own) if own.exists() else None


def client() -> tuple[str, str]:
    """Return how to call the openstack client from a shell, and a hint if it is not installed."""
    path = find_client()
    return shlex.quote(path or "openstack"), "" if path else NO_CLIENT
