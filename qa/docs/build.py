"""Build the pages and the API reference as a site into build/docs: `make docs`. It needs no server: open index.html.

The Markdown files stay as they are for readers of the repository; copies are adapted in build/docs-pages.
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from neutrino.server.config import configuration
from neutrino.server.main import assemble
from qa.docs import links
from qa.docs.api_reference import pages as reference_pages
from qa.docs.pages import adapted, navigation

ROOT = Path(__file__).parents[2]
PAGES, SITE = ROOT / "build" / "docs-pages", ROOT / "build" / "docs"
SHIM = Path(__file__).with_name("iframe-worker.js")
MKDOCS = ROOT / "build" / "docs-programs" / "bin" / "mkdocs"


def main() -> None:
    shutil.rmtree(PAGES, ignore_errors=True)
    names = sorted(str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
    for name in names:
        _write(PAGES / name, adapted(name, (ROOT / name).read_text(encoding="utf-8"), names))
    shutil.copytree(ROOT / "docs" / "images", PAGES / "docs" / "images")
    _write(PAGES / "assets" / SHIM.name, SHIM.read_text(encoding="utf-8"))
    document = openapi_document()
    reference = reference_pages(document)
    for name, text in reference.items():
        _write(PAGES / "api" / name, text)
    _write(PAGES / "api" / "openapi.json", json.dumps(document, indent=1))
    settings = {
        "INHERIT": str(ROOT / "qa" / "docs" / "mkdocs.yml"),
        "docs_dir": str(PAGES),
        "site_dir": str(SITE),
        "nav": navigation(names, list(reference)),
    }
    config = ROOT / "build" / "docs.yml"
    _write(config, json.dumps(settings))  # JSON is YAML
    argv = [str(MKDOCS), "build", "--quiet", "--strict", "--clean", "-f", str(config)]
    if subprocess.run(argv, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode:
        raise SystemExit("docs: the site could not be built: see above")
    if found := links.problems(SITE):
        raise SystemExit("docs: links that lead nowhere:\n  " + "\n  ".join(found))
    print(f"docs: {len(names)} pages, {len(reference)} of the API reference: {SITE / 'index.html'}")


def openapi_document() -> dict[str, Any]:
    """What a server with all features answers to GET /openapi.json, asked in this process; no database is opened."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "server.conf"
        path.write_text(
            f"[DEFAULT]\nauth_strategy = noauth\nhost = docs\nstate_path = {directory}\n"
            f"[database]\nconnection = sqlite:///{directory}/docs.sqlite\n"
        )
        app = assemble(configuration([str(path)])).app
        statuses: list[str] = []
        environment = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": "/openapi.json",
            "QUERY_STRING": "",
            "SCRIPT_NAME": "",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(),
            "wsgi.errors": sys.stderr,
        }

        def start_response(status: str, headers: object, *error: object) -> Callable[[bytes], object]:
            statuses.append(status)
            return lambda data: None

        body = b"".join(app(environment, start_response))
    if statuses != ["200 OK"]:
        raise SystemExit(f"docs: /openapi.json is answered with {statuses}")
    found: dict[str, Any] = json.loads(body)
    return found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
