"""Which trained network a command uses: a stored one, or one that comes with the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from nalu_ray.command.words import Parser
from nalu_ray.errors import ConfigError, printable
from nalu_ray.input import invocation
from nalu_ray.results.store import paths
from nalu_ray.results.store.networks import UnknownKeyError
from nalu_ray.trained import NoneShippedError, Shipped, pick

if TYPE_CHECKING:
    from nalu_ray.rl.agent.stored import Agent

N = TypeVar("N")


def add_options(parser: Parser, file: str) -> None:
    """Adds the options ``--checkpoint``, ``--shipped`` and ``--out``.

    Args:
        parser: the command's.
        file: what ``--checkpoint`` names, such as "file of an agent".
    """
    parser.add_argument(
        "--checkpoint",
        type=paths.place,
        metavar="FILE",
        help=f"{file} (default: the best under --out, else one that comes with nalu-ray)",
    )
    parser.add_argument(
        "--shipped",
        action="store_true",
        help="use a network that comes with nalu-ray, whatever --out holds",
    )
    parser.add_argument(
        "--out",
        type=paths.place,
        default="results",
        help="folder or URI of the results (default: %(default)s)",
    )


@dataclass(frozen=True)
class Chosen(Generic[N]):
    """A trained network.

    Attributes:
        network: the network.
        path: its file.
        shipped: its entry in the package's index; None for a file of the user's.
        why: why a shipped network was chosen; empty if the user's choice.
    """

    network: N
    path: str
    shipped: Shipped | None = None
    why: str = ""

    def header(self, noun: str, about: str) -> str:
        """Returns the lines that say which network answers, given its description."""
        if self.shipped is None:
            return f"{about} ({printable(self.path)})"
        command = invocation.adapted(self.shipped.command)
        lead = f"{self.why}: using the one" if self.why else f"the {noun}"
        return f"{lead} that comes with nalu-ray: {about}\ntrained by: {command}"


def shipped_agent(wanted: Mapping[str, str]) -> tuple[Shipped, Agent]:
    """Returns the first agent that comes with the package and has the wanted values, as text.

    Raises:
        ConfigError: there is none, or its file is damaged.
    """
    from nalu_ray.rl.agent import stored  # noqa: PLC0415 (torch: not for the options)
    from nalu_ray.rl.rollout import TASK  # noqa: PLC0415 (as above)

    entry, data = pick(TASK, "agent", wanted, lambda data, name: [stored.about(data, name)])
    return entry, stored.Agent.from_bytes(data, entry.file)


def choose(
    noun: str,
    out: str,
    wanted: Mapping[str, str],
    stored: Callable[[], tuple[str, N]],
    shipped: Callable[[], tuple[Shipped, N]],
) -> Chosen[N]:
    """Returns a stored network, or a shipped one if no stored network has the wanted values.

    Args:
        noun: what the network is called in messages.
        out: folder or URI of the results, for messages.
        wanted: values that the network must have, as text, for messages.
        stored: returns the path and the network of the best stored one; raises ConfigError.
        shipped: the same for a shipped one.

    Raises:
        ConfigError: there is neither.
    """
    try:
        path, network = stored()
        return Chosen(network, path)
    except ConfigError as error:
        mistaken = error
    try:
        entry, network = shipped()
    except NoneShippedError as error:
        raise ConfigError(mistaken.messages) from error
    except ConfigError as error:
        if isinstance(mistaken, UnknownKeyError) and isinstance(error, UnknownKeyError):
            raise mistaken from error  # the same mistake
        raise ConfigError([*mistaken.messages, *error.messages]) from error
    words = " ".join(f"{key}={value}" for key, value in wanted.items())
    with_words = f" with {words}" if words else ""
    reason = f"no stored {noun}{with_words} under {out.rstrip('/')}/"
    return Chosen(network, entry.file, entry, printable(reason))
