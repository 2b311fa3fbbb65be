"""Request context: identity and roles of the caller."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Context:
    """The caller of one request. Its rights are decided by policy, not by a header."""

    project_id: str | None  # None: the token has no project (a domain, the system, or no scope at all)
    user_id: str = ""
    roles: frozenset[str] = frozenset()
    others: tuple[object, ...] = ()  # service roles, domains and system scope of the token, which rules can use too
    is_admin: bool = False
    has_global_access: bool = False  # reads the objects of all projects, as far as the rules of reading allow
    can_set_project_id: bool = False  # creates objects for other projects
    request_id: str = ""
    credentials: dict[str, object] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        # The server's own ports and networks have the empty project: a caller with it would own them all.
        if self.project_id == "":
            raise ValueError("a caller without a project has None as its project_id")

    @property
    def is_of_project(self) -> bool:
        """Whether the token is not one of a domain or of the system."""
        return not self.credentials.get("domain_id") and not self.credentials.get("system_scope")

    @property
    def identity(self) -> tuple[object, ...]:
        """Everything of the caller that policy rules can use: the cache key of decisions."""
        return self.project_id, self.user_id, self.roles, self.others


def admin_context(project_id: str | None = None) -> Context:
    """Context for work of the server itself, without a caller."""
    roles = frozenset({"admin", "member", "reader"})
    return Context(
        project_id=project_id,
        roles=roles,
        is_admin=True,
        credentials=known({"roles": sorted(roles), "project_id": project_id, "service_roles": []}),
    )


def known(credentials: dict[str, object]) -> dict[str, object]:
    """Credentials without empty ones.

    oslo.policy compares text: a project of "" or None would match objects with the project "" or "None". A missing
    credential matches nothing.
    """
    return {name: value for name, value in credentials.items() if value is not None and value != ""}
