"""The application for any WSGI server: granian, uwsgi, gunicorn, mod_wsgi.

NEUTRINO_CONFIG_FILES names the configuration files, separated by colons.
"""

from __future__ import annotations

import os

from neutrino.server.main import assemble, configuration
from neutrino.server.process import application as application_of

_files = [name for name in os.environ.get("NEUTRINO_CONFIG_FILES", "").split(":") if name]
application = application_of(assemble(configuration(_files)))
