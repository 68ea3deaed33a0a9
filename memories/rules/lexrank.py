"""How central each of some short texts is to all of them (LexRank), in Japanese and in English.

Words after NFKC and, where a script has no spaces, pairs of characters; TF-IDF weights; cosine as
the likeness of two texts; the weight of a text is where a reader who hops along likeness ends up.
Pure Python: fifty messages take milliseconds, four hundred lines a fraction of a second.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

_DAMPING = 0.85
_ROUNDS = 15
_COMMON = 60  # a term in more texts than this says little and costs much

_LINE = re.compile(r"\n+")
# After a Japanese stop at once, after a Latin one only before a space (v1.2, example.org).
_STOP = re.compile(r"(?<=[。！？])(?![。！？」』）)])|(?<=[.!?])\s+")
_WORD = re.compile(r"[^\W_]+(?:['’\-._][^\W_]+)*")
_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u9fff]+")
_KANA_PAIR = re.compile("[\u3041-\u309f]{2}")
_LITTLE = frozenset(
    re.findall(
        r"\S+",
        "a an and are as at be been but by can did do does for from get got had has have he her him "
        "his how i i'm if in is it it's its just like me my no not of oh ok on or our out she so "
        "some that that's the their them then there they this to too up us was we well were what "
        "when which who will with would yeah yes you your",
    )
)

Row = dict[int, float]  # likeness to other texts, by their index


def sentences(text: str) -> list[str]:
    """Lines, and within them sentences, in their own words and order."""
    found = (part.strip() for line in _LINE.split(text) for part in _STOP.split(line))
    return [part for part in found if part]


def terms(text: str) -> list[str]:
    """Words in lower case, and pairs of characters for Japanese; grammar's little words left out."""
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if word.isascii():
            if word not in _LITTLE and len(word) < 60:
                found.append(word)
            continue
        end = 0
        for run in _UNSPACED.finditer(word):
            if between := word[end : run.start()]:
                found.append(between)
            pairs = (run[0][i : i + 2] for i in range(len(run[0]) - 1))
            # Two hiragana are an ending or a particle more often than a word.
            found.extend(pair for pair in pairs if not _KANA_PAIR.fullmatch(pair))
            end = run.end()
        if rest := word[end:]:
            found.append(rest)
    return found


def likeness(documents: Sequence[Sequence[str]]) -> list[Row]:
    """Cosines of texts given as their terms; pairs without a common term are left out."""
    counts = [Counter(document) for document in documents]
    spread = Counter(term for count in counts for term in count)
    total = len(documents)
    inverse = {term: math.log(1 + total / number) for term, number in spread.items()}
    postings: dict[str, list[tuple[int, float]]] = {}
    for index, count in enumerate(counts):
        weights = {term: number * inverse[term] for term, number in count.items()}
        length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
        for term, weight in weights.items():
            if 1 < spread[term] <= _COMMON:
                postings.setdefault(term, []).append((index, weight / length))
    rows: list[Row] = [{} for _ in documents]
    for posting in postings.values():
        for position, (one, weight) in enumerate(posting):
            row = rows[one]
            for other, its in posting[:position]:
                row[other] = row.get(other, 0.0) + weight * its
    for one, row in enumerate(rows):
        for other, cosine in row.items():
            if other < one:
                rows[other][one] = cosine
    return rows


def centrality(rows: Sequence[Row]) -> list[float]:
    """The weight of each text, 1.0 on average."""
    total = len(rows)
    sums = [sum(row.values()) for row in rows]
    links = [[(other, cosine / sums[other]) for other, cosine in row.items()] for row in rows]
    weights = [1.0] * total
    for _ in range(_ROUNDS):
        weights = [
            1 - _DAMPING + _DAMPING * sum(weights[other] * share for other, share in incoming)
            for incoming in links
        ]
    mean = sum(weights) / total if total else 1.0
    return [weight / mean for weight in weights]
