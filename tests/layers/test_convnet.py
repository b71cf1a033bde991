"""The convnet of PyTorch's example against its layers written out, and how many numbers it has."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import Conv2d, DigitConvnet, Features
from nalu_ray.layers.convnet import channels_last


def images(count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 28, 28), generator=generator, dtype=torch.uint8)


def written_out(net: DigitConvnet, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden layer and logits, in the order of the example: pool, then rectify."""
    assert net.outer is not None
    layers = nn.Sequential(
        net.first, nn.MaxPool2d(2), nn.ReLU(), net.second, nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), net.inner, nn.ReLU(),
    )  # fmt: skip
    hidden = layers((pixels / 255 - 0.1307)[:, None] / 0.3081)
    return hidden, net.outer(hidden)


def test_equal_to_the_layers_written_out() -> None:
    net, pixels = DigitConvnet(), images()
    hidden, logits = written_out(net, pixels.float())
    torch.testing.assert_close(net(pixels), logits)
    wanted: dict[Features, Tensor] = {
        "softmax": logits.softmax(1),
        "log_softmax": logits.log_softmax(1),
        "hidden": hidden,
    }
    for features, expected in wanted.items():
        other = DigitConvnet(features)
        other.load_state_dict(net.state_dict(), strict=False)
        torch.testing.assert_close(other(pixels), expected)
        assert other.out_features == expected.shape[1]


@pytest.mark.parametrize(("features", "count"), [("logits", 21_840), ("hidden", 21_330)])
def test_number_of_parameters(features: Features, count: int) -> None:
    assert sum(p.numel() for p in DigitConvnet(features).parameters()) == count


def test_unknown_features_are_named() -> None:
    with pytest.raises(ValueError, match=r"^features must be one of logits, .*hidden, got 'no'$"):
        DigitConvnet("no")  # type: ignore[arg-type]


@pytest.mark.parametrize(("channels", "strides"), [(1, (25, 1, 5, 1)), (3, (75, 1, 15, 3))])
def test_the_layout_is_one_that_torch_reads_as_channels_last(
    channels: int, strides: tuple[int, ...]
) -> None:
    layer = Conv2d(channels, 4, 5)
    weight = channels_last(layer.weight)
    assert weight.stride() == strides
    assert torch.equal(weight, layer.weight)
    x = torch.randn(2, channels, 9, 8)
    wanted = nn.functional.conv2d(x, layer.weight, layer.bias)
    y = layer(x)
    torch.testing.assert_close(y, wanted)
    assert y.is_contiguous(memory_format=torch.channels_last)
    (gradient,) = torch.autograd.grad(y.square().sum(), layer.weight)
    (expected,) = torch.autograd.grad(wanted.square().sum(), layer.weight)
    torch.testing.assert_close(gradient, expected)
