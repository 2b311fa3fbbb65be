"""The included extension drivers: port security and DNS names of ports."""

from oslo_config import cfg

from neutrino.model.dns_names import address_name
from neutrino.model.objects import Values
from neutrino.server import errors

MAX_NAME = 255  # characters of a fully qualified name


class PortSecurity:
    """Port security: enabled by default, by the network's setting; disabled for ports of services."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass

    def process_create_port(self, values: Values, port: Values, network: Values) -> Values:
        service = port["device_owner"].startswith("network:")
        if values.get("port_security_enabled", network["port_security_enabled"] and not service):
            return {"port_security_enabled": True}
        if values.get("security_groups"):
            raise errors.PortSecurityAndIPRequiredForSecurityGroups()
        if port["allowed_address_pairs"]:
            raise errors.AddressPairAndPortSecurityRequired()
        return {"port_security_enabled": False, "security_groups": []}  # the default group is not for it either

    def process_update_port(self, values: Values, port: Values, network: Values, before: Values) -> Values:
        if port["port_security_enabled"]:
            return {}
        if port["security_groups"]:
            if values.get("security_groups"):
                raise errors.PortSecurityAndIPRequiredForSecurityGroups()
            raise errors.PortSecurityPortHasSecurityGroup()
        if port["allowed_address_pairs"]:
            raise errors.AddressPairAndPortSecurityRequired()
        return {}


class Dns:
    """DNS names of ports: the requested host name, or one made of the address, in the configured domain.

    A network's dnsmasq answers all instances on it with the names of its ports, and several projects may share a network:
    a name outside the configured domain would let one project answer for the domains of others. So `dns_name` is a single
    label, or a fully qualified name (with a dot at its end) within the domain.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        domain = conf.dns_domain.strip(".")
        self._suffix = f".{domain}." if domain else "."

    def process_create_port(self, values: Values, port: Values, network: Values) -> Values:
        self._check(port["dns_name"])
        return self._assignment(port)

    def process_update_port(self, values: Values, port: Values, network: Values, before: Values) -> Values:
        if port["dns_name"] != before["dns_name"]:  # an unchanged name is not checked: rules may be newer than it
            self._check(port["dns_name"])
        elif port["fixed_ips"] == before["fixed_ips"] and "dns_name" not in values:
            return {}
        return self._assignment(port)

    def _check(self, dns_name: str) -> None:
        domain = self._suffix.strip(".")
        reason = ""
        if dns_name.endswith("."):
            if not self._contains(dns_name):
                wanted = f"within the domain {domain}." if domain else "a single label"
                reason = f"the full name '{dns_name}' must be {wanted}"
        elif "." in dns_name:
            reason = f"'{dns_name}' is neither a single label nor a full name, which ends with a dot"
        elif dns_name and len(dns_name) + len(self._suffix) > MAX_NAME:
            reason = f"with the domain {domain} it is too long"
        if reason:
            raise errors.HTTPBadRequest(f"Invalid input for dns_name: {reason}.")

    def _contains(self, full_name: str) -> bool:
        """Whether a full name is below the domain; without a domain, whether it is a single label."""
        own = full_name.removesuffix(self._suffix.lower())
        return bool(own) and own != full_name and (len(self._suffix) > 1 or "." not in own)

    def _assignment(self, port: Values) -> Values:
        return {"dns_assignment": [self.name_for(port["dns_name"], f["ip_address"]) for f in port["fixed_ips"]]}

    def name_for(self, dns_name: str, address: str) -> dict[str, str]:
        """The DNS name of a port's address. Of an old `dns_name` that would be refused today, only the first label."""
        if dns_name.endswith(".") and self._contains(dns_name):
            return {"ip_address": address, "hostname": dns_name.partition(".")[0], "fqdn": dns_name}
        host = dns_name.partition(".")[0] or address_name(address)
        return {"ip_address": address, "hostname": host, "fqdn": f"{host}{self._suffix}"}
