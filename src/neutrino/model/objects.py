"""Types of an API object as JSON has it: attributes by their names.

Attributes are declared by name where a resource is (`server/api/resources`); their types here are those of JSON.
"""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
Values = Mapping[str, Any]  # an object, a row or a part of one that is only read
