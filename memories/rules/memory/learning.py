"""Lines of a memory that are worth a note: lasting ways of working, and solutions (S4)."""

import re

from memories.rules.memory.kinds import Kind

MAX_PROPOSALS = 3  # after a merge
MIN_LENGTH, MAX_LENGTH = 20, 500  # characters

_SOLUTION = re.compile(
    r"\b(?:fix(?:ed|es)?\b.{0,40}\bby\b|the fix (?:is|was)|solved|solution|work(?:s|ed)? ?around"
    r"|root cause|was caused by|turned out to be|the trick (?:is|was)|helps? to)"
    r"|解決|回避策|対処|原因は|直し方|直りました|で直る|で動く",
    re.IGNORECASE,
)
_PATTERN = re.compile(
    r"\b(?:always|never|from now on|must(?: not)?|no longer|as a rule|by default|instead of"
    r"|(?:before|after|with|for) (?:each|every)|every (?:time|day|week|month|monday|tuesday"
    r"|wednesday|thursday|friday|release|deploy\w*|call|customer)|nobody|convention|polic(?:y|ies))\b"
    r"|必ず|今後は|これから(?:は|も)|常に|毎回|毎週|毎朝|してはいけない|しないこと|すること(?:に|。|$)"
    r"|ルール|方針|運用(?:に|と)",
    re.IGNORECASE,
)


def note_type(text: str, kind: str) -> str:
    """Return the type of a note that the line is worth: "solution", "pattern" or "".

    A task and a question pass, so they never are. A pattern is a decision or states how things
    stand, in words that make it last.
    """
    if kind in (Kind.TASK, Kind.QUESTION) or not MIN_LENGTH <= len(text) <= MAX_LENGTH:
        return ""
    if _SOLUTION.search(text):
        return "solution"
    return "pattern" if kind != Kind.EVENT and _PATTERN.search(text) else ""
