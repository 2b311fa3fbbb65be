"""Builds the Debian packages and the wheel: `packaging/build` is the command."""
