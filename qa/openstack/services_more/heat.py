"""Heat: its API and engine with Keystone and neutrino, without Nova."""

from __future__ import annotations

import shutil
import time
from typing import Any

from qa.openstack.checks.expect import CheckError, until
from qa.openstack.cloud import ADDRESS, PASSWORD, Cloud, ini
from qa.openstack.services_more.environment import PORTS, more

USER = "heat"
DOMAIN, DOMAIN_ADMIN = "heat", "heat_domain_admin"
STACK_SECONDS = 240.0
Json = dict[str, Any]


def start(cloud: Cloud) -> None:
    """Start Heat, unless it runs."""
    if USER in cloud.started:
        return
    cloud.keystone_user(USER)
    cloud.endpoint("heat", "orchestration", f"http://{ADDRESS}:{PORTS['heat']}/v1/%(tenant_id)s")
    _domain(cloud)
    with more(cloud):
        home = cloud.directory("etc", "heat")
        (home / ".heat").mkdir(exist_ok=True)
        config = home / ".heat" / "heat.conf"  # where the WSGI application looks, as it has no arguments
        config.write_text(render(cloud))
        shutil.copy(cloud.venv / "etc" / "heat" / "api-paste.ini", home)
        cloud.run([cloud.program("heat-manage"), "--config-file", config, "db_sync"])
        cloud.start("heat-engine", [cloud.program("heat-engine"), "--config-file", config])
        cloud.wsgi("heat", "heat.wsgi.api:application", {"HOME": str(home)}, port=PORTS["heat"])
    api = cloud.connect().orchestration
    cloud.wait(lambda: api.get("/services").ok and bool(api.get("/services").json()["services"]), "no heat-engine")
    cloud.add_started(USER)


def render(cloud: Cloud) -> str:
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {
            "transport_url": cloud.amqp_url,
            "auth_encryption_key": "0123456789abcdef0123456789abcdef",
            "num_engine_workers": 1,
            "region_name_for_services": "RegionOne",
            "stack_user_domain_name": DOMAIN,
            "stack_domain_admin": DOMAIN_ADMIN,
            "stack_domain_admin_password": PASSWORD,
        },
        "database": {"connection": cloud.database("heat")},
        "paste_deploy": {"api_paste_config": cloud.etc / "heat" / "api-paste.ini"},
        "clients_keystone": {"auth_uri": cloud.auth_url.removesuffix("/v3")},
    }
    return ini(sections) + cloud.authtoken(USER) + cloud.credentials("trustee", USER)


class Stack:
    """A stack through Heat's REST API."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self._api = cloud.connect().orchestration
        self.name = name
        self.path = f"/stacks/{name}"

    def create(self, template: Json) -> float:
        _checked(self._api.post("/stacks", json={"stack_name": self.name, "template": template, "timeout_mins": 5}))
        return self._wait_for("CREATE")

    def update(self, template: Json) -> float:
        _checked(self._api.put(self._found(), json={"template": template, "timeout_mins": 5}))
        return self._wait_for("UPDATE")

    def check(self) -> float:
        """Heat asks neutrino for each object again."""
        _checked(self._api.post(f"{self._found()}/actions", json={"check": None}))
        return self._wait_for("CHECK")

    def delete(self) -> float:
        """Delete the stack if it exists."""
        answer = self._api.get(self.path)
        if answer.status_code == 404:
            return 0.0
        _checked(self._api.delete(self._found()))
        began = time.monotonic()
        until(lambda: self._gone(), f"stack {self.name} is deleted", STACK_SECONDS)
        return time.monotonic() - began

    def resources(self) -> dict[str, Json]:
        """By name: type, status, and the id of the object in neutrino."""
        answer = _checked(self._api.get(f"{self._found()}/resources"))
        return {each["resource_name"]: each for each in answer["resources"]}

    def shown(self, resource: str) -> Json:
        """The object of a resource, as Heat reads it from neutrino."""
        answer = _checked(self._api.get(f"{self._found()}/resources/{resource}?with_attr=show"))
        found: Json = answer["resource"]["attributes"]["show"]
        return found

    def _found(self) -> str:
        stack = _checked(self._api.get(self.path))["stack"]
        return f"/stacks/{stack['stack_name']}/{stack['id']}"

    def _gone(self) -> bool:
        answer = self._api.get(self.path)
        if answer.status_code == 404:
            return True
        stack = answer.json()["stack"]
        if stack["stack_status"] == "DELETE_FAILED":
            raise CheckError(f"stack {self.name}: {stack['stack_status_reason']}; {self._failures()}")
        return False

    def _wait_for(self, action: str) -> float:
        def reached() -> bool:
            stack = _checked(self._api.get(self.path))["stack"]
            if stack["stack_status"] == f"{action}_FAILED":
                raise CheckError(f"stack {self.name}: {stack['stack_status_reason']}; {self._failures()}")
            return bool(stack["stack_status"] == f"{action}_COMPLETE")

        return until(reached, f"stack {self.name}: {action}", STACK_SECONDS)

    def _failures(self) -> str:
        failed = [each for each in self.resources().values() if each["resource_status"].endswith("FAILED")]
        return "; ".join(f"{each['resource_type']}: {each['resource_status_reason']}" for each in failed)


def resource_types(cloud: Cloud) -> set[str]:
    """The types that Heat offers: those whose service and extension are there."""
    answer = _checked(cloud.connect().orchestration.get("/resource_types"))
    return {name for name in answer["resource_types"] if name.startswith("OS::Neutron::")}


def _checked(answer: Any) -> Json:
    if not answer.ok:
        raise CheckError(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text[:500]}")
    return answer.json() if answer.headers.get("Content-Type", "").startswith("application/json") else {}


def _domain(cloud: Cloud) -> None:
    """The domain of the users that stacks may create."""
    identity = cloud.connect().identity
    domain = identity.find_domain(DOMAIN) or identity.create_domain(name=DOMAIN)
    user = identity.find_user(DOMAIN_ADMIN, domain_id=domain.id) or identity.create_user(
        name=DOMAIN_ADMIN, password=PASSWORD, domain_id=domain.id
    )
    identity.assign_domain_role_to_user(domain, user, identity.find_role("admin"))
