"""Slack-like ids from the names in the scripts: the same on every machine and at every `now`."""

import hashlib

TEAM = "T0KAZOE3DEMO"


def person_id(key: str) -> str:
    """The id of a person or bot user of people.toml."""
    return slack_id("U", key)


def channel_id(name: str) -> str:
    """The id of a channel of the demo."""
    return slack_id("C", name)


def digest(*parts: str) -> int:
    """A number of 256 bits that depends on the parts alone."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())


def slack_id(letter: str, key: str) -> str:
    """An id of the kind `letter` stands for, without the letters that look like digits."""
    alphabet = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    number, out = digest(letter, key), ""
    for _ in range(8):
        number, digit = divmod(number, len(alphabet))
        out += alphabet[digit]
    return f"{letter}0{out}K"
