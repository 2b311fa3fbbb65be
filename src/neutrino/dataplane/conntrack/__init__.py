"""Connections that a tracker follows, and ending those that no rule allows any more."""
