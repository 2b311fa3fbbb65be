"""Identity of a database: a UUID. Pure.

Positions of the change log are comparable only in a database with the same identity. A restored backup gets a new one, of
which all groups but the last stay: it has the objects of the same cloud, and hosts accept it. The identity of another
database begins differently.
"""

import uuid


def new_identity() -> str:
    return str(uuid.uuid4())


def renewed(identity: str) -> str:
    """Return the identity of the same database after a restored backup."""
    return f"{_cloud(identity)}-{uuid.uuid4().hex[-12:]}"


def is_same_cloud(one: str, other: str) -> bool:
    """Whether both are of one database, maybe before and after a restored backup."""
    return _cloud(one) == _cloud(other)


def _cloud(identity: str) -> str:
    return identity.rpartition("-")[0]
