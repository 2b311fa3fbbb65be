"""A program's options, with what oslo.config does not list: all options in the files, and all names that files may use."""

import os
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

DEFAULT = "DEFAULT"
Option = tuple[str, str]  # section and name


class Configuration(cfg.ConfigOpts):
    def __init__(self) -> None:
        self.given: dict[
            Option, list[str]
        ] = {}  # all options in the files with their values, in the order of the files
        # Under all names that files may use. Drivers and libraries register theirs while they load.
        self.registered: set[Option] = set()
        super().__init__()

    def __call__(self, *args: Any, **options: Any) -> None:
        super().__call__(*args, **options)
        self.given = read(self.config_file)

    def register_opt(self, opt: cfg.Opt, group: Any = None, *args: Any, **options: Any) -> bool:
        section = str(getattr(group, "name", group or DEFAULT))
        self.registered.add((section, opt.dest))
        for former in opt.deprecated_opts:
            name = former.name or opt.name
            self.registered |= {(former.group or section, name), (former.group or section, name.replace("-", "_"))}
        return bool(super().register_opt(opt, group, *args, **options))


def read(files: Iterable[str]) -> dict[Option, list[str]]:
    """All options in files with their values, in the order of the files."""
    values: dict[Option, list[str]] = {}
    for file in files:
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(os.path.expanduser(file), sections).parse()
        for section, options in sections.items():
            for name, texts in options.items():
                # oslo.config ignores the case of sections, other than that of DEFAULT.
                key = section if section == DEFAULT else section.lower(), name
                values.setdefault(key, []).append(texts[-1])
    return values
