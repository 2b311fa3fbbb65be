"""`python -m qa.locks [LOCK…]`: ask the package index for the files of each locked version; nothing is downloaded.

For each lock, architecture and version of Python, it names what would be built from source, and what cannot be installed.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from qa.locks.files import ARCHITECTURES, PYTHONS, File, Kind, Platform, Result, check, linked, pins

JSON = "application/vnd.pypi.simple.v1+json"
ACCEPT = {"Accept": f"{JSON}, text/html;q=0.1"}  # mirrors may have pages only
REQUESTS = 8  # at a time


def main(names: list[str]) -> int:
    root = Path(__file__).resolve().parents[2]
    locks = {
        path.name: path.read_text()
        for path in sorted(root.glob("requirements*.lock"))
        if not names or path.name in names
    }
    wanted = {pin.name for text in locks.values() for pin in pins(text)}
    address, session = _index(), requests.Session()
    session.verify = os.environ.get("PIP_CERT") or True

    def files(name: str) -> list[File]:
        answer = session.get(f"{address}/{name}/", headers=ACCEPT, timeout=60)
        answer.raise_for_status()
        if answer.headers["Content-Type"].startswith(JSON):
            return [File(each["filename"], each["hashes"].get("sha256", "")) for each in answer.json()["files"]]
        return linked(answer.text)

    with ThreadPoolExecutor(REQUESTS) as pool:
        index = dict(zip(wanted, pool.map(files, wanted), strict=True))
    platforms = [Platform(architecture, python) for python in PYTHONS for architecture in ARCHITECTURES]
    results = [check(lock, text, platform, index) for lock, text in locks.items() for platform in platforms]
    for result in results:
        print(_line(result))
    return 1 if any(result.of(Kind.NONE) for result in results) else 0


def _line(result: Result) -> str:
    source, none = result.of(Kind.SOURCE), result.of(Kind.NONE)
    text = f"{result.lock:<34} Python {result.platform.python} {result.platform.architecture:<8}"
    text += f" {len(result.of(Kind.WHEEL)):3} wheels"
    text += f"; from source: {', '.join(source)}" if source else ""
    return text + (f"; CANNOT BE INSTALLED: {', '.join(none)}" if none else "")


def _index() -> str:
    """The index that pip uses on this machine: its help shows the default of the option, of its configuration."""
    text = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--help"], check=True, text=True, capture_output=True
    )
    (found,) = re.findall(r"--index-url <url>.*?\(default\s+(\S+)\)", text.stdout, re.DOTALL)[:1]
    return str(found).rstrip("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
