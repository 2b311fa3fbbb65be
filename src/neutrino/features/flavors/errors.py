"""Errors of flavors and service profiles."""

from neutrino.server.errors import ApiError, Conflict, InUse, InvalidInput, NotFound


# A class per line, as in `server/errors.py`.
# fmt: off
class FlavorNotFound(NotFound): template = "There is no flavor {id}."
class FlavorInUse(InUse): template = "Flavor {flavor_id} is in use."
class FlavorDisabled(ApiError):
    status = 503
    template = "The flavor is not enabled."
class ServiceProfileNotFound(NotFound): template = "There is no service profile {id}."
class ServiceProfileInUse(InUse): template = "Service profile {sp_id} is in use."
class ServiceProfileEmpty(InvalidInput): template = "A service profile needs a driver or metainfo."
class ServiceProfileDisabled(ApiError):
    status = 503
    template = "Service profile {sp_id} is not enabled."
class ServiceProfileDriverNotFound(NotFound):
    template = "No service has the driver '{driver}' of service profile {sp_id}: there are {known}."
class FlavorServiceProfileBindingExists(Conflict): template = "Flavor {fl_id} has service profile {sp_id} already."
class FlavorServiceProfileBindingNotFound(NotFound): template = "Flavor {fl_id} does not have service profile {sp_id}."
# fmt: on
