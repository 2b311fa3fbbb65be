"""Changes of objects, from the change log. `history.py` serves them: the response has the log's head too."""

from neutrino.server.api import types as t
from neutrino.server.api.definition import Attribute, Resource

CHANGE = Resource(
    name="change",
    verbs=frozenset({"index"}),
    key="position",
    attributes=(
        Attribute("position", t.Integer()),
        Attribute("at", t.Text(20)),
        Attribute("kind", t.Text(32), filter=True),
        Attribute("object_id", t.Text(), filter=True),
        Attribute("action", t.OneOf(("created", "updated", "deleted"))),
        Attribute("project_id", t.Nullable(t.Text())),
        Attribute("request_id", t.Nullable(t.Text(64))),
        Attribute("user_id", t.Nullable(t.Text(255))),
        Attribute("changed", t.ListOf(t.AnyObject())),  # of an update: name, old and new
    ),
)
