"""`neutrino up` once the API responds: create the external network, restore instances, and print the next steps."""

from __future__ import annotations

import http
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from neutrino.cli.errors import print_error
from neutrino.cli.up.machine import EXTERNAL_BRIDGE, EXTERNAL_CIDR, EXTERNAL_GATEWAY, EXTERNAL_NETWORK
from neutrino.cli.up.openvswitch import OwnSwitch
from neutrino.cli.up.run_state import DEFAULT_STATE, RunState, machine_instances
from neutrino.lab.api_client import ApiClient, ApiError
from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.instances.instances import Instances
from neutrino.lab.instances.plug import BRIDGE as INTEGRATION_BRIDGE
from neutrino.lab.instances.records import Vm

API_SECONDS = 60.0
AGENT_SECONDS = 30.0
PUBLIC = "public"

NO_AUTH = """
The Networking API v2.0 is on {url}: no authentication, this machine only.
{dataplane}
In another terminal:

  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=neutrino
  {openstack} network create blue
  {openstack} subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24{pool}
{instances}{hint}
Ctrl-C ends it and removes what it created on this machine; the next start restores it.
"""
# The address that a command below names is outside the pool, so that no other port is allocated it.
POOL = " --allocation-pool start=10.0.0.100,end=10.0.0.199"
INSTANCES = """\
  {vm} web --network blue
  {vm} db --network blue --address 10.0.0.9
  {vm} exec web -- ping -c 3 10.0.0.9
"""
PORTS = """\
  {openstack} port create --network blue vm1
  {openstack} port list
"""
KEYSTONE = """
The Networking API v2.0 is on {url}: clients authenticate with Keystone, whose catalog must list it as network endpoint.
{dataplane}
Ctrl-C ends it and removes what it created on this machine; the next start restores it.
"""
WIRED = "Networks are wired on this machine by Open vSwitch ({datapath}); logs are in {log}."
EXTERNAL = f"\nThe external network {{name}} ({EXTERNAL_CIDR}) is on {EXTERNAL_BRIDGE}."
CREATE_EXTERNAL = f"""
The external bridge is {EXTERNAL_BRIDGE}; an administrator creates its network with
  openstack network create {PUBLIC} --external \\
    --provider-network-type flat --provider-physical-network {EXTERNAL_NETWORK}"""
NOT_WIRED = "Networks are not wired on this machine; logs are in {log}."
NO_CLIENT = "\nThe openstack command is not installed: pip install python-openstackclient\n"
DATAPATHS = {"system": "kernel datapath", "netdev": "userspace datapath"}


@dataclass(frozen=True)
class NextSteps:
    state: Path
    running: RunState
    datapath: str  # empty if networks are not wired

    def run(self) -> None:
        """In a thread: wait until the API responds, prepare networks and instances, then print the next steps."""
        api, external = ApiClient(self.running.url), ""
        try:
            wait_until(api.responds, API_SECONDS, f"{api.url} does not respond; see {self.state / 'log'}")
        except LabError as error:
            print_error(str(error))
            return
        if self.datapath and self.running.no_auth:
            try:
                external = ensure_external_network(api)
                self._restore_instances()
            except LabError as error:
                print_error(str(error))
        print(self._text(external), flush=True)

    def _restore_instances(self) -> None:
        # br-int is new in each run. The agent's state in the API may still be that of the previous run.
        switch = OwnSwitch(self.state / "ovs", self.datapath, self.running.pid)
        what = f"the agent has not created {INTEGRATION_BRIDGE}; see {self.state / 'log' / 'agent.log'}"
        wait_until(lambda: INTEGRATION_BRIDGE in switch.vsctl("list-br").split(), AGENT_SECONDS, what)
        instances = machine_instances(self.state, self.running)
        for vm in instances.vms.all():
            try:
                _restore(instances, vm)
            except LabError as error:
                print_error(f"VM {vm.name} is not restored: {error}")

    def _text(self, external: str) -> str:
        log, url = self.state / "log", self.running.url
        dataplane = NOT_WIRED.format(log=log)
        if self.datapath:
            dataplane = WIRED.format(datapath=DATAPATHS[self.datapath], log=log)
            if external:
                dataplane += EXTERNAL.format(name=external)
            elif not self.running.no_auth:
                dataplane += CREATE_EXTERNAL
        if not self.running.no_auth:
            return KEYSTONE.format(url=url, dataplane=dataplane)
        openstack, hint = client()
        return NO_AUTH.format(
            url=url,
            dataplane=dataplane,
            clouds=shlex.quote(str(self.state / "clouds.yaml")),
            openstack=openstack,
            pool=POOL if self.datapath else "",
            instances=INSTANCES.format(vm=self._vm_command()) if self.datapath else PORTS.format(openstack=openstack),
            hint=hint,
        )

    def _vm_command(self) -> str:
        is_default = self.state == Path(DEFAULT_STATE).absolute()
        return f"{program()} vm" if is_default else f"{program()} vm --state {shlex.quote(str(self.state))}"


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


def ensure_external_network(api: ApiClient) -> str:
    """Create an external network unless there is one; returns its name. Floating IPs are reachable from this machine."""
    found = api.request("GET", "/v2.0/networks?router:external=true&fields=name&sort_key=name")["networks"]
    if found:
        return str(found[0]["name"])
    network = api.create(
        "network",
        **{
            "name": PUBLIC,
            "router:external": True,
            "provider:network_type": "flat",
            "provider:physical_network": EXTERNAL_NETWORK,
        },
    )
    api.create(
        "subnet",
        name=f"{PUBLIC}-v4",
        network_id=network["id"],
        ip_version=4,
        cidr=EXTERNAL_CIDR,
        gateway_ip=EXTERNAL_GATEWAY,
        enable_dhcp=False,
    )
    return PUBLIC


def program() -> str:
    """How to call `neutrino` from a shell."""
    return "neutrino" if shutil.which("neutrino") else shlex.quote(str(Path(sys.executable).with_name("neutrino")))


def client() -> tuple[str, str]:
    """How to call the openstack client, and a hint if it is not installed."""
    if shutil.which("openstack"):
        return "openstack", ""
    own = Path(sys.executable).with_name("openstack")  # in the virtual environment of this command
    if own.exists():
        return shlex.quote(str(own)), ""
    return "openstack", NO_CLIENT
