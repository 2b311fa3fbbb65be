"""Nova: API, metadata service, conductor and scheduler on the controller; nova-compute on each host."""

from __future__ import annotations

import shutil
from pathlib import Path

from qa.kernel.guest import processor
from qa.openstack.cloud import ADDRESS, METADATA_SECRET, PORTS, Cloud, ini
from qa.openstack.hosts import management_address

USER = "nova"
VIF_TIMEOUT = 300
COMPUTE_PROGRAM = Path(__file__).with_name("compute_program.py")
# Emulated processors: machine type, CPU model.
MACHINES = {"aarch64": ("virt", "cortex-a57"), "x86_64": ("q35", "qemu64")}
PRIVSEP = ("vif_plug_ovs_privileged", "vif_plug_linux_bridge_privileged", "nova_sys_admin", "privsep_osbrick")
COMPUTE_SECONDS = 180.0
# Nova's own threads instead of eventlet's, which would replace those of gunicorn.
WSGI = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"}
# Nova copies and removes files on the other host of a resize by ssh and scp; the hosts are namespaces here.
SSH = """#!/bin/sh
# ssh [-o OPTION] HOST COMMAND…: run the command on a host of the cloud
while [ "$1" = -o ]; do shift 2; done
case $1 in
{cases}
*) echo "ssh: unknown host $1" >&2; exit 255 ;;
esac
shift
exec nsenter --target="$pid" --net --mount -- sh -c "$*"
"""
SCP = """#!/bin/sh
# scp [-C] [-r] FILE HOST:FILE: copy a file to another host of the cloud
while case $1 in -*) true ;; *) false ;; esac; do shift; done
exec ssh "${2%%:*}" "cat >'${2#*:}'" <"$1"
"""


def start(cloud: Cloud) -> None:
    cloud.keystone_user(USER)
    cloud.endpoint(USER, "compute", f"http://{ADDRESS}:{PORTS['nova']}/v2.1")
    config = cloud.write("nova/nova.conf", render_controller(cloud))
    shutil.copy(cloud.venv / "etc" / "nova" / "api-paste.ini", config.parent)
    manage: list[str | Path] = [cloud.program("nova-manage"), "--config-file", config]
    cell0 = cloud.database("nova_cell0")
    cloud.run([*manage, "api_db", "sync"])
    cloud.run([*manage, "cell_v2", "map_cell0", "--database_connection", cell0])
    cloud.run([*manage, "cell_v2", "create_cell", "--name", "cell1"])
    cloud.run([*manage, "db", "sync"])
    environment = {**WSGI, "OS_NOVA_CONFIG_DIR": str(config.parent)}
    cloud.wsgi("nova", "nova.wsgi.osapi_compute:application", environment)
    cloud.wsgi("metadata", "nova.wsgi.metadata:application", environment)
    for name in ("conductor", "scheduler"):
        cloud.start(f"nova-{name}", [cloud.program(f"nova-{name}"), "--config-file", config])


def start_computes(cloud: Cloud) -> None:
    write_ssh(cloud)
    for host in cloud.hosts:
        cloud.run(["mount", "--bind", instances_path(cloud, host), instances_path(cloud)], host=host)
        start_compute(cloud, host)
    for host in cloud.hosts:
        wait_for_compute(cloud, host)
    config = cloud.etc / "nova" / "nova.conf"
    cloud.run([cloud.program("nova-manage"), "--config-file", config, "cell_v2", "discover_hosts"])


def start_compute(cloud: Cloud, host: str) -> None:
    config = cloud.write(f"nova-{host}.conf", render_compute(cloud, host))
    path = f"{cloud.state / 'bin'}:{cloud.venv}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    # -P: else this module, in the program's directory, hides the package nova.
    argv: list[str | Path] = [cloud.program("python"), "-P", COMPUTE_PROGRAM, "--config-file", config]
    cloud.start(f"{host}-nova-compute", argv, {"PATH": path}, host=host)


def wait_for_compute(cloud: Cloud, host: str, since: str = "") -> None:
    """Wait until Nova lists the compute service as up; `since`: its last report must be later."""

    def is_up() -> bool:
        found = cloud.connect().compute.services(binary="nova-compute", host=host)
        return any(each.state == "up" and (each.updated_at or "") >= since for each in found)

    process = f"{host}-nova-compute"
    cloud.wait(is_up, f"nova-compute of {host} has not reported", process=process, seconds=COMPUTE_SECONDS)


