"""A device driver of networking-baremetal that writes to a file what a NETCONF device would be sent."""

import json
import os

from networking_baremetal.drivers import base
from oslo_config import cfg

OPTIONS = [cfg.StrOpt("path")]


class Recorder(base.BaseDeviceDriver):
    SUPPORTED_BOND_MODES = frozenset()

    def load_config(self):
        cfg.CONF.register_opts(OPTIONS, group=self.device)

    def validate(self):
        pass

    def _log(self, method, **line):
        with open(cfg.CONF[self.device].path, "a") as file:
            file.write(json.dumps({"method": method, "pid": os.getpid(), **line}) + "\n")

    def create_network(self, context):
        self._log("create_network", vlan=context.current["provider:segmentation_id"])

    def update_network(self, context):
        self._log("update_network", vlan=context.current["provider:segmentation_id"])

    def delete_network(self, context):
        self._log("delete_network", vlan=context.current["provider:segmentation_id"])

    def create_port(self, context, segment, links):
        self._log("create_port", vlan=segment["segmentation_id"], ports=[link["port_id"] for link in links])

    def update_port(self, context, links):
        self._log("update_port", ports=[link["port_id"] for link in links])

    def delete_port(self, context, links, current=True):
        segment = context.bottom_bound_segment if current else context.original_bottom_bound_segment
        self._log("delete_port", vlan=segment["segmentation_id"], ports=[link["port_id"] for link in links])
