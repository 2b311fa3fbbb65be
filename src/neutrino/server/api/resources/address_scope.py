"""Address scopes."""

from __future__ import annotations

from neutrino.server import errors
from neutrino.server.api.definition import Resource
from neutrino.server.api.resources.common import ID, IP_VERSION, NAME_ATTRIBUTE, PROJECT, shared

ADDRESS_SCOPE = Resource(
    name="address_scope",
    collection="address_scopes",
    not_found=errors.AddressScopeNotFound,
    extension="address-scope",
    attributes=(ID, NAME_ATTRIBUTE, PROJECT, shared(put=True), IP_VERSION),
)
