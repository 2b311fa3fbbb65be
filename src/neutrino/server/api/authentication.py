"""Who is asking: from the headers that Keystone's middleware has checked, or else from the client's own.

Both ways give the same headers, so everything behind sees one kind of caller.
"""

from __future__ import annotations

from collections.abc import Callable

from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.policy.authorizer import Authorizer

Header = Callable[[str], str | None]
NOAUTH_PROJECT = "admin"
PROJECT_MAX = 255
NOAUTH_ROLES = "admin,manager,member,reader,service"  # nobody is checked, so nobody is held back


class Authentication:
    def __init__(self, authorizer: Authorizer, *, keystone: bool) -> None:
        self._authorizer = authorizer
        self._keystone = keystone

    def context(self, header: Header, request_id: str) -> Context:
        if self._keystone:
            if header("X-Identity-Status") != "Confirmed":
                raise errors.Unauthorized("Authentication required")
            default_project, default_roles = "", ""
        else:
            default_project, default_roles = NOAUTH_PROJECT, NOAUTH_ROLES
        project = header("X-Project-Id") or header("X-Tenant-Id") or default_project
        if len(project) > PROJECT_MAX:
            raise errors.HTTPBadRequest(f"Invalid input for X-Project-Id: it is longer than {PROJECT_MAX} characters.")
        user = header("X-User-Id") or ""
        roles = _names(header("X-Roles") or (default_roles if header("X-Roles") is None else ""))
        service_roles = _names(header("X-Service-Roles") or "")
        credentials: dict[str, object] = {
            "project_id": project,
            "tenant_id": project,
            "user_id": user,
            "roles": sorted(roles),
            "service_roles": sorted(service_roles),
            "domain_id": header("X-Domain-Id"),
            "user_domain_id": header("X-User-Domain-Id"),
            "project_domain_id": header("X-Project-Domain-Id"),
        }
        return Context(
            project_id=project,
            user_id=user,
            roles=roles,
            service_roles=service_roles,
            is_admin=self._authorizer.is_admin(credentials),
            request_id=request_id,
            credentials=credentials,
        )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip().lower() for name in text.split(",") if name.strip())
