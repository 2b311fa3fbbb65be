"""The API extension of the driver: what networks and ports get."""

from neutron_lib.api import extensions

LABEL = {
    "allow_post": True,
    "allow_put": True,
    "is_visible": True,
    "default": "",
    "convert_to": lambda value: value.lower() if isinstance(value, str) else value,
    "validate": {"type:string": 16},
}
COLOUR = {
    "allow_post": True,
    "allow_put": False,
    "is_visible": True,
    "default": "grey",
    "enforce_policy": True,
    "validate": {"type:values": ["grey", "red", "blue"]},
}
SIZE = {"allow_post": True, "allow_put": True, "is_visible": True, "default": "0", "convert_to": int}
COMPUTED = {"allow_post": False, "allow_put": False, "is_visible": True}


class Labels(extensions.ExtensionDescriptor):
    @classmethod
    def get_name(cls):
        return "Labels"

    @classmethod
    def get_alias(cls):
        return "labels"

    @classmethod
    def get_description(cls):
        return "Labels of ports, colours of networks."

    @classmethod
    def get_updated(cls):
        return "2026-01-01T00:00:00-00:00"

    def get_extended_resources(self, version):
        return {
            "ports": {"label": LABEL, "label_text": COMPUTED},
            "networks": {"colour": COLOUR, "size": SIZE},
        }
