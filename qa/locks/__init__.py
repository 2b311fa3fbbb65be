"""Checks the locks against the package index: what can be installed on both architectures and all Pythons."""
