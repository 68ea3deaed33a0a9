"""Choose the lines that a briefing opens with, and the values of lines by kind."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from memories.rules import salience
from memories.rules.memory.kinds import Kind

MIN_OPENING_LINES = 5
MAX_OPENING_LINES = 8
MAX_TEXT_LENGTH = 240  # characters; a longer line stands in its channel only

# The value of a line by its kind. The sum of the values of a channel's new lines orders channels.
VALUES = {Kind.DECISION: 8, Kind.TASK: 6, Kind.QUESTION: 5, Kind.STATUS: 3, Kind.EVENT: 2}
DEFAULT_KIND = Kind.STATUS  # the kind that a line without one counts as
# The value of each further line of the same channel.
_SAME_CHANNEL_FACTOR = 0.7


@dataclass(frozen=True)
class NewsLine:
    """A new line. ``channel`` is a key that tells channels apart, ``kind`` is "" for no kind."""

    text: str
    kind: str
    at_us: int
    channel: int


def count_kinds(lines: Iterable[NewsLine]) -> list[tuple[str, int]]:
    """Return the number of lines of each kind, the most important kind first. Without a kind it is a status."""
    counts = Counter(line.kind or DEFAULT_KIND for line in lines)
    return [(kind, counts[kind]) for kind in VALUES if counts[kind]]


def choose_opening(lines: Sequence[NewsLine], most: int = MAX_OPENING_LINES) -> list[int]:
    """Return the indexes of the lines that a briefing opens with, oldest first.

    The best lines by kind and salience are chosen one by one, without near-duplicates. Each further
    line of a channel counts less, so that no channel fills the opening alone.
    """
    texts = [salience.content_words(line.text) for line in lines]
    chosen: list[int] = []
    covered = salience.ChosenTexts()
    candidates = [i for i, line in enumerate(lines) if len(line.text) <= MAX_TEXT_LENGTH]
    while candidates and len(chosen) < most:
        best = max(candidates, key=lambda i: (_value(lines, i, chosen), lines[i].at_us))
        candidates.remove(best)
        if not covered.has_duplicate_of(texts[best], lines[best].at_us):
            covered.add(texts[best], lines[best].at_us)
            chosen.append(best)
    return sorted(chosen, key=lambda i: lines[i].at_us)


def _value(lines: Sequence[NewsLine], index: int, chosen: Collection[int]) -> float:
    line = lines[index]
    same = sum(lines[i].channel == line.channel for i in chosen)
    value = VALUES[Kind(line.kind or DEFAULT_KIND)]
    return value * (1 + salience.score(line.text)) * _SAME_CHANNEL_FACTOR**same
