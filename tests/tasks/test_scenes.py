"""Images of several digits: what is in them, where, and how often."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nalu_ray.data import mnist
from nalu_ray.data.mnist import Digits
from nalu_ray.seeding import Streams
from nalu_ray.tasks.parity import data as scenes


def streams(seeds: tuple[int, ...] = (0,)) -> Streams:
    return Streams("scenes", seeds, "train")


def dots() -> Digits:
    """Ten images with ink d + 1 at one pixel, so that a scene says what is in it, and where."""
    images = torch.zeros(10, 28, 28, dtype=torch.uint8)
    images[:, 14, 14] = torch.arange(1, 11).byte()
    return Digits(images, torch.arange(10))


@pytest.mark.parametrize("distance", [14, 28])
def test_digits_are_apart_and_the_label_counts_the_even_ones(distance: int) -> None:
    found = scenes.draw(streams(), 2000, dots(), distance)
    assert found.images.shape == (1, 2000, 100, 100)
    assert found.images.dtype == torch.uint8
    for image, even in zip(found.images[0], found.even[0].tolist(), strict=True):
        places = image.nonzero()
        digits = [int(image[tuple(place)]) - 1 for place in places]
        assert len(digits) <= 5
        assert sum(digit % 2 == 0 for digit in digits) == even
        assert ((places >= 14) & (places < 86)).all()
        apart = torch.pdist(places.double())
        assert not len(apart) or apart.min() >= distance


def test_counts_are_uniform_and_every_place_and_digit_occurs() -> None:
    found = scenes.draw(streams(), 12_000, dots(), 0)
    # where the ink is, as to look at every pixel again and again takes seconds
    scene, row, _ = places = (found.images[0] > 0).nonzero(as_tuple=True)
    drawn = torch.bincount(scene, minlength=12_000)
    counts = torch.bincount(drawn, minlength=6) / 12_000
    # with no distance two dots may fall on one another, rarely
    assert counts.tolist() == pytest.approx([1 / 6] * 6, abs=0.012)
    inked = torch.bincount(torch.stack([scene, row]).unique(dim=1)[1], minlength=100)
    assert (inked[14:86] > 250).all()
    assert inked[:14].sum() == inked[86:].sum() == 0
    values = torch.bincount(found.images[0][places].long()) / len(scene)  # above 10: two dots
    assert values[:11].tolist() == pytest.approx([0.0] + [0.1] * 10, abs=0.01)


def test_class_shares_are_those_of_the_public_generator() -> None:
    found = scenes.draw(streams(), 20_000, mnist.load(train=False), 14)
    shares = torch.bincount(found.even[0], minlength=6) / 20_000
    expected = [0.333, 0.299, 0.217, 0.112, 0.035, 0.005]
    assert shares.tolist() == pytest.approx(expected, abs=0.012)


def test_ink_adds_up_and_is_clipped() -> None:
    """Against each digit added by itself, one image after the other."""
    digits = mnist.load(train=True)
    part = Digits(digits.images[:50], digits.labels[:50])
    (rng,) = streams().generators
    present = np.arange(5) < rng.integers(0, 6, (40, 1))
    chosen = rng.integers(0, 50, (40, 5))
    centres = scenes.place(rng, present, 14)
    found = scenes.draw(streams(), 40, part, 14)
    clipped = 0
    for n in range(40):
        canvas = np.zeros((100, 100), int)
        for k in range(present[n].sum()):
            row, column = centres[n, k] - 14
            canvas[row : row + 28, column : column + 28] += part.images[chosen[n, k]].numpy()
        clipped += int((canvas > 255).sum())
        assert np.array_equal(found.images[0, n].numpy(), canvas.clip(max=255))
        labels = part.labels[chosen[n, : present[n].sum()]]
        assert found.even[0, n] == (labels % 2 == 0).sum()
    assert clipped > 0


def test_a_seed_does_not_depend_on_the_others() -> None:
    both = scenes.draw(streams((0, 5)), 30, dots(), 28)
    alone = scenes.draw(streams((5,)), 30, dots(), 28)
    assert torch.equal(both.images[1], alone.images[0])
    assert torch.equal(both.even[1], alone.even[0])
    assert not torch.equal(both.images[0], both.images[1])


def test_an_image_whose_digits_find_no_place_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "TRIES", 1)
    present = np.ones((300, 5), bool)
    centres = scenes.place(np.random.default_rng(0), present, 28)
    for placed in centres:
        assert torch.pdist(torch.from_numpy(placed).double()).min() >= 28


@pytest.mark.parametrize("distance", [-1, 31])
def test_a_distance_that_is_not_always_possible_is_refused(distance: int) -> None:
    with pytest.raises(ValueError, match=rf"^min_distance must be in 0 to 30, got {distance}$"):
        scenes.draw(streams(), 1, dots(), distance)
