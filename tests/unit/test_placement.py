"""Which agents take a network: the choice, by a table."""

import pytest

from neutrino.server.scheduling.placements import Candidate, choose

C = Candidate


@pytest.mark.parametrize(
    "candidates, wanted, hints, hosted, expected",
    [
        pytest.param([], 1, [], [], [], id="no agents"),
        pytest.param([C("a"), C("b")], 1, [], [], ["a"], id="stable order"),
        pytest.param([C("b"), C("a")], 1, [], [], ["a"], id="independent of the order"),
        pytest.param([C("a", load=5), C("b", load=2)], 1, [], [], ["b"], id="least load"),
        pytest.param([C("a"), C("b")], 5, [], [], ["a", "b"], id="as many as can be"),
        pytest.param([C("a"), C("b")], 0, [], [], [], id="none wanted"),
        pytest.param([C("a", alive=False), C("b", load=9)], 1, [], [], ["b"], id="not a dead one"),
        pytest.param([C("a", admin_state_up=False)], 1, [], [], [], id="not one that is down"),
        pytest.param([C("a"), C("b")], 1, [], ["a"], [], id="has enough"),
        pytest.param([C("a"), C("b")], 2, [], ["a"], ["b"], id="never one twice"),
        pytest.param([C("a", alive=False), C("b")], 1, [], ["a"], [], id="a dead one counts until it is moved"),
        pytest.param([C("a", admin_state_up=False), C("b")], 1, [], ["a"], ["b"], id="one that is down does not"),
        pytest.param(
            [C("a", admin_state_up=False, left_if_disabled=False), C("b")], 1, [], ["a"], [], id="unless objects stay"
        ),
        pytest.param([C("a", "z1"), C("b", "z2", 9)], 1, ["z2"], [], ["b"], id="hinted zone before load"),
        pytest.param([C("a", "z1"), C("b")], 1, ["z2"], [], [], id="no agent in the hinted zone"),
        pytest.param(
            [C("a", "z1"), C("b", "z1", 1), C("c", "z2", 9)], 2, [], [], ["a", "c"], id="spread over all zones"
        ),
        pytest.param(
            [C("a", "z1"), C("b", "z1"), C("c", "z2", 9), C("d", "z3")],
            2,
            ["z1", "z2"],
            [],
            ["a", "c"],
            id="spread over the hinted zones",
        ),
        pytest.param(
            [C("a", "z1"), C("b", "z1"), C("c", "z2", 9)], 2, [], ["a"], ["c"], id="away from the zone it is in"
        ),
        pytest.param(
            [C("a", "z1", alive=False), C("b", "z1"), C("c", "z2", 9)],
            2,
            [],
            ["a"],
            ["c"],
            id="a dead one holds its zone",
        ),
        pytest.param(
            [C("a", "z1", 1), C("b", "z1"), C("c", "z1", 2)], 2, ["z1"], [], ["b", "a"], id="one zone, by load"
        ),
    ],
)
def test_choose(
    candidates: list[Candidate], wanted: int, hints: list[str], hosted: list[str], expected: list[str]
) -> None:
    assert choose(candidates, wanted, hints, hosted) == expected
