"""Who asks: the one value that carries a caller's identity through a request."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Context:
    """The caller of one request. `is_admin` is what the policy says, not what a header says."""

    project_id: str
    user_id: str = ""
    roles: frozenset[str] = frozenset()
    service_roles: frozenset[str] = frozenset()
    is_admin: bool = False
    request_id: str = ""
    credentials: dict[str, object] = field(default_factory=dict, compare=False)

    @property
    def identity(self) -> tuple[object, ...]:
        """What a policy rule can know of the caller."""
        return self.project_id, self.user_id, self.roles, self.service_roles


def admin_context(project_id: str = "") -> Context:
    """The context for the server's own work, when no caller is behind it."""
    roles = frozenset({"admin", "member", "reader"})
    return Context(
        project_id=project_id,
        roles=roles,
        is_admin=True,
        credentials={"roles": sorted(roles), "project_id": project_id, "user_id": "", "service_roles": []},
    )
