"""Plays a trained gridworld agent in the terminal, or saves it as a GIF or MP4."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.live import Live

from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.network_choice import Chosen, add_options, choose, shipped_agent
from nalu_ray.command.words import Parser, assignments, number, whole
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.input import invocation
from nalu_ray.results.store import paths
from nalu_ray.rl import animation
from nalu_ray.rl.agent.choice import best
from nalu_ray.rl.agent.description import description, doubts
from nalu_ray.rl.agent.stored import Agent, AgentError
from nalu_ray.rl.animation import Moment, play
from nalu_ray.rl.rollout import TASK
from nalu_ray.sweep.warnings import WarningRelay

_EXAMPLES = """\
examples:
  python -m nalu_ray.watch gridworld --t 19
      the best stored agent, told to arrive at time 19; if none is stored, the one
      that comes with nalu-ray
  python -m nalu_ray.watch gridworld variant=nac_core algorithm=a3c --t 50 --episodes 5
      the best agent with these fields
  python -m nalu_ray.watch gridworld --t 19 --checkpoint results/gridworld/NAME.agent.pt --plain
      one line per step, as when the output is not a terminal
  python -m nalu_ray.watch gridworld variant=lstm --t 60 --shipped
      the LSTM that comes with nalu-ray, whatever is stored
  python -m nalu_ray.watch gridworld --t 19 --save agent.gif
      save an animation instead of playing it here

exit codes: 0 success, 2 wrong usage or input, 3 the results cannot be read, 130 Ctrl-C
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    try:
        return _watch(argv)
    except KeyboardInterrupt:  # nothing is lost
        return Exit.INTERRUPTED


def _watch(argv: Sequence[str] | None) -> int:
    options, unknown = _parser().parse_known_intermixed_args(argv)
    if options.help:
        print(_parser().format_help(), end="")
        return Exit.DONE
    wanted = _checked(options, unknown)
    with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
        chosen = _agent(options, wanted)
    agent = chosen.network
    limit = options.time_limit or max(agent.world.time_limit, 2 * options.t)
    print(chosen.header("agent", description(agent)), flush=True)
    scores = chosen.shipped.scores if chosen.shipped else {}
    for line in doubts(agent, scores, options.t):
        print(f"warning: {line}", file=sys.stderr)
    moments = play(
        agent,
        options.t,
        episodes=options.episodes,
        time_limit=limit,
        greedy=not options.sampled,
        seed=options.seed,
    )
    if options.save is not None:
        return _save(options, agent, list(moments))
    console = Console(highlight=False)
    show = _plain if options.plain or not console.is_terminal else _live
    _summarise(show(options, agent, moments, console))
    return Exit.DONE


def _parser() -> Parser:
    made = Parser("python -m nalu_ray.watch", __doc__ or "", _EXAMPLES)
    made.add_argument(
        "words", nargs="*", metavar="task [key=value]",
        help="gridworld, then fields that the agent must have, such as variant=nac_core",
    )  # fmt: skip
    add = made.add_argument
    add("-h", "--help", action="store_true", help="print this help")
    add("--t", type=whole, metavar="N", help="T, the time at which the agent should arrive")
    add_options(made, "file of an agent")
    add(
        "--episodes",
        type=whole,
        default=3,
        metavar="N",
        help="number of episodes (default: %(default)s)",
    )
    add("--time-limit", type=whole, metavar="N",
        help="time at which an episode ends (default: the world's, or 2 T)")  # fmt: skip
    add(
        "--seed",
        type=whole,
        default=0,
        help="seed of the starts and of sampled actions (default: %(default)s)",
    )
    add(
        "--sampled",
        action="store_true",
        help="sample actions from the policy (default: most likely action)",
    )
    add("--fps", type=number, default=4.0, metavar="N", help="steps per second (default: 4)")
    add("--plain", action="store_true", help="print one line per step, without colours")
    add(
        "--save",
        type=paths.file,
        metavar="FILE",
        help="write a .gif or .mp4 instead of playing the agent",
    )
    return made


