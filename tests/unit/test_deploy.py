"""The Ansible collection of deploy/: modules of ansible.builtin only, secrets that are not logged, a page that names all.

`make deploy-test` runs it on machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COLLECTION = ROOT / "deploy/ansible_collections/neutrino/cloud"
PAGE = (ROOT / "docs/deployment.md").read_text()
FILES = sorted(COLLECTION.rglob("*.yml"))
KEYWORDS = {
    *(
        "name",
        "when",
        "loop",
        "loop_control",
        "register",
        "vars",
        "block",
        "always",
        "rescue",
        "notify",
        "no_log",
        "until",
    ),
    *("retries", "delay", "changed_when", "failed_when", "delegate_to", "delegate_facts", "run_once", "environment"),
    *("check_mode", "throttle", "module_defaults"),
}
# What holds a secret when a task runs: expressions that a log would show.
SECRETS = re.compile(
    r"neutrino_tls_key|neutrino_slurped\b|neutrino_credential\.stdout|host', 'rotate'|neutrino_token_|\.password"
)


def _tasks(found: Any) -> Iterator[dict[str, Any]]:
    for item in found if isinstance(found, list) else []:
        if not isinstance(item, dict):
            continue
        if "hosts" in item or "ansible.builtin.import_playbook" in item:
            yield from _tasks(item.get("tasks"))
            continue
        yield item
        for part in ("block", "always", "rescue"):
            yield from _tasks(item.get(part))


TASKS = [
    (path.relative_to(COLLECTION), task)
    for path in FILES
    if path.parent.name in ("tasks", "handlers", "playbooks")
    for task in _tasks(yaml.safe_load(path.read_text()))
]


PLAYS = [
    (path.name, play)
    for path in sorted((COLLECTION / "playbooks").glob("*.yml"))
    for play in yaml.safe_load(path.read_text())
    if "hosts" in play
]


def test_what_one_server_does_for_all_ends_the_playbook_if_it_fails() -> None:
    """Otherwise the next play runs, as other servers have not failed: a host that could not be drained is removed."""
    found = []
    for name, play in PLAYS:
        if any("inventory_hostname == neutrino_" in str(task.get("when")) for task in play.get("tasks", ())):
            found.append(name)
            assert play.get("any_errors_fatal") is True, (name, play["name"])
    assert {"drain_host.yml", "remove_host.yml", "rotate_certificates.yml"} <= set(found)


def test_a_host_is_torn_down_before_its_packages_go() -> None:
    names = [str(task) for path, task in TASKS if path == Path("roles/host/tasks/remove.yml")]
    (torn_down,) = (place for place, text in enumerate(names) if "'agent', 'teardown'" in text)
    (purged,) = (place for place, text in enumerate(names) if "'purge'" in text)
    assert torn_down < purged


def test_modules_are_those_of_ansible_itself() -> None:
    assert len(TASKS) > 80
    for path, task in TASKS:
        modules = set(task) - KEYWORDS
        assert all(name.startswith("ansible.builtin.") for name in modules), (path, modules)
        assert task.get("name"), (path, task)


def test_a_failure_ends_the_whole_playbook() -> None:
    """Else the next play goes on with other machines: a host would be removed that is not drained."""
    plays = [
        (path.stem, play["name"], play.get("any_errors_fatal", False))
        for path in (COLLECTION / "playbooks").glob("*.yml")
        for play in yaml.safe_load(path.read_text())
        if "hosts" in play
    ]
    goes_on = {(book, name) for book, name, is_fatal in plays if not is_fatal}
    # One host that fails is not to keep the others from being installed; a check shows all findings.
    assert goes_on == {
        ("site", "Programs of hosts"),
        ("site", "Hosts"),
        ("site", "Monitoring"),
        ("check", "Look at each machine"),
        ("check", "Look at the cloud"),
    }


def test_messages_of_assertions_are_text() -> None:
    """Ansible refuses a list of objects as a message, and shows that instead of the findings."""
    messages = [
        str(task["ansible.builtin.assert"].get("fail_msg", "")) for _, task in TASKS if "ansible.builtin.assert" in task
    ]
    assert len(messages) > 20
    for message in messages:
        assert message.strip(), "what is wrong, and what to do"
        assert not re.fullmatch(r"\{\{[^}]*\}\}", message), message
        assert re.sub(r"\{%.*%\}", "", message).strip(), "a message that is empty without findings is refused"


def test_items_of_loops_have_what_is_read_of_them() -> None:
    """Ansible notices it when the task runs: for Prometheus, when all other machines are installed."""
    found = 0
    for path, task in TASKS:
        items = task.get("loop")
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            continue
        found += 1
        read = set(re.findall(r"\bitem\.(\w+)", str({name: part for name, part in task.items() if name != "loop"})))
        for item in items:
            assert read <= set(item), (path, task["name"])
            assert "omit" not in str(item), "omit is for arguments of modules alone"
    assert found


def test_a_server_has_its_packages_before_it_is_drained() -> None:
    """To copy them takes long: one server less answers meanwhile."""
    tasks = [task for path, task in TASKS if path == Path("roles/server/tasks/upgrade.yml")]
    names = [task["name"] for task in tasks]
    assert names.index("Fetch") < names.index("Drain") < names.index("Install") < names.index("Undrain")
    parts = {
        name: task["ansible.builtin.include_role"]["tasks_from"]
        for name, task in zip(names, tasks, strict=True)
        if name in ("Fetch", "Install")
    }
    assert parts == {"Fetch": "fetch", "Install": "install"}
    installation = [str(task) for path, task in TASKS if path == Path("roles/packages/tasks/install.yml")]
    assert not any("ansible.builtin.copy" in text or "update_cache" in text for text in installation)


def test_certificates_of_servers_are_renewed_one_server_at_a_time() -> None:
    """Each replaces its workers. If one cannot, the others serve."""
    first, *others = [
        play for name, play in PLAYS if name == "rotate_certificates.yml" and "certificates" in str(play["roles"])
    ]
    assert (first["hosts"], first["serial"]) == ("neutrino_servers", 1)
    assert first["tasks"][0]["ansible.builtin.include_role"]["tasks_from"] == "renewed"
    assert others
    assert all("!neutrino_servers" in play["hosts"] for play in others)


def test_a_server_that_is_alone_is_not_drained() -> None:
    """Nothing else would answer, until the end of its upgrade."""
    tasks = [task for path, task in TASKS if path == Path("roles/server/tasks/drain.yml")]
    assert len(tasks) == 2
    assert all("neutrino_server_names | length > 1" in task["when"] for task in tasks)


def test_secrets_are_not_logged() -> None:
    found = 0
    for path, task in TASKS:
        if {"block", "ansible.builtin.assert"} & set(task):  # an assertion shows its message
            continue
        own = {name: value for name, value in task.items() if name not in ("when", "name")}
        if SECRETS.search(str(own)):
            found += 1
            assert task.get("no_log") is True, (path, task["name"])
    assert found >= 7


def test_files_with_secrets_are_private() -> None:
    modes = {
        (task.get("ansible.builtin.template") or task.get("ansible.builtin.copy") or {}).get("dest"): (
            task.get("ansible.builtin.template") or task.get("ansible.builtin.copy") or {}
        ).get("mode")
        for _, task in TASKS
    }
    for path in (
        "/etc/neutrino/credential",
        "/etc/neutrino/agent.conf",
        "/etc/neutrino/clouds.yaml",
        "/etc/haproxy/neutrino.pem",
    ):
        assert modes[path] == "0600", path
    assert modes["/etc/neutrino/server.conf"] == "0640"


def test_the_page_names_every_playbook_and_no_other() -> None:
    exist = {path.stem for path in (COLLECTION / "playbooks").glob("*.yml")}
    assert set(re.findall(r"scripts/deploy (\w+)", PAGE)) == exist


def test_variables_of_the_page_exist() -> None:
    defaults = yaml.safe_load((COLLECTION / "roles/common/defaults/main.yml").read_text())
    others = {
        "neutrino_drained",
        "neutrino_is_lost",
        "neutrino_renew_authority",
        "neutrino_back",
        "neutrino_chosen",
    }  # of single commands
    groups = set(re.findall(r"neutrino_\w+", (ROOT / "deploy/inventory.example.yml").read_text())) | {
        "neutrino_bgp_hosts"
    }
    named = set(re.findall(r"`(?:-e )?(neutrino_\w+)", PAGE))
    assert named - set(defaults) - others - groups == set()


def test_the_inventory_s_page_names_what_exists() -> None:
    text = (ROOT / "deploy/README.md").read_text()
    exist = {path.stem for path in (COLLECTION / "playbooks").glob("*.yml")}
    assert set(re.findall(r"scripts/deploy (\w+)", text)) <= exist
    known = yaml.safe_load((COLLECTION / "roles/common/defaults/main.yml").read_text())
    groups = set(re.findall(r"neutrino_\w+", (ROOT / "deploy/inventory.example.yml").read_text()))
    others = {"neutrino_drained", "neutrino_is_lost", "neutrino_removed"}
    assert set(re.findall(r"neutrino_\w+", text)) - set(known) - groups - others == set()


def test_lines_are_not_too_long() -> None:
    for path in [*FILES, ROOT / "deploy/inventory.example.yml"]:
        long = [line for line in path.read_text().splitlines() if len(line) > 160 and "database_url" not in line]
        assert not long, path
