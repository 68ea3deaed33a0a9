"""Slack-like ids from the names in the scripts, always the same for the same name."""

import hashlib

TEAM = "T0KAZOE3DEMO"


def person_id(key: str) -> str:
    return slack_id("U", key)


def channel_id(name: str) -> str:
    return slack_id("C", name)


def hash_to_int(*parts: str) -> int:
    """Return a number of 256 bits for these parts."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())


def slack_id(letter: str, key: str) -> str:
    """Return an id that begins with `letter`, without letters that look like digits."""
    alphabet = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    number, out = hash_to_int(letter, key), ""
    for _ in range(8):
        number, digit = divmod(number, len(alphabet))
        out += alphabet[digit]
    return f"{letter}0{out}K"
