"""docs/doctor.md: the checks and all kinds of findings of `neutrino doctor`. `python -m` this module writes it."""

from __future__ import annotations

from pathlib import Path

from neutrino.cli.doctor import kinds
from neutrino.cli.doctor.checks import CHECKS

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

| finding | severity | meaning | fix |
|---|---|---|---|
"""


def render_page() -> str:
    checks = "".join(f"| `{each.name}` | {', '.join(each.applies_to)} | {each.text} |\n" for each in CHECKS)
    rows = "".join(
        f"| `{each.name}` | {each.severity} | {_cell(each.meaning)} | {_cell(each.fix)} |\n"
        for each in kinds.KINDS.values()
    )
    return f"{HEAD}{checks}{MIDDLE}{rows}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{", "*").replace("}", "*")


if __name__ == "__main__":
    PAGE.write_text(render_page())
