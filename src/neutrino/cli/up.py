"""`neutrino up`: the service on this machine, with defaults that need no other, until Ctrl-C."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg

from neutrino import private
from neutrino.cli.beside import Work

CONFIG = """\
# Written by the neutrino command. Options of your own go into a file given with --config-file.
[DEFAULT]
bind_host = 127.0.0.1
bind_port = {port}
auth_strategy = noauth
state_path = {state}

[ml2]
tenant_network_types = vxlan

[ml2_type_vlan]
network_vlan_ranges = physnet1:100:199

# One person tries this out on one machine: nothing here is scarce.
[quotas]
quota_network = -1
quota_subnet = -1
quota_port = -1
quota_security_group = -1
quota_security_group_rule = -1
quota_rbac_policy = -1
quota_router = -1
quota_floatingip = -1
"""

CLOUDS = """\
clouds:
  neutrino:
    auth_type: none
    network_endpoint_override: {url}
    auth:
      endpoint: {url}
"""

NEXT = """
neutrino serves the Networking API v2.0 on {url}: no authentication, this machine only.
In another terminal:

  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=neutrino
  {openstack} network create blue
  {openstack} subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24
  {openstack} port create --network blue vm1
  {openstack} port list
{hint}
Ctrl-C ends it; the next start finds everything again.
"""
NO_CLIENT = "\nThere is no openstack command yet: pip install python-openstackclient\n"
MOST_SECONDS = 60.0


ROLES = ("l2", "dhcp", "l3", "metadata")


def up(
    state: str, port: int, config_files: Sequence[str], *, dataplane: bool = True, agent_files: Sequence[str] = ()
) -> int:
    from neutrino.cli import machine
    from neutrino.cli.server import serve

    directory = Path(state).absolute()
    configuration, clouds = directory / "neutrino.conf", directory / "clouds.yaml"
    try:
        private.own_directory(directory, passable=True)
        for path in (configuration, clouds):
            private.make_file(path)
        configuration.write_text(CONFIG.format(port=port, state=directory))
    except OSError as error:
        print(f"neutrino: cannot keep files in {directory}: {error.strerror}", file=sys.stderr)
        return 1

    def starting(conf: cfg.ConfigOpts) -> None:
        url = f"http://{f'[{conf.bind_host}]' if ':' in conf.bind_host else conf.bind_host}:{conf.bind_port}"
        clouds.write_text(CLOUDS.format(url=url))
        print(f"neutrino starts on {url}; its files are in {directory}", flush=True)
        if dataplane:
            wire()
        arguments = (url, clouds, bool(further))
        threading.Thread(target=_tell_when_ready, args=arguments, daemon=True, name="ready").start()

    def wire() -> None:
        try:
            machine.check()
            stack.enter_context(here.running_switch())
        except machine.NoDataplane as error:
            print(f"neutrino: networks are not wired on this machine: {error}", file=sys.stderr, flush=True)
            return
        stack.callback(here.end_daemons)
        own = [str(here.write_agent_configuration()), *agent_files]
        further["agent"] = lambda: here.run_agent(files, own)

    files = [str(configuration), *config_files]
    further: dict[str, Work] = {}
    here = machine.Machine(directory, os.uname().nodename, ROLES)
    with contextlib.ExitStack() as stack:
        return serve(files, starting, further)


def _have_external_network(url: str) -> None:
    """A network to the world outside, once: routers have a way out, and floating IPs are reached from this machine."""
    from neutrino.cli.machine import EXTERNAL_CIDR, EXTERNAL_GATEWAY, EXTERNAL_NETWORK

    address = url.removeprefix("http://")
    if _ask(address, "GET", "/v2.0/networks?router:external=true&fields=id")["networks"]:
        return
    network = {
        "name": "public",
        "router:external": True,
        "provider:network_type": "flat",
        "provider:physical_network": EXTERNAL_NETWORK,
    }
    made = _ask(address, "POST", "/v2.0/networks", {"network": network})["network"]
    subnet = {
        "name": "public-v4",
        "network_id": made["id"],
        "ip_version": 4,
        "cidr": EXTERNAL_CIDR,
        "gateway_ip": EXTERNAL_GATEWAY,
        "enable_dhcp": False,
    }
    _ask(address, "POST", "/v2.0/subnets", {"subnet": subnet})


def _ask(address: str, method: str, path: str, body: object = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        text = json.dumps(body) if body is not None else None
        connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        data: dict[str, Any] = json.loads(answer.read())
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise OSError(f"{method} {path}: {data}")
        return data
    finally:
        connection.close()


def _tell_when_ready(url: str, clouds: Path, wired: bool) -> None:
    give_up = time.monotonic() + MOST_SECONDS
    while not _answers(url):
        if time.monotonic() > give_up:
            print(f"neutrino: {url} does not answer after {MOST_SECONDS:.0f} s", file=sys.stderr, flush=True)
            return
        time.sleep(0.05)
    if wired:
        try:
            _have_external_network(url)
        except (OSError, http.client.HTTPException, KeyError, ValueError) as error:
            print(f"neutrino: the external network could not be made: {error}", file=sys.stderr, flush=True)
    openstack, hint = client()
    print(NEXT.format(url=url, clouds=shlex.quote(str(clouds)), openstack=openstack, hint=hint), flush=True)


def client() -> tuple[str, str]:
    """How to call the client here, and what to do where there is none."""
    if shutil.which("openstack"):
        return "openstack", ""
    beside = Path(sys.executable).with_name("openstack")
    if beside.exists():
        return shlex.quote(str(beside)), ""
    return "openstack", NO_CLIENT


def _answers(url: str) -> bool:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
