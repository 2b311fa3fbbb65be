"""What an agent has written below its state directory, and which of it names what else it has on the host."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from oslo_config import cfg

from neutrino.agent.bgp import build as bgp
from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.dhcp.network import NAMESPACE_PREFIX
from neutrino.agent.l3 import fip, routers
from neutrino.agent.l3.names import fip_namespace, router_namespace, snat_namespace
from neutrino.agent.l3.services import meters
from neutrino.agent.l3.services.bfd import supervision as bfd
from neutrino.agent.l3.services.charon import tunnels
from neutrino.agent.metadata.build import MONITOR_FILE
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.agent.sriov import record as sriov
from neutrino.agent.takeover import phase
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import ADOPTED
from neutrino.model.roles import BGP, DHCP, L3, METADATA, SRIOV

_PID_FILE = "keepalived.pid"  # in the directory of an HA router
_OF_AGENT = ("feed.json", phase.DIRECTORY)
_OF_METADATA = ("metadata.pid", "metadata.pid.loaded")


@dataclasses.dataclass(frozen=True)
class Records:
    """Blocking. Directories that options name may be Neutron's: only what is of a recorded router or network is ours."""

    conf: cfg.ConfigOpts

    @property
    def state(self) -> Path:
        return Path(self.conf.state_path)

    def networks(self) -> frozenset[str]:
        return self._dnsmasq.networks()

    def routers(self) -> list[str]:
        return sorted(list_directory(self.state / routers.RECORDS))

    @property
    def _dnsmasq(self) -> Dnsmasq:
        return Dnsmasq(self.conf.dhcp_confs, Namespaces())

    def namespaces(self) -> frozenset[str]:
        """Namespaces that the agent has created or was about to create."""
        return frozenset(self._namespaces())

    def _namespaces(self) -> Iterator[str]:
        yield from (f"{NAMESPACE_PREFIX}{network_id}" for network_id in self.networks())
        for router_id in self.routers():
            yield router_namespace(router_id)
            yield snat_namespace(router_id)
        yield from map(fip_namespace, list_directory(self.state / fip.RECORDS))

    def adopted(self) -> Iterator[tuple[str, str]]:
        """Daemons of Neutron's agents that this agent has adopted, which carry no mark: their names and pid files."""
        for router_id in self.routers():
            pid_file = Path(self.conf.ha_confs_path, router_id, _PID_FILE)
            if Path(f"{pid_file}.{ADOPTED}").exists():
                yield f"keepalived {router_id}", str(pid_file)

    def files(self) -> Iterator[tuple[str, Path]]:
        """What is there, with the role that it is of; empty: of the agent.

        Logs stay, as does the credential: `neutrino host remove` makes it void. The lock and the format are removed at the
        end, with the lock held.
        """
        for role, path in (*self._of_roles(), *(("", self.state / name) for name in _OF_AGENT)):
            if path.exists() or path.is_symlink():
                yield role, path

    def _of_roles(self) -> Iterator[tuple[str, Path]]:
        conf, state = self.conf, self.state
        yield from ((DHCP, Path(conf.dhcp_confs, network_id)) for network_id in sorted(self.networks()))
        for router_id in self.routers():
            yield L3, Path(conf.ha_confs_path, router_id)
            yield L3, Path(conf.pd_confs, router_id)
            yield from ((L3, path) for path in sorted(Path(conf.ra_confs).glob(f"{router_id}.radvd.*")))
        names = (routers.RECORDS, fip.RECORDS, fip.LINKS_FILE, bfd.DIRECTORY, tunnels.DIRECTORY, meters.FILE)
        yield from ((L3, state / name) for name in names)
        yield BGP, state / bgp.DIRECTORY
        yield SRIOV, state / sriov.FILE
        yield METADATA, Path(conf.metadata_proxy_socket)
        if conf.monitor_file_dir:
            yield METADATA, Path(conf.monitor_file_dir) / MONITOR_FILE
        yield from ((METADATA, state / name) for name in _OF_METADATA)
