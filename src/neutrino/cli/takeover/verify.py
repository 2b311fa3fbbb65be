"""`neutrino takeover verify`: compare the answers of Neutron's API with those of ours."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from neutrino.cli.cloud import ApiError, Cloud, connect
from neutrino.cli.errors import INVALID, CommandError
from neutrino.model.objects import Object
from neutrino.takeover.families import collections
from neutrino.takeover.importer import Progress
from neutrino.takeover.verification import Verification, to_json
from neutrino.takeover.verification import verify as compare_servers

PAGE: Final = 1000
ADMINISTRATOR: Final = "administrator"


@dataclass(frozen=True)
class CloudReader:
    """Reads collections through the API of a cloud. A list that cannot be sorted by id comes as a whole."""

    cloud: Cloud

    def page(self, path: str, key: str, marker: str | None = None) -> list[Object] | None:
        paged = {"limit": PAGE, "sort_key": "id", "sort_dir": "asc", **({"marker": marker} if marker else {})}
        try:
            return self._get(path, key, paged)
        except ApiError as error:
            if error.status != 400:
                raise
        return self._get(path, key, {}) if marker is None else []

    def _get(self, path: str, key: str, query: Object) -> list[Object] | None:
        try:
            found: list[Object] = self.cloud.get(f"/v2.0/{path}", **query)[key]
        except ApiError as error:
            # Members may not list quotas, for example; ports of no instance have no bindings.
            if error.status in (403, 404) or (error.status == 400 and not query):
                return None
            raise
        return found


def verify(args: argparse.Namespace, progress: Progress) -> int:
    if args.sample < 0:
        raise CommandError(f"--sample is {args.sample}: give 0 or more", INVALID)
    done = [_compare(args, ADMINISTRATOR, progress)]
    for name in args.callers:
        of_caller = argparse.Namespace(**{**vars(args), "os_cloud": name, "endpoint": None})
        done.append(_compare(of_caller, name, progress))
    progress("", 0, 0)
    print(to_json(done) if args.json else "".join(one.to_text() for one in done), end="")
    if args.report:
        _write(done, Path(args.report))
    return 1 if any(one.differences for one in done) else 0


def _compare(args: argparse.Namespace, caller: str, progress: Progress) -> Verification:
    theirs, ours = connect(args, args.neutron_url), connect(args, args.neutrino_url)
    return compare_servers(caller, CloudReader(theirs), CloudReader(ours), collections(), args.sample, progress)


def _write(done: list[Verification], path: Path) -> None:
    text = to_json(done) if path.suffix == ".json" else "".join(f"{d}\n" for one in done for d in one.differences)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--report {path}: {error.strerror}") from None
