"""What Neutron's agents have configured on a lab host, as text: recorded for tests of the conversion."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from neutrino.lab.hosts import processes
from neutrino.lab.lab import Lab
from neutrino.model.objects import Object
from qa.bench.neutron.processes import VENV
from qa.takeover.lab.neutron_lab import NeutronLab

STATE, PROGRAMS = "/STATE", "/VENV"  # in place of the directories of this machine
_IN_NAMESPACE = {
    "addresses.json": "ip -d -j address",
    "routes.txt": "ip -4 route show table all",
    "routes6.txt": "ip -6 route show table all",
    "rules.txt": "ip -4 rule",
    "neighbours.txt": "ip neigh show nud permanent",
    "iptables.txt": "iptables-save",
    "ip6tables.txt": "ip6tables-save",
}
_SKIPPED = ("agent.conf", "lock")  # the file has a password
_LARGEST = 100_000


_COLLECTIONS = (
    *("networks", "subnets", "ports", "routers", "floatingips", "security-groups", "trunks", "agents", "subnetpools"),
    *("address-scopes", "qos/policies"),
)


def write(neutron: NeutronLab, directory: Path) -> None:
    """Write a directory for each host, and a file with the objects of the API."""
    shutil.rmtree(directory, ignore_errors=True)
    lab = neutron.lab
    for host in lab.hosts:
        for name, text in dump(lab, host, neutron.directory(host)).items():
            if not text:
                continue
            path = directory / host / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_placeless(lab, text), encoding="utf-8")
    objects: Object = {}
    for collection in _COLLECTIONS:
        objects |= neutron.api.request("GET", f"/v2.0/{collection}")
    text = _placeless(lab, json.dumps(objects, indent=1, sort_keys=True) + "\n")
    (directory / "objects.json").write_text(text, encoding="utf-8")


def dump(lab: Lab, host: str, state_path: Path) -> Mapping[str, str]:
    """Texts by the names of files."""

    def run(command: str) -> str:
        return lab.run(host, command.split()).stdout

    files = {"ovsdb.json": run("ovsdb-client dump --format=json Open_vSwitch")}
    for bridge in run("ovs-vsctl list-br").split():
        files[f"flows/{bridge}.txt"] = run(f"ovs-ofctl -O OpenFlow14 dump-flows {bridge} --no-stats")
    files |= {f"host/{name}": run(command) for name, command in _IN_NAMESPACE.items()}
    for line in run("ip netns list").splitlines():
        namespace = line.split()[0]
        if not namespace.startswith("vm-"):
            for name, command in _IN_NAMESPACE.items():
                files[f"namespaces/{namespace}/{name}"] = run(f"ip netns exec {namespace} {command}")
    files["processes.json"] = json.dumps(list(_daemons(lab, host)), indent=1) + "\n"
    files |= dict(_state_files(state_path))
    return files


def _daemons(lab: Lab, host: str) -> Iterator[Mapping[str, object]]:
    """Processes of the host, without the switch and the programs of instances: arguments, and the named namespace."""
    holder = lab.holder(host)
    own = processes.read_namespace(holder, "mnt")
    names = {f"net:[{path.stat().st_ino}]": path.name for path in Path(f"/proc/{holder}/root/run/netns").iterdir()}
    for pid in processes.read_pids():
        namespace = names.get(processes.read_namespace(pid, "net"), "")
        if processes.read_namespace(pid, "mnt") != own or namespace.startswith("vm-") or pid == holder:
            continue
        argv = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
        if argv != [""] and not argv[0].startswith("ovs") and "neutrino.lab" not in " ".join(argv):
            yield {"pid": pid, "namespace": namespace, "argv": argv}


def _state_files(state_path: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(state_path.rglob("*")):
        name = path.relative_to(state_path)
        if (
            path.is_file()
            and name.parts[0] not in _SKIPPED
            and path.suffix != ".log"
            and path.stat().st_size < _LARGEST
        ):
            yield f"state/{name}", path.read_text(errors="replace")


def _placeless(lab: Lab, text: str) -> str:
    for place, placeholder in ((lab.paths.state, STATE), (VENV.resolve(), PROGRAMS), (VENV, PROGRAMS)):
        text = text.replace(str(place), placeholder)
    return text
