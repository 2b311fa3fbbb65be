"""Whose word a port waits for before it is ACTIVE: one table of who is there, and who answers."""

import pytest

from neutrino.server.dhcp.lease_providers import Agent, choose_answering

HOME = Agent("h1")
PLAIN, OWN = Agent("h2"), Agent("h2", distributed=True)
DOWN, OWN_DOWN = Agent("h1", admin_state_up=False), Agent("h2", admin_state_up=False, distributed=True)


@pytest.mark.parametrize(
    ("scheduled", "on_host", "answering"),
    [
        ([HOME], [], [HOME]),
        ([HOME], [PLAIN], [HOME]),  # it serves networks that are scheduled to it, and this one is not
        ([HOME], [OWN], [OWN]),  # requests do not leave its host
        ([HOME, OWN], [OWN], [OWN]),
        ([HOME, PLAIN], [PLAIN], [HOME, PLAIN]),
        ([HOME], [OWN_DOWN], [HOME]),  # it has no copy
        ([DOWN], [OWN], [OWN]),  # the DHCP port is there, and so is its copy
        ([DOWN], [PLAIN], []),
        ([], [OWN], []),  # of no port there is no copy
        ([], [], []),
    ],
)
def test_who_answers(scheduled: list[Agent], on_host: list[Agent], answering: list[Agent]) -> None:
    assert choose_answering(scheduled, on_host) == answering
