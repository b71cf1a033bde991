"""Random streams depend on (task, seed, purpose) alone."""

from __future__ import annotations

import json

import numpy as np

from nalu_ray.seeding import Streams, entropy, generator


def test_a_seeds_numbers_do_not_depend_on_its_block() -> None:
    block = Streams("t", [3, 1, 7], "train")
    alone = Streams("t", [7], "train")
    for _ in range(3):
        assert np.array_equal(block.uniform((4, 2), 1, 3)[2], alone.uniform((4, 2), 1, 3)[0])
    assert np.array_equal(block.integers((5,), 0, 9)[2], alone.integers((5,), 0, 9)[0])


def test_each_of_task_seed_and_purpose_matters() -> None:
    names = [("a", 1, "x"), ("b", 1, "x"), ("a", 2, "x"), ("a", 1, "y"), ("a", 11, "x")]
    assert len({entropy(*name) for name in names}) == len(names)
    assert len({generator(*name).random() for name in names}) == len(names)


def test_entropy_is_the_same_for_ever() -> None:
    assert entropy("static", 0, "train") == 0x8882C498F19CC1D58B4AAFB8615AD2F5


def test_uniform_fills_its_range_and_an_array_given_to_it() -> None:
    out = np.empty((2, 1000), np.float32)
    drawn = Streams("t", [0, 1], "train").uniform((1000,), -3, 5, out=out)
    assert drawn is out
    assert -3 <= drawn.min() < -2.9
    assert 4.9 < drawn.max() < 5


def test_shared_streams_are_one_generator_for_any_block() -> None:
    one, other = (Streams("t", seeds, "train", shared=True) for seeds in ([1], [2, 3, 4]))
    assert len(other) == 1
    assert np.array_equal(one.uniform((3,)), other.uniform((3,)))


def test_state_is_json_and_goes_on_exactly() -> None:
    first = Streams("t", [0, 1], "train")
    first.uniform((5,))
    first.integers((3,), 0, 2**20)
    second = Streams("t", [0, 1], "train")
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert np.array_equal(first.uniform((4,)), second.uniform((4,)))
    assert np.array_equal(first.integers((4,), 0, 99), second.integers((4,), 0, 99))


def test_one_seeds_draw_leaves_the_others_alone() -> None:
    streams, untouched = Streams("t", [0, 1], "train"), Streams("t", [0], "train")
    assert streams.one(1, (3, 2), 1.0, 2.0).shape == (3, 2)
    assert np.array_equal(streams.uniform((4,))[0], untouched.uniform((4,))[0])
