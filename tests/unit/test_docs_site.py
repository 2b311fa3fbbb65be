"""The site of `make docs`: adapted pages, its links, and the API reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qa.docs import api_reference, links
from qa.docs.build import openapi_document
from qa.docs.pages import adapted, navigation

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/lab.md", "docs/zoo.md", "docs/design/feed.md"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See [lab](../lab.md#start).", "See [lab](../lab.md#start)."),
        ("[here](#below) [there](https://example.org/a)", "[here](#below) [there](https://example.org/a)"),
        ("[tests/a.py](../../tests/a.py)", "tests/a.py"),
        ("[the test](../../tests/a.py)", "the test (`tests/a.py`)"),
        ("![plot](../images/a.svg)", "![plot](../images/a.svg)"),
        ("```\n[x](../../a.py)\ntext:\n- item\n```", "```\n[x](../../a.py)\ntext:\n- item\n```"),
        ("text:\n- one\n- two\n  more", "text:\n\n- one\n- two\n  more"),
        ("text:\n1. one\n2. two", "text:\n\n1. one\n2. two"),
        ("# Head\n- one", "# Head\n- one"),
        ("text\n| a |\n|---|", "text\n\n| a |\n|---|"),
    ],
)
def test_pages_are_adapted(text: str, expected: str) -> None:
    assert adapted("docs/design/feed.md", text, PAGES) == f"{expected}\n"


def test_every_page_is_in_the_navigation() -> None:
    found = [page for section in navigation(PAGES, ["index.md"]) for pages in section.values() for page in pages]  # type: ignore[attr-defined]
    assert sorted(found) == sorted([*PAGES, "api/index.md"])


# --- links of the site ----------------------------------------------------------------------------------------------------


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "index.html").write_text('<h2 id="here"></h2><a href="../index.html">up</a>')
    (tmp_path / "index.html").write_text(
        '<a href="a%20b/#here">1</a><a href="a%20b/#gone">2</a><a href="gone.html">3</a><a href="#gone">4</a>'
        '<a href="https://example.org/">5</a><img src="gone.png"><script src="https://example.org/x.js"></script>'
        '<link rel="canonical" href="https://example.org/">'
    )
    assert links.problems(tmp_path) == [
        "index.html: fetches https://example.org/x.js",
        "index.html: a%20b/#gone: no such anchor",
        "index.html: gone.html: no such file",
        "index.html: #gone: no such anchor",
        "index.html: gone.png: no such file",
    ]


# --- API reference --------------------------------------------------------------------------------------------------------

DOCUMENT = {
    "tags": [{"name": "index"}, {"name": "unused"}],
    "paths": {
        "/v2.0/index/{thing_id}": {
            "parameters": [{"name": "thing_id", "in": "path", "schema": {"type": "string"}}],
            "put": {
                "operationId": "put",
                "summary": "Update: thing",
                "tags": ["index"],
                "requestBody": {
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"thing": {"$ref": "#/components/schemas/ThingUpdate"}},
                            }
                        }
                    }
                },
                "responses": {"200": {"$ref": "#/components/responses/Done"}, "404": {"description": "No."}},
            },
        }
    },
    "components": {
        "responses": {"Done": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}},
        "schemas": {
            "Thing": {"type": "object", "properties": {"kind": {"enum": ["a", "b|c"]}}},
            "ThingUpdate": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": 255},
                    "up": {"type": "boolean", "default": True},
                    "size": {
                        "anyOf": [{"type": "integer"}, {"type": "null"}],
                        "default": None,
                        "description": "In <GB>.",
                    },
                },
            },
        },
    },
}


def test_reference_of_an_operation() -> None:
    pages = api_reference.pages(DOCUMENT)
    assert list(pages) == ["index.md", "api-index.md", "objects.md"]
    page = pages["api-index.md"]
    assert "## Update: thing\n\n`PUT /v2.0/index/{thing_id}`\n" in page
    assert "| `thing_id` | path | string |  |" in page
    assert "| `thing.name` | string | required | at most 255 characters |" in page
    assert "| `thing.up` | boolean | `true` |  |" in page
    assert "| `thing.size` | integer or null | `null` | In &lt;GB>. |" in page
    assert "Answers: 200: [Thing](objects.md#thing), 404\n" in page
    assert "| `kind` | one of `a`, `b\\|c` |  |" in pages["objects.md"]


def test_the_reference_has_every_operation_of_the_server() -> None:
    document = openapi_document()
    pages = api_reference.pages(document)
    shown = set(re.findall(r"^`([A-Z]+) (/\S*)`$", "\n".join(pages.values()), re.MULTILINE))
    served = {(verb.upper(), path) for path, item in document["paths"].items() for verb in item if verb != "parameters"}
    assert served == shown
    assert ("PUT", "/v2.0/routers/{router_id}/add_router_interface") in shown
    targets = set(re.findall(r"\(objects\.md#([^)]+)\)", "\n".join(pages.values())))
    assert targets <= {name.lower() for name in document["components"]["schemas"]}
