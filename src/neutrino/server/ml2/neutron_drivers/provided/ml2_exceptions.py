"""`neutron.plugins.ml2.common.exceptions`: what drivers raise. Clients get our `MechanismDriverError` for any of them."""

from neutron_lib import exceptions


class MechanismDriverError(exceptions.NeutronException):  # type: ignore[misc]
    message = "%(method)s failed."


class ExtensionDriverError(exceptions.InvalidInput):  # type: ignore[misc]
    message = "Extension %(driver)s failed."


class ExtensionDriverNotFound(exceptions.InvalidConfigurationOption):  # type: ignore[misc]
    message = "Extension driver %(driver)s required for service plugin %(service_plugin)s not found."
