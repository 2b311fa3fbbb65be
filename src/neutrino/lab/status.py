"""`neutrino lab status`: the state of a lab's server, hosts and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neutrino.lab.api_client import ApiError, Object
from neutrino.lab.errors import LabError
from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.lab.lab import SERVER, Lab
from neutrino.lab.settings import underlay_address


@dataclass(frozen=True)
class HostStatus:
    name: str
    underlay: str
    agent_pid: int | None
    agent_alive: bool  # as the API shows it
    switch_pid: int | None
    database_pid: int | None
    vms: int

    @property
    def is_healthy(self) -> bool:
        return self.agent_alive and None not in (self.agent_pid, self.switch_pid, self.database_pid)


@dataclass(frozen=True)
class VmStatus:
    name: str
    host: str
    port_id: str
    addresses: tuple[str, ...]
    status: str


@dataclass(frozen=True)
class LabStatus:
    state: str
    url: str
    server_pid: int | None
    api_responds: bool
    hosts: tuple[HostStatus, ...]
    vms: tuple[VmStatus, ...]

    @property
    def is_healthy(self) -> bool:
        return self.api_responds and all(host.is_healthy for host in self.hosts)


def read_status(lab: Lab) -> LabStatus:
    responds = lab.api.responds()
    agents = lab.agents() if responds else {}
    return LabStatus(
        state=str(lab.paths.state),
        url=lab.settings.url,
        server_pid=lab.processes.pid(SERVER),
        api_responds=responds,
        hosts=tuple(_read_host(lab, host, agents.get(host)) for host in lab.hosts),
        vms=tuple(_read_vms(lab, responds)),
    )


def _read_host(lab: Lab, host: str, agent: Object | None) -> HostStatus:
    try:
        switch = lab.ovs(host)
        pids = switch.pid(SWITCH), switch.pid(DATABASE)
    except LabError:  # the host's namespaces are gone
        pids = None, None
    return HostStatus(
        name=host,
        underlay=underlay_address(host, lab.settings.underlay_ip_version),
        agent_pid=lab.agent_pid(host),
        agent_alive=bool(agent and agent["alive"]),
        switch_pid=pids[0],
        database_pid=pids[1],
        vms=sum(vm.host == host for vm in lab.vms.all()),
    )


def _read_vms(lab: Lab, responds: bool) -> list[VmStatus]:
    found = []
    for vm in lab.vms.all():
        addresses, status = (), "unknown"
        if responds:
            try:
                port = lab.api.show("port", vm.port_id)
                addresses, status = tuple(fixed["ip_address"] for fixed in port["fixed_ips"]), port["status"]
            except ApiError:
                status = "port deleted"
        found.append(VmStatus(vm.name, vm.host, vm.port_id, addresses, status))
    return found


def render_status(status: LabStatus) -> str:
    responds = "responds" if status.api_responds else "does not respond"
    lines = [f"API {status.url} {responds}, server process {_pid(status.server_pid)}, files in {status.state}", ""]
    rows = [
        (
            host.name,
            host.underlay,
            "alive" if host.agent_alive else "not alive",
            _pid(host.agent_pid),
            f"{_pid(host.switch_pid)}, {_pid(host.database_pid)}",
            str(host.vms),
        )
        for host in status.hosts
    ]
    lines += _table(("HOST", "UNDERLAY", "AGENT", "PROCESS", "OPEN VSWITCH", "VMS"), rows)
    if status.vms:
        vms = [(vm.name, vm.host, vm.port_id, ",".join(vm.addresses) or "-", vm.status) for vm in status.vms]
        lines += ["", *_table(("VM", "HOST", "PORT", "ADDRESSES", "STATUS"), vms)]
    return "\n".join(lines)


def _pid(pid: int | None) -> str:
    return "none" if pid is None else str(pid)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
