"""Pure functions of `make openstack` for further services: stacks, forms, outcomes of Tempest, the order of services."""

from qa.openstack.services import EVERYTHING, NETWORKING
from qa.openstack.services_more.catalog import ALL_CHECKS, NEEDS, services_for
from qa.openstack.services_more.heat_stacks import CASES, NOT_IN_STACK, template, uncovered
from qa.openstack.services_more.horizon import Form
from qa.openstack.services_more.tempest import Outcome, parse

PAGE = """
<form action="/search"><input name="q" value="x"></form>
<form action="/project/networks/create" method="post">
  <input type="hidden" name="csrfmiddlewaretoken" value="abc">
  <input type="text" name="net_name">
  <input type="checkbox" name="with_subnet" checked>
  <input type="checkbox" name="no_gateway">
  <select name="ip_version"><option value="4">IPv4</option><option value="6" selected>IPv6</option></select>
  <textarea name="host_routes">
10.0.0.0/8,10.1.1.1</textarea>
  <input type="submit" name="go" value="Create">
</form>
"""


def test_a_form_has_what_a_browser_sends() -> None:
    form = Form("/project/networks/create?next=x")
    form.feed(PAGE)
    assert form.found
    assert form.fields == {
        "csrfmiddlewaretoken": ["abc"],
        "net_name": [""],
        "with_subnet": ["on"],
        "ip_version": ["6"],
        "host_routes": ["10.0.0.0/8,10.1.1.1"],
    }
    assert form.choices == {"ip_version": ["4", "6"]}


def test_a_page_without_the_form_has_none() -> None:
    form = Form("/project/routers/create/")
    form.feed(PAGE)
    assert not form.found


def test_a_template_refers_only_to_its_resources() -> None:
    for changed in (False, True):
        resources = template(CASES, "project", changed=changed)["resources"]
        for name, resource in resources.items():
            functions = [value for value in _values(resource) if isinstance(value, dict)]
            used = [value["get_resource"] for value in functions if "get_resource" in value]
            used += [value["get_attr"][0] for value in functions if "get_attr" in value]
            assert {*used, *resource.get("depends_on", [])} <= {*resources}, name
            assert None not in resource["properties"].values()


def test_an_update_takes_properties_out_of_the_template() -> None:
    before, after = (template(CASES, "project", changed=changed)["resources"] for changed in (False, True))
    assert "port_id" in before["floating_ip"]["properties"]
    assert "port_id" not in after["floating_ip"]["properties"]


def test_types_of_heat_without_a_case_are_found() -> None:
    known = {f"OS::Neutron::{case.type}" for case in CASES.values()}
    assert uncovered(known | {f"OS::Neutron::{name}" for name in NOT_IN_STACK}) == set()
    assert uncovered(known | {"OS::Neutron::Unheard"}) == {"Unheard"}


def test_outcomes_of_tempest() -> None:
    output = (
        "TEST tempest.scenario.test_a.TestA.test_x[id-1] ok 12s \n"
        "TEST setUpClass (tempest.scenario.test_b.TestB) SKIPPED 0s trunk is not enabled\n"
        "something else\n"
        "TEST tempest.scenario.test_a.TestA.test_y FAILED 3s AssertionError: no\n"
    )
    assert parse(output) == [
        Outcome("tempest.scenario.test_a.TestA.test_x[id-1]", "ok", ""),
        Outcome("setUpClass (tempest.scenario.test_b.TestB)", "SKIPPED", "trunk is not enabled"),
        Outcome("tempest.scenario.test_a.TestA.test_y", "FAILED", "AssertionError: no"),
    ]


def test_only_the_services_that_the_checks_need_are_started() -> None:
    assert services_for(["horizon", "octavia"]) == NETWORKING
    assert services_for(["horizon", "heat"]) == EVERYTHING
    assert {*NEEDS} <= {*ALL_CHECKS}


def _values(value: object) -> list[object]:
    """All values within a value."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *(found for each in inner for found in _values(each))]
