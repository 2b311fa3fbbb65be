"""Glance with images in files."""

from __future__ import annotations

import shutil

from qa.openstack.cloud import ADDRESS, PORTS, Cloud, ini

USER = "glance"
PASTE = "glance-api-paste.ini"


def start(cloud: Cloud) -> None:
    cloud.keystone_user(USER)
    cloud.endpoint(USER, "image", f"http://{ADDRESS}:{PORTS['glance']}")
    stores = {name: cloud.directory("glance", name) for name in ("images", "staging", "tasks")}
    sections: dict[str, dict[str, object]] = {
        "DEFAULT": {"enabled_backends": "file:file"},
        "glance_store": {"default_backend": "file"},
        "file": {"filesystem_store_datadir": stores["images"]},
        "os_glance_staging_store": {"filesystem_store_datadir": stores["staging"]},
        "os_glance_tasks_store": {"filesystem_store_datadir": stores["tasks"]},
        "database": {"connection": cloud.database("glance")},
        "paste_deploy": {"flavor": "keystone", "config_file": cloud.etc / "glance" / PASTE},
        "image_format": {"require_image_format_match": "false"},  # a kernel and an initramfs are of no format
    }
    config = cloud.write("glance/glance-api.conf", ini(sections) + cloud.authtoken(USER))
    shutil.copy(cloud.venv / "etc" / "glance" / PASTE, config.parent)
    cloud.run([cloud.program("glance-manage"), "--config-file", config, "db_sync"])
    environment = {"OS_GLANCE_CONFIG_DIR": str(config.parent), "OS_GLANCE_CONFIG_FILES": config.name}
    cloud.wsgi("glance", "glance.wsgi.api:application", environment)
