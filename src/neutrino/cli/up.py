"""`neutrino up`: the service on this machine, with defaults that need no other, until Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

CONFIG = """\
# Written by `neutrino up`. Options of your own go into a file given with --config-file.
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
    network_endpoint_override: http://127.0.0.1:{port}
    auth:
      endpoint: http://127.0.0.1:{port}
"""

NEXT = """\
neutrino serves the Networking API v2.0 on http://127.0.0.1:{port} (no authentication, this machine only).
Its files are in {state}. In another terminal:

  export OS_CLIENT_CONFIG_FILE={clouds} OS_CLOUD=neutrino
  openstack network create blue
  openstack subnet create blue-v4 --network blue --subnet-range 10.0.0.0/24
  openstack port create --network blue vm1
  openstack port list

Ctrl-C ends it.
"""


def up(state: str, port: int, config_files: Sequence[str]) -> int:
    from neutrino.cli.server import serve

    directory = Path(state).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "neutrino.conf"
    configuration.write_text(CONFIG.format(port=port, state=directory))
    clouds = directory / "clouds.yaml"
    clouds.write_text(CLOUDS.format(port=port))
    print(NEXT.format(port=port, state=_short(directory), clouds=_short(clouds)), flush=True)
    return serve([str(configuration), *config_files])


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
