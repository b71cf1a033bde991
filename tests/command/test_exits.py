from __future__ import annotations

import pytest

from nalu_ray.command import exits


@pytest.mark.parametrize(
    ("raised", "code"),
    [(KeyboardInterrupt(), 130), (exits.Terminated(), 143), (SystemExit(15), 143)],
)
def test_every_way_to_end_has_its_exit_code(raised: BaseException, code: int) -> None:
    def command() -> int:
        raise raised

    assert exits.guarded(command) == code
