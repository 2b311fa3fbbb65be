"""List of the components of a release with their licenses, as CycloneDX 1.6; pure.

The components are the Python packages that neutrino-common bundles; what they say of themselves is in their METADATA.
"""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser

# Names of licenses, as they appear in metadata, that mean exactly one license of the SPDX list.
SPDX = {
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "isc": "ISC",
    "isc license (iscl)": "ISC",
    "mit": "MIT",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "mpl-2.0": "MPL-2.0",
    "psf-2.0": "PSF-2.0",
    "the mit license (mit)": "MIT",
}
LICENSE = "Apache-2.0"  # of the project


@dataclass(frozen=True, order=True)
class Component:
    name: str
    version: str
    license: str  # as its metadata states it; empty if that refers to files
    is_expression: bool = False  # of SPDX


def read(metadata: str) -> Component:
    """From the text of a METADATA file."""
    fields = HeaderParser().parsestr(metadata)
    expression = _text(fields, "License-Expression")
    return Component(_text(fields, "Name"), _text(fields, "Version"), expression or _license(fields), bool(expression))


def _license(fields: Message) -> str:
    stated = _text(fields, "License")
    if stated and "\n" not in stated and len(stated) < 60:  # some have the whole text of the license here
        return stated
    classifiers = [str(each).rpartition(" :: ")[2] for each in fields.get_all("Classifier", []) if "License ::" in each]
    return ", ".join(classifiers)


def _text(fields: Message, name: str) -> str:
    return str(fields[name] or "").strip()


def cyclonedx(version: str, architecture: str, seconds: int, components: Iterable[Component]) -> str:
    """The document; `seconds`: the time of the sources, so that the same sources give the same text."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds)),
            "component": {
                **_described(Component("neutrino", version, LICENSE, True), "application"),
                "properties": [{"name": "neutrino:architecture", "value": architecture}],
            },
        },
        "components": [
            _described(each, "library") for each in sorted(set(components))
        ],  # setuptools has some once more
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _described(component: Component, kind: str) -> dict[str, object]:
    purl = f"pkg:pypi/{component.name.lower().replace('_', '-')}@{component.version}"
    return {
        "type": kind,
        "bom-ref": purl,
        "name": component.name,
        "version": component.version,
        **_licensed(component),
        "purl": purl,
    }


def _licensed(component: Component) -> dict[str, object]:
    if not component.license:
        return {}
    if component.is_expression:
        return {"licenses": [{"expression": component.license}]}
    known = SPDX.get(component.license.lower())
    return {"licenses": [{"license": {"id": known} if known else {"name": component.license}}]}
