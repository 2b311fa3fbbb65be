"""`neutrino lab status`: the state of a lab's server, hosts and instances, as tables."""

from collections.abc import Sequence

from neutrino.lab.api_client import ApiError
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.lab import SERVER, Lab
from neutrino.lab.settings import underlay_address

HOST_COLUMNS = ("HOST", "UNDERLAY", "AGENT", "PROCESS", "OPEN VSWITCH", "VMS")
VM_COLUMNS = ("VM", "HOST", "PORT", "ADDRESSES", "STATUS")


def read_status(lab: Lab) -> tuple[str, bool]:
    """The text, and whether the API responds and all processes of all hosts run."""
    responds = lab.api.responds()
    agents = lab.agents() if responds else {}
    healthy = responds
    hosts = []
    for host in lab.hosts:
        alive = bool(agents.get(host, {}).get("alive"))
        pids = (lab.agent_pid(host), *_switch_pids(lab, host))
        healthy = healthy and alive and None not in pids
        agent, switch, database = (str(pid or "none") for pid in pids)
        underlay = underlay_address(host, lab.settings.underlay_ip_version)
        vms = str(sum(vm.host == host for vm in lab.vms.all()))
        hosts.append((host, underlay, "alive" if alive else "not alive", agent, f"{switch}, {database}", vms))
    server = f"{'responds' if responds else 'does not respond'}, server process {lab.processes.pid(SERVER) or 'none'}"
    lines = [f"API {lab.settings.url} {server}, files in {lab.paths.state}", "", *_table(HOST_COLUMNS, hosts)]
    if vms_shown := [(vm.name, vm.host, vm.port_id, *_port(lab, vm.port_id, responds)) for vm in lab.vms.all()]:
        lines += ["", *_table(VM_COLUMNS, vms_shown)]
    return "\n".join(lines), healthy


def _switch_pids(lab: Lab, host: str) -> tuple[int | None, int | None]:
    try:
        switch = lab.ovs(host)
        return switch.pid(SWITCH), switch.pid(DATABASE)
    except LabError:  # the host's namespaces are gone
        return None, None


def _port(lab: Lab, port_id: str, responds: bool) -> tuple[str, str]:
    """Addresses and status."""
    if not responds:
        return "-", "unknown"
    try:
        port = lab.api.show("port", port_id)
    except ApiError:
        return "-", "port deleted"
    return ",".join(fixed["ip_address"] for fixed in port["fixed_ips"]) or "-", port["status"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
