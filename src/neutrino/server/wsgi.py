"""The application for any WSGI server: granian, uwsgi, gunicorn, mod_wsgi.

NEUTRINO_CONFIG_FILES names the configuration files, separated by colons.
"""

import logging
import os

from neutrino.server import config, main

_files = [name for name in os.environ.get("NEUTRINO_CONFIG_FILES", "").split(":") if name]
_server = main.assemble(config.configuration(_files))
application = main.application(_server)
main.report(_server)
if _server.conf.use_ssl:
    logging.getLogger(__name__).warning("use_ssl has no effect here: configure TLS in the WSGI server")
