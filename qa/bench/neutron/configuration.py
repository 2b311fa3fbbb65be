"""Neutron's configuration: a usual deployment with ML2 and Open vSwitch, without authentication and without quotas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WORKERS = 2  # API workers, as many as our server has here
# Beside those that Neutron always loads: tags, timestamps, revisions, flavors, auto-allocation, IP availability.
SERVICE_PLUGINS = ("router", "qos", "trunk", "segments", "port_forwarding")
_UNLIMITED = ("network", "subnet", "port", "security_group", "security_group_rule", "router", "floatingip")
_NOAUTH, _KEYSTONE = "noauth = ", "keystone = "

Sections = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Place:
    """What the files depend on. `directory` is private, as passwords are in the URLs."""

    directory: Path
    port: int
    database: str
    broker: str

    @property
    def neutron_conf(self) -> Path:
        return self.directory / "neutron.conf"

    @property
    def ml2_conf(self) -> Path:
        return self.directory / "ml2_conf.ini"

    @property
    def paste(self) -> Path:
        return self.directory / "api-paste.ini"

    @property
    def uwsgi(self) -> Path:
        return self.directory / "uwsgi.ini"


def neutron_conf(place: Place) -> str:
    return _ini(
        {
            "DEFAULT": {
                "auth_strategy": "noauth",
                "core_plugin": "ml2",
                "service_plugins": ",".join(SERVICE_PLUGINS),
                "state_path": place.directory,
                "api_paste_config": place.paste,
                "transport_url": _escaped(_transport(place.broker)),
                # There is no Nova to tell: Neutron would log a failure for every port.
                "notify_nova_on_port_status_changes": "false",
                "notify_nova_on_port_data_changes": "false",
            },
            "database": {"connection": _escaped(place.database)},
            "oslo_concurrency": {"lock_path": place.directory / "lock"},
            "quotas": {f"quota_{name}": -1 for name in _UNLIMITED},
        }
    )


def ml2_conf() -> str:
    return _ini(
        {
            "ml2": {
                "type_drivers": "flat,vlan,vxlan",
                "project_network_types": "vxlan,vlan",
                "mechanism_drivers": "openvswitch,l2population",
                "extension_drivers": "port_security,qos",
            },
            "ml2_type_flat": {"flat_networks": "public"},
            "ml2_type_vlan": {"network_vlan_ranges": "physical:100:1000"},
            "ml2_type_vxlan": {"vni_ranges": "1:20000"},
            "securitygroup": {"firewall_driver": "openvswitch"},
        }
    )


def uwsgi(place: Place) -> str:
    """As Neutron's administrator guide has it, with a TCP port in place of a socket for Apache."""
    return _ini(
        {
            "uwsgi": {
                "http-socket": f"127.0.0.1:{place.port}",
                "module": "neutron.wsgi.api:application",
                "master": "true",
                "processes": WORKERS,
                "start-time": "%t",
                "lazy-apps": "true",
                "enable-threads": "true",
                "thunder-lock": "true",
                "buffer-size": 65535,
                "add-header": "Connection: close",
                "hook-master-start": "unix_signal:15 gracefully_kill_them_all",
                "worker-reload-mercy": 10,
                "die-on-term": "true",
                "no-orphans": "true",
            }
        }
    )


def paste(shipped: str) -> str:
    """Neutron's api-paste.ini, where noauth takes project and roles from the headers, as our server's does.

    Its own noauth makes every request that of an administrator without a project. The filter that reads the headers is
    Neutron's; of what a deployment with Keystone has, the validation of the token is missing alone.
    """
    lines = shipped.splitlines()
    start = lines.index("[composite:neutronapi_v2_0]")
    pipeline = next(line.removeprefix(_KEYSTONE) for line in lines[start:] if line.startswith(_KEYSTONE))
    noauth = next(number for number, line in enumerate(lines) if number > start and line.startswith(_NOAUTH))
    lines[noauth] = _NOAUTH + " ".join(name for name in pipeline.split() if name != "authtoken")
    return "\n".join(lines) + "\n"


def _transport(broker: str) -> str:
    """oslo.messaging's name of an amqp URL."""
    return broker.replace("amqp://", "rabbit://", 1).removesuffix("/")


def _escaped(url: str) -> str:
    """oslo.config would expand a dollar sign as a reference to another option."""
    return url.replace("$", "$$")


def _ini(sections: Sections) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
        for name, values in sections.items()
    )
