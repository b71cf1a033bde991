"""What becomes of a command whose standard streams cannot be written: it goes on, and says so."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nalu_ray import tune
from nalu_ray.command import exits
from nalu_ray.results.store.store import Store
from nalu_ray.sweep import stdio
from nalu_ray.sweep.stdio import Stream
from nalu_ray.sweep.warnings import WarningRelay
from tests.conftest import PYTHONPATH

PYTHON = sys.executable
TUNE = f"{PYTHON} -m nalu_ray.tune"
FAKE = f"{TUNE} fake layer=a lr=1 seeds=2 --local"
pytestmark = pytest.mark.xdist_group("stdio")  # one process makes the results
full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


def shell(line: str, folder: Path, **variables: str) -> tuple[int, str, str]:
    """Runs a line as a shell does whose pipes tell of each part's failure."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, **variables},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=120,
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert "Error" not in done.stderr
    return done.returncode, done.stdout, done.stderr


# -- one stream ------------------------------------------------------------------------------------


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    """A reader's end, and a stream that writes to it."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w", encoding="utf-8")
    yield reader, stream
    stream.close()


def test_a_reader_that_goes_away_ends_the_printing(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reader, inner = pipe
    stream = Stream(inner)
    print("one", file=stream, flush=True)
    assert os.read(reader, 10) == b"one\n"
    os.close(reader)
    for _ in range(3):
        print("two", file=stream, flush=True)
    assert isinstance(stream.error, BrokenPipeError)
    assert stream.lost is None
    inner.flush()  # as the interpreter does in the end


@full
def test_a_full_disk_is_a_loss() -> None:
    with open("/dev/full", "w", encoding="utf-8") as inner:
        stream = Stream(inner)
        print("one", file=stream, flush=True)
        assert stream.lost == "No space left on device"


def test_a_closed_stream_is_silent() -> None:
    inner = io.StringIO()
    inner.close()
    stream = Stream(inner)
    stream.writelines(["one", "two"])
    stream.flush()
    assert stream.lost is None


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("ascii", "a – b × c ± √2² …", "a - b x c +- sqrt 2^2 ..."),
        ("ascii", "café ∞ 中", r"cafe inf \u4e2d"),
        ("ascii", "½", r"\xbd"),
        ("latin-1", "é × – ≥", "é × - >="),
        ("utf-8", "a – b\udce4", "a – b\\udce4"),
    ],
)
def test_what_an_encoding_lacks_is_written_otherwise(
    encoding: str, text: str, written: str
) -> None:
    data = io.BytesIO()
    stream = Stream(io.TextIOWrapper(data, encoding=encoding))
    print(text, end="", file=stream, flush=True)
    assert data.getvalue().decode(encoding) == written
    assert stream.error is None


def test_streams_are_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with stdio.lasting():
        print("text")
        print("other", file=sys.stderr)
    assert (sys.stdout, sys.stderr) == before
    assert capsys.readouterr() == ("text\n", "other\n")


def test_no_streams_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)

    def command() -> int:
        print("text")
        sys.stdout.flush()
        print("other", file=sys.stderr)
        return 1

    assert exits.guarded(command) == 1


@full
@pytest.mark.parametrize(
    ("printed", "ends", "code"), [(True, 0, 3), (True, 1, 1), (False, 0, 0), (False, 1, 1)]
)
def test_the_exit_code_where_what_is_printed_is_lost(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    printed: bool,
    ends: int,
    code: int,
) -> None:
    def command() -> int:
        print("text")
        return ends

    with open("/dev/full", "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert exits.guarded(command, printed=printed) == code
    what = "error" if printed else "warning"
    assert capsys.readouterr().err == f"{what}: cannot write to stdout: No space left on device\n"


# -- warnings --------------------------------------------------------------------------------------


def test_who_warns_never_fails() -> None:
    def tell(text: str) -> None:
        raise BrokenPipeError

    with WarningRelay(tell):
        warnings.warn("weights look odd", stacklevel=1)
    cannot_be_formatted = logging.makeLogRecord({"msg": "%d of %d", "args": ("one",)})
    assert WarningRelay([].append).handle(cannot_be_formatted) is False


# -- whole commands --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "streams",
    [
        "| true",
        "<&- >&- 2>&-",
        pytest.param(">/dev/full 2>&1", marks=full),
    ],
)
def test_a_training_goes_on_whatever_its_streams(tmp_path: Path, streams: str) -> None:
    code, _, _ = shell(f"{FAKE} wrong=warn {streams}", tmp_path)
    assert code == 0
    outcomes = Store(str(tmp_path / "results")).outcomes("fake")
    assert [outcome.ok for outcome in outcomes.values()] == [True, True]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of a task without figures, which are slow to draw."""
    folder = tmp_path_factory.mktemp("stored")
    fields = "layer=nac op=add seeds=2 steps=4 evaluations=1 batch=4 test_size=4"
    words = f"static {fields} --local -q --out {folder}/results"
    assert tune.main(words.split()) == 0
    store = Store(str(folder / "results"))
    specs = store.specs("static")
    assert specs
    store.write_specs(specs.model_copy(update={"figures": ()}))
    return folder


@pytest.mark.parametrize(
    ("line", "code", "starts"),
    [
        ("report static | head -1", 0, "Simple"),
        ("report static >&-", 0, ""),
        ("report static --format md", 0, "**"),
        pytest.param("report static >/dev/full", 3, "", marks=full),
        pytest.param("report --help >/dev/full", 3, "", marks=full),
        ("tune --help | head -1", 0, "usage"),
        (" --help | true", 0, ""),
        (" --help | head -1", 0, "usage"),
        (" --help >&-", 0, ""),
        pytest.param(" --version >/dev/full", 3, "", marks=full),
    ],
)
def test_commands_that_print(results: Path, line: str, code: int, starts: str) -> None:
    module, _, rest = line.partition(" ")
    command = f"{PYTHON} -m {'.'.join(filter(None, ['nalu_ray', module]))} {rest}"
    status, out, err = shell(command, results, PYTHONIOENCODING="ascii")
    assert (status, out[: len(starts)]) == (code, starts)
    assert out.isascii()
    assert "Traceback" not in err


@full
def test_a_configuration_that_is_lost_is_an_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert tune.main(["static", "--print-config"]) == 3
    assert capsys.readouterr().err == "error: cannot write to stdout: No space left on device\n"


def test_a_unit_that_prints_is_none_the_worse(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    start = type(fake).start

    def chatty(task: Any, *arguments: Any) -> Any:
        print("a unit says", flush=True)
        print("a unit says", file=sys.stderr, flush=True)
        return start(task, *arguments)

    monkeypatch.setattr(type(fake), "start", chatty)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        monkeypatch.setattr(sys, "stderr", gone)
        assert tune.main(["fake", "layer=a", "lr=1", "seeds=2", "--local"]) == 0
    outcomes = Store("results").outcomes("fake")
    assert [outcome.ok for outcome in outcomes.values()] == [True, True]
