"""QoS policies: who sees and changes them, the default of a project, sharing, tags and quotas."""

from __future__ import annotations

from tests.api.client import Api

DEAD = "00000000-0000-0000-0000-00000000dead"
Object = dict[str, object]


def policy(admin: Api, **values: object) -> dict[str, str]:
    made = admin.post("/qos/policies", {"policy": {"name": "gold", **values}}).expect(201).body["policy"]
    assert isinstance(made, dict)
    return made


def test_a_policy_from_creation_to_deletion(api: Api, admin: Api) -> None:
    made = policy(admin, description="d")
    assert {**made, "id": "", "created_at": "", "updated_at": ""} == {
        "id": "",
        "name": "gold",
        "description": "d",
        "project_id": api.project,
        "tenant_id": api.project,
        "shared": False,
        "is_default": False,
        "rules": [],
        "tags": [],
        "revision_number": 0,
        "created_at": "",
        "updated_at": "",
    }
    path = f"/qos/policies/{made['id']}"
    assert api.get(path).expect(200).body["policy"] == made
    assert [one["id"] for one in api.get("/qos/policies", {"name": "gold"}).expect(200).body["policies"]] == [
        made["id"]
    ]
    changed = admin.put(path, {"policy": {"name": "silver"}}).expect(200).body["policy"]
    assert (changed["name"], changed["revision_number"]) == ("silver", 1)
    admin.delete(path).expect(204)
    api.get(path).refused(404, "QosPolicyNotFound")