def instances_path(cloud: Cloud, host: str = "") -> Path:
    """Where Nova keeps instances: the same path on all hosts, and with `host` that host's own directory mounted there."""
    return cloud.directory(host, "instances") if host else cloud.directory("nova", "instances")


def render_controller(cloud: Cloud) -> str:
    own: dict[str, dict[str, object]] = {
        "DEFAULT": {"my_ip": ADDRESS, "state_path": cloud.directory("nova", "controller")},
        "api_database": {"connection": cloud.database("nova_api")},
        "database": {"connection": cloud.database("nova")},
        "oslo_concurrency": {"lock_path": cloud.directory("nova", "controller", "lock")},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 60},
    }
    return _render(cloud, own)


def render_compute(cloud: Cloud, host: str) -> str:
    """Without the databases, which nova-compute refuses."""
    machine, cpu = MACHINES[{"arm64": "aarch64", "amd64": "x86_64"}[processor().debian]]
    architecture = {"virt": "aarch64", "q35": "x86_64"}[machine]
    address = management_address(host)
    own: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "host": host,
            "my_ip": address,
            "state_path": cloud.directory("nova", host),
            "instances_path": instances_path(cloud),
            "compute_driver": "libvirt.LibvirtDriver",
            "vif_plugging_is_fatal": "true",
            "vif_plugging_timeout": VIF_TIMEOUT,
            "force_config_drive": "false",
            "default_ephemeral_format": "raw",
            "resume_guests_state_on_host_boot": "true",
            "shutdown_timeout": 5,  # the guest does not know the power button
            "allow_resize_to_same_host": "true",
            "heal_instance_info_cache_interval": 600,
            "running_deleted_instance_poll_interval": 600,
        },
        "compute": {"live_migration_wait_for_vif_plug": "true"},
        "oslo_concurrency": {"lock_path": cloud.directory("nova", host, "lock")},
        "libvirt": {
            "virt_type": "qemu",
            "cpu_mode": "custom",
            "cpu_models": cpu,
            "images_type": "raw",
            "hw_machine_type": f"{architecture}={machine}",
            "inject_partition": -2,
            "num_pcie_ports": 12,  # room for interfaces that are attached later
            "live_migration_scheme": "tcp",
            "live_migration_inbound_addr": address,
        },
        "workarounds": {
            "skip_cpu_compare_at_startup": "true",
            "skip_cpu_compare_on_dest": "true",
            # A target fetches the kernel as an image; that of x86 may begin as a boot sector, which is no disk to Nova.
            "disable_deep_image_inspection": "true",
        },
    }
    return _render(cloud, own)


def write_ssh(cloud: Cloud) -> None:
    cases = "".join(f"{host} | {management_address(host)}) pid={cloud.lab.holder(host)} ;;\n" for host in cloud.hosts)
    for name, text in {"ssh": SSH.format(cases=cases.rstrip()), "scp": SCP}.items():
        path = cloud.directory("bin") / name
        path.write_text(text)
        path.chmod(0o755)


def _render(cloud: Cloud, own: dict[str, dict[str, object]]) -> str:
    helper = f"{cloud.program('privsep-helper')}"
    common: dict[str, dict[str, object]] = {
        "DEFAULT": {"transport_url": cloud.amqp_url},
        "api": {"auth_strategy": "keystone"},
        "wsgi": {"api_paste_config": cloud.etc / "nova" / "api-paste.ini"},
        "vnc": {"enabled": "false"},
        "glance": {"api_servers": f"http://{ADDRESS}:{PORTS['glance']}"},
        "cache": {"enabled": "false"},
        "os_vif_ovs": {"ovsdb_connection": "tcp:127.0.0.1:6640"},
        **{name: {"helper_command": helper} for name in PRIVSEP},
    }
    merged = {name: {**common.get(name, {}), **own.get(name, {})} for name in {**common, **own}}
    neutron = {"service_metadata_proxy": "true", "metadata_proxy_shared_secret": METADATA_SECRET}
    return (
        ini(merged)
        + cloud.credentials("neutron", USER, **neutron)
        + cloud.authtoken(USER)
        + cloud.credentials("placement", "placement")
        + cloud.credentials("service_user", USER, send_service_user_token="true")
    )
