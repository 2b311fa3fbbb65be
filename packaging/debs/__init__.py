"""Builds the Debian packages and the wheel (`packaging/build`), and releases (`packaging/release`)."""