def _checked(options: argparse.Namespace, unknown: Sequence[str]) -> dict[str, str]:
    """Returns the ``key=value`` words; raises :class:`ConfigError` with every mistake."""
    mistakes = [_parser().unknown(word) for word in unknown if word[:1] == "-"]
    task, *words = [*options.words, *(word for word in unknown if word[:1] != "-")] or [""]
    if not task:
        example = invocation.command("watch", [TASK, "--t", "19"])
        mistakes.append(f"name the task to watch: {example}")
    elif task != TASK:
        mistakes.append(did_you_mean("task to watch", task, [TASK]))
    wanted, wrong = assignments(words)
    mistakes += wrong
    if options.shipped and options.checkpoint:
        mistakes.append("--checkpoint names a file of your own: leave out --shipped")
    if wanted and options.checkpoint:
        mistakes.append("--checkpoint already names the agent: leave out the key=value words")
    if options.t is None:
        mistakes.append("--t is missing: the time at which the agent should arrive, such as --t 19")
    mistakes += _out_of_range(options)
    if options.save is not None:
        mistakes += animation.mistakes(options.save)
    if mistakes:
        raise ConfigError(mistakes)
    return wanted


def _out_of_range(options: argparse.Namespace) -> list[str]:
    mistakes = []
    low = {"t": 1, "episodes": 1, "seed": 0, "time_limit": options.t or 1}
    for name, least in low.items():
        value = getattr(options, name)
        if value is not None and value < least:
            why = " (T)" if name == "time_limit" else ""
            mistakes.append(f"--{name.replace('_', '-')} {value}: must be {least}{why} or more")
    if not 0.1 <= options.fps <= 50:
        mistakes.append(f"--fps {options.fps:g}: must be 0.1 to 50")
    return mistakes


def _agent(options: argparse.Namespace, wanted: dict[str, str]) -> Chosen[Agent]:
    try:
        if options.checkpoint:
            return Chosen(Agent.load(options.checkpoint), options.checkpoint)
        if options.shipped:
            entry, agent = shipped_agent(wanted)
            return Chosen(agent, entry.file, entry)
        return choose(
            "agent",
            options.out,
            wanted,
            stored=lambda: best(options.out, wanted),
            shipped=lambda: shipped_agent(wanted),
        )
    except AgentError as error:
        raise ConfigError([str(error)]) from error


def _live(
    options: argparse.Namespace, agent: Agent, moments: Iterable[Moment], console: Console
) -> list[Moment]:
    ends = []
    with Live(console=console, auto_refresh=False) as live:
        for moment in moments:
            live.update(animation.board(agent.world, moment, options.episodes), refresh=True)
            if moment.outcome is not None:
                ends.append(moment)
                live.console.print(f"episode {moment.episode}: {animation.ending(moment)}")
            time.sleep(1 / options.fps if moment.outcome is None else animation.PAUSE)
    return ends


def _plain(
    options: argparse.Namespace, agent: Agent, moments: Iterable[Moment], console: Console
) -> list[Moment]:
    ends = []
    for moment in moments:
        print(animation.line(agent.world, moment, options.episodes))
        if moment.outcome is not None:
            ends.append(moment)
    return ends


def _save(options: argparse.Namespace, agent: Agent, moments: list[Moment]) -> int:
    try:
        animation.save(options.save, agent.world, moments, options.fps)
    except OSError as error:
        raise ConfigError([f"cannot write {error.filename}: {error.strerror}"]) from error
    _summarise([moment for moment in moments if moment.outcome is not None])
    print(f"saved {options.save}: {len(moments)} pictures")
    return Exit.DONE


def _summarise(ends: Sequence[Moment]) -> None:
    outcomes = Counter((end.outcome or "").split()[0] for end in ends)
    parts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    print(f"{len(ends)} episode{'' if len(ends) == 1 else 's'}: {parts}")


if __name__ == "__main__":
    sys.exit(main())
