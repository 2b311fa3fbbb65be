"""The caller of a request, from the headers that keystonemiddleware has validated or, without Keystone, the client's own.

Both have the same headers, so nothing after this module depends on the way of authentication.
"""

import time
from dataclasses import replace
from functools import lru_cache

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.context import Context, known
from neutrino.server.policy.authorizer import Authorizer

MAX_CACHED = 1_000
HEADERS = (
    "HTTP_X_IDENTITY_STATUS",
    "HTTP_X_PROJECT_ID",
    "HTTP_X_TENANT_ID",
    "HTTP_X_USER_ID",
    "HTTP_X_ROLES",
    "HTTP_X_SERVICE_ROLES",
    "HTTP_X_DOMAIN_ID",
    "HTTP_X_USER_DOMAIN_ID",
    "HTTP_X_PROJECT_DOMAIN_ID",
    "HTTP_OPENSTACK_SYSTEM_SCOPE",
    "HTTP_X_USER_NAME",
    "HTTP_X_PROJECT_NAME",
)
# The last of HEADERS, for rules.
SCOPES = ("domain_id", "user_domain_id", "project_domain_id", "system_scope", "user_name", "project_name")
NOAUTH_PROJECT = "admin"
PROJECT_MAX = 255  # of the columns `project_id`
NOAUTH_ROLES = "admin,manager,member,reader,service"  # nobody is authenticated, so every role is granted


class Authentication:
    def __init__(self, authorizer: Authorizer, *, keystone: bool) -> None:
        self._authorizer = authorizer
        self._keystone = keystone
        self._cached = lru_cache(MAX_CACHED)(self._read)

    def context(self, environ: Values, request_id: str) -> Context:
        """The caller of a request. Contexts are cached by headers, which saves a quarter of showing a port; for a second
        only, because the policy, which decides who is an administrator, may change.
        """
        headers = tuple(map(environ.get, HEADERS))
        return replace(self._cached(headers, int(time.monotonic())), request_id=request_id)

    def _read(self, headers: tuple[str | None, ...], second: int) -> Context:
        status, project, tenant, user, roles, service_roles, *scopes = headers
        # With delay_auth_decision, keystonemiddleware passes unauthenticated requests on and marks them in this header.
        if self._keystone and status != "Confirmed":
            raise errors.Unauthorized("Authentication required")
        if project is None and tenant is None and not self._keystone:
            project = NOAUTH_PROJECT  # an empty header stands for a token without a project
        project = project or tenant or None
        if project is not None and len(project) > PROJECT_MAX:
            raise errors.HTTPBadRequest(f"Invalid input for X-Project-Id: it is longer than {PROJECT_MAX} characters.")
        if roles is None and not self._keystone:
            roles = NOAUTH_ROLES
        credentials = known(
            {
                "project_id": project,
                "tenant_id": project,
                "user_id": user,
                "roles": sorted(_names(roles)),
                "service_roles": sorted(_names(service_roles)),
                **dict(zip(SCOPES, scopes, strict=True)),
            }
        )
        return Context(
            project_id=project,
            user_id=user or "",
            roles=_names(roles),
            others=(_names(service_roles), *scopes),
            is_admin=self._authorizer.holds("context_is_admin", credentials),
            has_global_access=self._authorizer.holds("context_with_global_access", credentials),
            can_set_project_id=self._authorizer.holds("context_can_set_project_id", credentials),
            credentials=credentials,
        )


def _names(text: str | None) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in (text or "").split(",") if name.strip())
