"""Field types as the command line writes them."""

from __future__ import annotations

from nalu_ray.tasks.static import TASK, StaticSetting


def test_texts_of_the_command_line_become_what_they_mean() -> None:
    setting = StaticSetting.model_validate(
        {"gate_init": "0.2:glorot", "options": "epsilon:1e-5;m_hat_init:normal",
         "weight_init": "0.1", "train_range": "-1:1", "test_range": "1:2", "op": "sub",
         "steps": "1_000", "clip": "0.5"}
    )  # fmt: skip
    assert setting.gate_init == (0.2, "glorot")
    assert setting.options == {"epsilon": 1e-5, "m_hat_init": "normal"}
    whole = StaticSetting.model_validate({"options": "a:8;b:8.0"}).options
    assert [type(value) for value in whole.values()] == [int, float]
    assert setting.weight_init == 0.1
    assert setting.train_range == (-1.0, 1.0)
    assert (setting.steps, setting.clip) == (1000, 0.5)


def test_the_network_gets_each_layers_initialisation() -> None:
    first, second = TASK.build(StaticSetting(layer="nalu", gate_init=(0.25, -0.5), weight_init=0.0))
    assert (first.G == 0.25).all()
    assert (second.G == -0.5).all()
    assert not first.W_hat.any()
    first, second = TASK.build(StaticSetting(layer="nac_nalu", gate_init=(0.25, -0.5)))
    assert (second.G == -0.5).all()
    assert first.W_hat.abs().max() <= 0.5
    TASK.build(StaticSetting(layer="tanh"))
