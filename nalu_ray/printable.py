"""Texts of files and of errors as a terminal may see them: nothing that it would act on."""

from __future__ import annotations

import unicodedata

# control, format (marks that turn the direction of writing), half a character, line ends
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# joiners within emoji and scripts, and the soft hyphen, are harmless
_HARMLESS = {"\u00ad", "\u200c", "\u200d"}

LONGEST = 10_000  # characters of a setting's text
DEEPEST = 32  # brackets within one another


def printable(text: object, keep: str = "") -> str:
    """Returns a text with its control characters written out, as Python writes them.

    Args:
        text: any; what is no text is turned into one.
        keep: characters that stay as they are, such as the line feed of a text of several lines.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        character if character in keep or not _hidden(character) else _written_out(character)
        for character in shown
    )


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _HARMLESS


def _written_out(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def check_text(name: str, text: str) -> None:
    """Refuses texts that no setting has.

    Raises:
        ValueError: it is too long, is nested too deeply, or has control characters.
    """
    if len(text) > LONGEST:
        raise ValueError(f"{name}: a text of {len(text):,} characters, more than {LONGEST:,}")
    if printable(text) != text:
        raise ValueError(f"{name}={text[:60]!r}: control characters")
    depth = 0
    for character in text if text[:1] in ("[", "{") else "":
        depth += (character in "[{") - (character in "]}")
        if depth > DEEPEST:
            raise ValueError(f"{name}: more than {DEEPEST} brackets within one another")
