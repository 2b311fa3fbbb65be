"""Placement, where Nova keeps the inventory of its hosts."""

from __future__ import annotations

from qa.openstack.cloud import ADDRESS, PORTS, Cloud, ini

USER = "placement"


def start(cloud: Cloud) -> None:
    cloud.keystone_user(USER)
    cloud.endpoint(USER, "placement", f"http://{ADDRESS}:{PORTS['placement']}")
    sections = {"api": {"auth_strategy": "keystone"}, "placement_database": {"connection": cloud.database("placement")}}
    config = cloud.write("placement/placement.conf", ini(sections) + cloud.authtoken(USER))
    cloud.run([cloud.program("placement-manage"), "--config-file", config, "db", "sync"])
    cloud.wsgi("placement", "placement.wsgi.api:application", {"OS_PLACEMENT_CONFIG_DIR": str(config.parent)})
