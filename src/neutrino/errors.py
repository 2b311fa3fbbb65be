"""Errors that a command prints in one line without a traceback: the text has the cause and the fix."""


class OperatorError(Exception):
    """A command cannot do its work."""

    exit_status = 1  # the machine or a required server is not available, a retry may succeed


class RefusedToStart(OperatorError):
    """Server or agent cannot start with this configuration, or it would be insecure; the message names the option."""

    exit_status = 2  # wrong options or configuration: a retry is pointless
