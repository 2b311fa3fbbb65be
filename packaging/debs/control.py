"""Control data and documentation of a package, as texts; pure."""

import hashlib
import textwrap
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from debs.packages import ANY, SUMMARY, Package

# Packages of a distribution name a person here. These are built locally, by `make package`.
MAINTAINER = "the neutrino authors <neutrino@example.invalid>"


@dataclass(frozen=True)
class Build:
    """What is the same for all packages of one build."""

    version: str
    architecture: str  # of the machine, as dpkg names it
    python: str  # 3.11
    seconds: int  # SOURCE_DATE_EPOCH
    maintainer: str = MAINTAINER

    @property
    def next_python(self) -> str:
        major, minor = self.python.split(".")
        return f"{major}.{int(minor) + 1}"

    def architecture_of(self, package: Package) -> str:
        return self.architecture if package.architecture == ANY else package.architecture

    def file_name(self, package: Package) -> str:
        return f"{package.name}_{self.version}_{self.architecture_of(package)}.deb"


def control(package: Package, build: Build, installed_kib: int) -> str:
    def relation(items: Iterable[str]) -> str:
        words = {"version": build.version, "python": build.python, "next_python": build.next_python}
        return ", ".join(item.format(**words) for item in items)

    fields = {
        "Package": package.name,
        "Source": "neutrino",
        "Version": build.version,
        "Architecture": build.architecture_of(package),
        "Maintainer": build.maintainer,
        "Installed-Size": str(installed_kib),
        "Depends": relation(package.depends),
        "Recommends": relation(package.recommends),
        "Suggests": relation(package.suggests),
        "Section": "net",
        "Priority": "optional",
        "Description": package.summary + "\n" + _indented(SUMMARY) + "\n .\n" + _indented(package.description),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)


def _indented(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 78, initial_indent=" ", subsequent_indent=" ")


def conffiles(package: Package) -> str:
    return "".join(f"{name}\n" for name in package.conffiles)


def md5sums(contents: Mapping[str, bytes]) -> str:
    """Of the files by their path; dpkg --verify compares them."""
    return "".join(
        f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name.lstrip('/')}\n"
        for name, data in sorted(contents.items())
    )


def changelog(build: Build) -> str:
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(build.seconds))
    head = f"neutrino ({build.version}) unstable; urgency=medium"
    return f"{head}\n\n  * See CHANGELOG.md of this release.\n\n -- {build.maintainer}  {date}\n"


def copyright_file(build: Build, dependencies: Mapping[str, str]) -> str:
    """Machine-readable copyright; `dependencies`: names of the bundled Python packages to their licenses."""
    comment = ""
    if dependencies:
        listed = "\n".join(f"  {name}: {license}" for name, license in sorted(dependencies.items()))
        comment = f"""Comment: The Python packages in /usr/lib/neutrino/lib are bundled, each with its
 own copyright notice and license in its directory NAME.dist-info there:
{listed}
"""
    return f"""Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: neutrino
{comment}
Files: *
Copyright: {time.gmtime(build.seconds).tm_year} the neutrino authors
License: Apache-2.0
 Licensed under the Apache License, Version 2.0; you may not use these files
 except in compliance with the License.
 .
 On Debian systems, the text of the License is in
 /usr/share/common-licenses/Apache-2.0.
"""
