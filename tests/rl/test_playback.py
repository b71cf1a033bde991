"""Moments of episodes, and what is shown of them as text."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from rich.console import Console

from envs import TimeGridworldEnv, World
from envs.world import ACTIONS
from nalu_ray.rl.agent.stored import Agent, Player
from nalu_ray.rl.animation import Moment, board, board_grid, ending, line, play
from tests.rl.scripted import scripted

WORLD = World(size=4, cell_pixels=4, walls=((1, 1),), instructions=(3, 6), time_limit=8)


def moments(rule: str, instruction: int, **options: int) -> list[Moment]:
    settings = {"episodes": 1, "time_limit": 20, **options}
    return list(play(Agent(scripted(WORLD, rule), WORLD), instruction, **settings))


def test_an_exact_episode() -> None:
    found = moments("exact", 11)
    assert [moment.t for moment in found] == list(range(12))
    assert [moment.remaining for moment in found] == list(range(11, -1, -1))
    last = found[-1]
    assert (last.outcome, last.action, last.probabilities) == ("exact", None, ())
    assert all(moment.outcome is None for moment in found[:-1])
    waited = 11 - last.distance
    assert {moment.action for moment in found[:waited]} == {"pass"}
    assert "pass" not in {moment.action for moment in found[waited:-1]}
    for moment in found[:-1]:
        assert moment.action is not None
        assert sum(moment.probabilities) == pytest.approx(1)
        assert moment.probabilities[ACTIONS.index(moment.action)] > 0.99


def test_pictures_follow_the_actions() -> None:
    found = moments("exact", 6)
    env = TimeGridworldEnv(observation="frame", size=4, walls=((1, 1),), instructions=6)
    seen, info = env.reset(seed=0)
    for moment in found[:-1]:
        assert (moment.frame, moment.distance) == (seen["frame"], info["distance"])
        assert moment.action is not None
        seen, *_ = env.step(ACTIONS.index(moment.action))
        info = {"distance": moment.distance}
    assert found[-1].frame == seen["frame"]


def test_every_way_to_end() -> None:
    straight = moments("straight", 15)[-1]
    assert straight.t == straight.distance
    assert straight.outcome == f"early by {15 - straight.distance}"
    late = moments("straight", 1, seed=3)[-1]
    assert late.distance > 1
    assert not late.feasible
    assert late.outcome == f"late by {late.distance - 1}"
    assert ending(late) == f"late by {late.distance - 1} (target {late.distance} away)"
    never = moments("never", 6, time_limit=9)[-1]
    assert (never.outcome, never.t) == ("never", 9)
    assert ending(never) == "never"


@pytest.mark.parametrize(
    ("t", "outcome"),
    [(3, "early by 2"), (4, "early by 1"), (5, "exact"), (6, "late by 1"), (9, "late by 4")],
)
def test_outcomes(t: int, outcome: str) -> None:
    assert Moment(1, 0, t, 5, 2, arrived=True).outcome == outcome
    assert Moment(1, 0, t, 5, 2, arrived=False).outcome == "never"
    assert Moment(1, 0, t, 5, 2, action="pass").outcome is None


def test_each_episode_draws_its_own_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    player = Agent.player

    def noted(agent: Agent, copies: int, *, greedy: bool, seed: int) -> Player:
        asked.append((copies, greedy, seed))
        return player(agent, copies, greedy=greedy, seed=seed)

    monkeypatch.setattr(Agent, "player", noted)
    moments("straight", 5, episodes=3, seed=7, greedy=False)
    assert asked == [(1, False, 7), (1, False, 8), (1, False, 9)]


def test_episodes_differ_and_come_again_by_seed() -> None:
    found = moments("exact", 12, episodes=3)
    assert [moment.episode for moment in found] == [1] * 13 + [2] * 13 + [3] * 13
    assert len({moment.frame for moment in found if moment.t == 0}) == 3
    assert moments("exact", 12, episodes=3) == found
    assert moments("exact", 12, episodes=3, seed=1) != found


# -- as text -------------------------------------------------------------------------------------


def at(agent: int, target: int, **values: object) -> Moment:
    given = {"episode": 1, "t": 2, "instruction": 5, "distance": 3, **values}
    return Moment(frame=agent * WORLD.cells + target, **given)  # type: ignore[arg-type]


WALK = {"action": "left", "probabilities": (0.1, 0.0, 0.75, 0.05, 0.1)}


def test_lines() -> None:
    """Cell 4 is the first of the second row, cell 5 the one behind the wall."""
    text = line(WORLD, at(4, 5, **WALK), 3)
    assert text == ("episode 1/3  T=5  t=2  remaining=3   agent (1, 0)  target (1, 2)  left (0.75)")
    last = line(WORLD, at(5, 5, t=7, arrived=True), 3)
    assert last == ("episode 1/3  T=5  t=7  remaining=-2  agent (1, 2)  target (1, 2)  late by 2")


def shown(moment: Moment) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(board(WORLD, moment, 3))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_board() -> None:
    text = shown(at(4, 5, **WALK))
    assert "episode 1 of 3" in text
    assert "T 5   t 2   remaining 3" in text
    assert f"left  {'█' * 15}{'░' * 5} 0.75" in text
    assert f"down  {'░' * 20} 0.00" in text
    assert "\x1b" not in text
    end = shown(at(5, 5, t=5, arrived=True))
    assert "exact" in end
    assert "▐▌" in end
    assert end.count("\n") == text.count("\n")  # nothing jumps


def test_colours_of_the_board_grid() -> None:
    text = board_grid(WORLD, 4 * WORLD.cells + 5)
    rows = text.plain.split("\n")
    assert [len(row) for row in rows] == [12] * 6
    places: dict[str, list[tuple[int, int]]] = {}
    for span in text.spans:
        places.setdefault(str(span.style).split(" on ")[1], []).append(
            (span.start // 13, span.start % 13 // 2)
        )
    assert places["rgb(150,150,150)"] == [(2, 1)]
    assert places["rgb(255,0,0)"] == [(2, 3)]
    assert len(places["rgb(0,0,0)"]) == 15 - 2
    assert len(places["rgb(52,62,92)"]) == 36 - 15
    assert (2, 2) in places["rgb(52,62,92)"]
    # what a terminal is given: rich keeps blanks that have a colour
    printed: Counter[str] = Counter()
    for segment in Console(width=100).render(board(WORLD, at(4, 5, **WALK), 3)):
        if segment.style is not None and segment.style.bgcolor is not None:
            printed[segment.style.bgcolor.name] += len(segment.text)
    assert printed == {name: 2 * len(cells) for name, cells in places.items()}
