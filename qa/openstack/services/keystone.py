"""Keystone with Fernet tokens, and the users that the other services have in common."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

from qa.openstack.cloud import PASSWORD, REGION, Cloud, ini

DEMO_ROLES = ("member", "reader")
OPERATOR = ("operator", "demo")  # an administrator in the project demo: who may choose the host of a server


def start(cloud: Cloud) -> None:
    keys = {name: cloud.directory("keystone", name) for name in ("fernet", "credential")}
    for directory in keys.values():  # as "keystone-manage fernet_setup" does, without the seconds that it takes
        for name in ("0", "1"):
            (directory / name).write_text(base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
            (directory / name).chmod(0o600)
    config = cloud.write(
        "keystone.conf",
        ini(
            {
                "database": {"connection": cloud.database("keystone")},
                "token": {"provider": "fernet", "expiration": 36000},
                "fernet_tokens": {"key_repository": keys["fernet"]},
                "fernet_receipts": {"key_repository": keys["fernet"]},
                "credential": {"key_repository": keys["credential"]},
                "identity": {"password_hash_rounds": 4},  # the lowest: these passwords protect nothing
                "cache": {"backend": "dogpile.cache.memory_pickle"},  # one process: never stale
            }
        ),
    )
    manage: list[str | Path] = [cloud.program("keystone-manage"), "--config-file", config]
    cloud.run([*manage, "db_sync"])
    urls = [f"--bootstrap-{kind}-url={cloud.auth_url}/" for kind in ("admin", "public", "internal")]
    cloud.run([*manage, "bootstrap", f"--bootstrap-password={PASSWORD}", *urls, f"--bootstrap-region-id={REGION}"])
    cloud.wsgi("keystone", "keystone.wsgi.api:application", {"OS_KEYSTONE_CONFIG_FILES": str(config)})
    cloud.keystone_user("demo", DEMO_ROLES, "demo")
    cloud.keystone_user(OPERATOR[0], (*DEMO_ROLES, "admin"), OPERATOR[1])
