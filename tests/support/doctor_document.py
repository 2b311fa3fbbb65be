"""docs/doctor.md: the checks of `neutrino doctor`, and the catalogue of problems. `python -m` this module writes it."""

from __future__ import annotations

from pathlib import Path

from neutrino.cli.doctor.checks import CHECKS
from neutrino.diagnosis.catalogue import AREAS
from neutrino.diagnosis.problems import Problem
from neutrino.server.features import installed

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"
HEAD = """# Findings of `neutrino doctor`

`neutrino doctor` examines this machine as a server or as a host, depending on the configuration that it is given, by
default `/etc/neutrino/server.conf` and `/etc/neutrino/agent.conf`, whichever exists. It changes nothing, needs no running
agent, and every check has a time limit. Exit status: 0 no findings, 1 findings, 2 wrong arguments. Notes do not count as
findings. `--json` prints all of it for other programs, `--only` runs some of the checks.

Run it as root. Checks of a host need root's privileges. Files of a server are judged as the server's user, the owner of
`state_path`: a key that only root can read is an error. As that user itself a server can be examined too; as any other user
its files, certificates and database are not examined, and the finding `other-user` states it.

Written by `python -m tests.support.doctor_document` from the source.

## Checks

| check | of | looks at |
|---|---|---|
"""
MIDDLE = """
## Findings

`neutrino status`, the health view of the page and, as causes of a drop, `neutrino trace` have the same problems with the
same ids (`kind` in JSON). Of a server, `neutrino doctor` gives those of `neutrino status` as `service-problem`.
"""
TABLE = """
### {}

| finding | severity | meaning | fix |
|---|---|---|---|
"""


def render_page() -> str:
    checks = "".join(f"| `{each.name}` | {', '.join(each.applies_to)} | {each.text} |\n" for each in CHECKS)
    of_features = [problem for feature in installed() for problem in feature.problems]
    areas = {**AREAS, "Features": of_features} if of_features else AREAS
    tables = "".join(TABLE.format(title) + "".join(map(_row, problems)) for title, problems in areas.items())
    return f"{HEAD}{checks}{MIDDLE}{tables}"


def _row(problem: Problem) -> str:
    return f"| `{problem.id}` | {problem.severity} | {_cell(problem.meaning)} | {_cell(problem.fix)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "*").replace("}", "*")


if __name__ == "__main__":
    PAGE.write_text(render_page())
