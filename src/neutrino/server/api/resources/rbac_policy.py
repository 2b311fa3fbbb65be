"""RBAC policies: which projects may use an object of another project, and for what."""

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, PROJECT


def parse_target(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise t.Invalid(f"'{value}' is neither a project nor * for all projects")
    return t.Text().parse(value)


def rbac_policy(kinds: tuple[str, ...]) -> Resource:
    """The definition, for these types of objects."""

    def parse_object_type(value: object) -> str:
        kind = value.strip().lower() if isinstance(value, str) else None
        if kind not in kinds:
            raise t.Unconvertible(f"'{value}' is not one of {sorted(kinds)}")
        return kind

    return Resource(
        name="rbac_policy",
        collection="rbac_policies",
        quota=True,
        not_found=errors.RbacPolicyNotFound,
        attributes=(
            ID,
            PROJECT,
            creatable(
                "object_type",
                t.Parsed(parse_object_type, {"enum": sorted(kinds)}),
                default=REQUIRED,
                filter=True,
                filter_as=t.OneOf(kinds),
            ),
            creatable("object_id", t.Uuid(), default=REQUIRED, filter=True),
            creatable("action", t.Text(), default=REQUIRED, filter=True),
            writable(
                "target_tenant",
                t.Parsed(parse_target, {"type": "string", "minLength": 1, "maxLength": 255}),
                default=REQUIRED,
                filter=True,
                guarded=True,
            ),
        ),
    )
