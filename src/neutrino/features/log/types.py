"""The types of resources whose packets hosts log. As resource types of Neutron's API."""

from typing import Final

SECURITY_GROUP: Final = "security_group"
FIREWALL_GROUP: Final = "firewall_group"
