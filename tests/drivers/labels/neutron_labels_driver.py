"""An extension driver as it is written for Neutron, without tables: nothing of this project is imported.

Ports have a label, which may not be that of another port on their network; without one they get the colour of the network.
"""

import threading

import neutron_labels_extensions
from neutron.api import extensions
from neutron_lib import exceptions
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api


class LabelInUse(exceptions.Conflict):
    message = "Label %(label)s is that of port %(port)s."


class Labels(api.ExtensionDriver):
    def initialize(self):
        extensions.append_api_extensions_path(neutron_labels_extensions.__path__)

    @property
    def extension_alias(self):
        return "labels"

    def process_create_port(self, plugin_context, data, result):
        label = data["label"]
        if not label:
            label = directory.get_plugin().get_network(plugin_context, data["network_id"])["colour"]
        self._check(plugin_context, label, data)
        result["label"] = label

    def process_update_port(self, plugin_context, data, result):
        if "label" in data:
            self._check(plugin_context, data["label"], result)
            result["label"] = data["label"]

    def extend_port_dict(self, session, base_model, result):
        result["label_text"] = f"{result['label']} of {base_model.network_id}"
        if result["label"] == "model":
            result["label_text"] = base_model.security_group_rules
        if result["label"] == "object":
            result["label_text"] = threading.Event()

    def _check(self, context, label, port):
        if label == "unlawful":
            raise exceptions.InvalidInput(error_message="there is no such label")
        if label == "raise":
            raise RuntimeError("labels are out")
        if label == "hang":
            threading.Event().wait(60)
        if label == "session":
            context.session.query("labels")
        filters = {"network_id": [port["network_id"]]}
        for other in directory.get_plugin().get_ports(context, filters):
            if other.get("label") == label and label not in ("grey", "red", "blue") and other["id"] != port["id"]:
                raise LabelInUse(label=label, port=other["id"])


class Broken(api.ExtensionDriver):
    def initialize(self):
        raise RuntimeError("no labels today")


class Known(api.ExtensionDriver):
    """Only an alias that is here already, and a check."""

    def initialize(self):
        pass

    @property
    def extension_alias(self):
        return "port-security"

    def process_create_network(self, plugin_context, data, result):
        if data["name"] == "nobody":
            raise exceptions.NotAuthorized()
