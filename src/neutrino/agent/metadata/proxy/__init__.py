"""The process that serves metadata: it has no rights, no configuration file and no connection to the server."""
