"""What goes wrong in a lab, told in one sentence."""

from __future__ import annotations


class LabError(Exception):
    """Something that the user of a lab is told."""
