"""Prints a completion script of ``nalu-ray`` for bash: ``eval "$(nalu-ray completion bash)"``.

Everything is written into the script: commands, their flags, tasks, and each task's fields with
their values. So a completion starts no Python, which would take seconds to load torch. Libraries
such as shtab complete the flags of argparse alone, and argcomplete starts Python at each key.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence

from nalu_ray import registry
from nalu_ray.__main__ import COMMANDS
from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.readers import SeriesReader, TextReader
from nalu_ray.command.words import Parser
from nalu_ray.input import invocation
from nalu_ray.input.values import every
from nalu_ray.rl.rollout import TASK
from nalu_ray.sweep.presets import sweep_of

_EXAMPLES = """\
examples:
  eval "$({name} completion bash)"
      for this shell; a line in ~/.bashrc does it for every one
  {name} completion bash > ~/.local/share/bash-completion/completions/nalu-ray
      for every shell, if bash-completion is installed; print it again after an update
"""

_BASH = """\
# bash completion of nalu-ray
_nalu_ray_words() {{
    case "$1" in
{cases}
    esac
}}
_nalu_ray() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" current="" last="" key="" value=""
    local -a words
    read -ra words <<< "$line"
    if [[ "$line" != *[[:space:]] ]]; then
        current="${{words[${{#words[@]}}-1]}}"
        words=("${{words[@]:0:${{#words[@]}}-1}}")
    fi
    if [[ "$current" == *=* ]]; then  # bash replaces what follows the =
        key="${{words[1]}} ${{words[2]}} ${{current%%=*}}"
        value="${{current#*=}}"
        [[ "$value" == *,* ]] && last="${{value%,*}},"
        COMPREPLY=($(compgen -P "$last" -W "$(_nalu_ray_words "$key")" -- "${{value##*,}}"))
        return
    fi
    key="${{words[*]:1:2}}"
    [[ "$current" == -* ]] && key="${{words[1]}}"
    COMPREPLY=($(compgen -W "$(_nalu_ray_words "$key")" -- "$current"))
    [[ "${{#COMPREPLY[@]}}" == 1 && "${{COMPREPLY[0]}}" == *= ]] && compopt -o nospace
}}
complete -F _nalu_ray nalu-ray
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    name = invocation.every_command()
    about = "Prints a completion script of nalu-ray for bash."
    parser = Parser(f"{name} completion", about, _EXAMPLES.format(name=name))
    parser.add_argument("shell", choices=["bash"], help="the shell")
    parser.add_argument("-h", "--help", action="help", help="print this help")
    parser.parse_args(argv)
    print(script(), end="")
    return Exit.DONE


def script() -> str:
    """Returns the script for bash."""
    keys: dict[str, list[str]] = {}
    for key, words in candidates().items():
        keys.setdefault(" ".join(words), []).append(f'"{key}"')
    cases = [f'        {"|".join(alike)}) echo "{words}" ;;' for words, alike in keys.items()]
    return _BASH.format(cases="\n".join(cases))


def candidates() -> dict[str, list[str]]:
    """Returns the words that can come next, by the words so far.

    The words so far are nothing, a command, a command and a task, or these and a field.
    """
    tasks = registry.tasks()
    words = {"": [*COMMANDS, "--version", "--help"], "data": ["mnist"], "completion": ["bash"]}
    words |= {name: [*_flags(COMMANDS[name][0])] for name in ("tune", "report", "watch", "predict")}
    words["results"] = ["compact", *_flags(COMMANDS["results"][0])]
    words["cluster"] = ["check", *_flags(COMMANDS["cluster"][0])]
    words["tune"] += tasks
    words["report"] += tasks
    words["watch"] += [TASK]
    words["predict"] += [
        name for name, task in tasks.items() if isinstance(task, TextReader | SeriesReader)
    ]
    for name, task in tasks.items():
        fields = task.setting_type.model_fields
        words[f"tune {name}"] = ["preset=", "seeds=", *(f"{field}=" for field in fields)]
        words[f"tune {name} preset"] = [*sweep_of(task).presets]
        for field, about in fields.items():
            if values := every(about.annotation, about.metadata):
                words[f"tune {name} {field}"] = [str(value) for value in values]
    # a report filters by the same words
    words |= {f"report {key.removeprefix('tune ')}": words[key] for key in words if " " in key}
    return words


def _flags(module: str) -> list[str]:
    """Returns the flags of a command, by its parser."""
    loaded = importlib.import_module(module)
    build: Callable[[], Parser] = getattr(loaded, "_parser", None) or loaded.parser
    return [name for flag in build()._actions for name in flag.option_strings if name[:2] == "--"]


if __name__ == "__main__":
    sys.exit(main())
