"""`neutrino up` once the API answers: the external network, the instances of the last run, and the next steps in print."""

from __future__ import annotations

import http.client
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from neutrino.cli.instances import DEFAULT_STATE, Running, machine_instances
from neutrino.cli.machine import EXTERNAL_BRIDGE, EXTERNAL_CIDR, EXTERNAL_GATEWAY, EXTERNAL_NETWORK
from neutrino.cli.switch import OwnSwitch
from neutrino.lab.api import Api, Refused
from neutrino.lab.errors import LabError
from neutrino.lab.plug import BRIDGE as INTEGRATION_BRIDGE
from neutrino.lab.vms import Vm

MOST_SECONDS = 60.0
AGENT_SECONDS = 30.0
STEP_SECONDS = 0.05
PUBLIC = "public"

OPEN = """
The Networking API v2.0 is on {url}: no authentication, this machine only.
{dataplane}
In another terminal:

  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=neutrino
  {openstack} network create blue
  {openstack} subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24{pool}
{instances}{hint}
Ctrl-C ends it and removes what it created on this machine; the next start restores it.
"""
# An address that a command names is outside the pool: no other port gets it by chance.
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
The Networking API v2.0 is on {url}: callers authenticate with Keystone, which must list it as the network endpoint.
{dataplane}
Ctrl-C ends it and removes what it created on this machine; the next start restores it.
"""
WIRED = "Networks are wired here by Open vSwitch ({datapath}); logs are in {log}."
EXTERNAL = f"\nThe external network {PUBLIC} ({EXTERNAL_CIDR}) is on {EXTERNAL_BRIDGE}."
CREATE_EXTERNAL = f"""
The external bridge is {EXTERNAL_BRIDGE}; an administrator creates its network with
  openstack network create {PUBLIC} --external \\
    --provider-network-type flat --provider-physical-network {EXTERNAL_NETWORK}"""
NOT_WIRED = "Networks are not wired on this machine; logs are in {log}."
NO_CLIENT = "\nThere is no openstack command yet: pip install python-openstackclient\n"
DATAPATHS = {"system": "kernel datapath", "netdev": "userspace datapath"}


@dataclass(frozen=True)
class Ready:
    state: Path
    running: Running
    datapath: str  # empty where networks are not wired

    def tell(self) -> None:
        """In a thread of its own: wait until everything serves, then print the next steps."""
        url = self.running.url
        if not _until(lambda: _answers(url), MOST_SECONDS):
            _complain(f"{url} does not answer after {MOST_SECONDS:.0f} s; see {self.state / 'log'}")
            return
        external = ""
        if self.datapath and self.running.is_open:
            try:
                external = self._prepare()
            except LabError as error:
                _complain(str(error))
        print(self._text(external), flush=True)

    def _prepare(self) -> str:
        """The external network and the instances of the last run; the network's name."""
        api = Api(self.running.url)
        name = have_external_network(api)
        if not _until(self._agent_has_bridges, AGENT_SECONDS):
            _complain(f"the agent does not make its bridges; see {self.state / 'log' / 'agent.log'}")
            return name
        instances = machine_instances(self.state, self.running)
        for vm in instances.vms.all():
            try:
                if not _port_exists(api, vm):
                    instances.vms.remove(vm.name)
                    continue
                instances.unplug([vm.name], vm.host)  # what a killed run left
                instances.plug([vm.name], vm.host)
                instances.wait_for_port(vm)
                instances.address(vm.name)
            except LabError as error:
                _complain(f"VM {vm.name} is not restored: {error}")
        return name

    def _agent_has_bridges(self) -> bool:
        """The integration bridge is new in each run. What the API says of the agent may still be of the last one."""
        return INTEGRATION_BRIDGE in OwnSwitch(self.state / "ovs", self.datapath).bridges()

    def _text(self, external: str) -> str:
        log = self.state / "log"
        dataplane = NOT_WIRED.format(log=log)
        if self.datapath:
            dataplane = WIRED.format(datapath=DATAPATHS[self.datapath], log=log)
            if external:
                dataplane += EXTERNAL.replace(PUBLIC, external)
            elif not self.running.is_open:
                dataplane += CREATE_EXTERNAL
        if not self.running.is_open:
            return KEYSTONE.format(url=self.running.url, dataplane=dataplane)
        openstack, hint = client()
        clouds = shlex.quote(str(self.state / "clouds.yaml"))
        instances = INSTANCES.format(vm=self._vm_command()) if self.datapath else PORTS.format(openstack=openstack)
        return OPEN.format(
            url=self.running.url,
            dataplane=dataplane,
            clouds=clouds,
            openstack=openstack,
            pool=POOL if self.datapath else "",
            instances=instances,
            hint=hint,
        )

    def _vm_command(self) -> str:
        """How `neutrino vm` is called from another terminal in this directory."""
        beside = Path(sys.executable).with_name("neutrino")
        program = "neutrino" if shutil.which("neutrino") else shlex.quote(str(beside))
        is_default = self.state == Path(DEFAULT_STATE).absolute()
        return f"{program} vm" if is_default else f"{program} vm --state {shlex.quote(str(self.state))}"


def have_external_network(api: Api) -> str:
    """A network to the world outside, once: routers have a way out, and floating IPs are reached from this machine."""
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


def client() -> tuple[str, str]:
    """How to call the client here, and what to do where there is none."""
    if shutil.which("openstack"):
        return "openstack", ""
    beside = Path(sys.executable).with_name("openstack")
    if beside.exists():
        return shlex.quote(str(beside)), ""
    return "openstack", NO_CLIENT


def _port_exists(api: Api, vm: Vm) -> bool:
    try:
        api.show("port", vm.port_id)
    except Refused as error:
        if error.status == http.HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def _until(ready: Callable[[], bool], seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > give_up:
            return False
        time.sleep(STEP_SECONDS)
    return True


def _answers(url: str) -> bool:
    return Api(url).answers()


def _complain(text: str) -> None:
    print(f"neutrino: {text}", file=sys.stderr, flush=True)
