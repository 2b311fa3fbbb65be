"""The application for any WSGI server: granian, uwsgi, gunicorn, mod_wsgi.

NEUTRINO_CONFIG_FILES names the configuration files, separated by colons.
"""

import os

from neutrino.server import config, main

_files = [name for name in os.environ.get("NEUTRINO_CONFIG_FILES", "").split(":") if name]
application = main.application(main.assemble(config.configuration(_files)))
