"""Why a reply is refused (rule 8)."""

import re
from collections.abc import Sequence

from memories.rules.generate.faults import Fault
from memories.rules.generate.prompts import shown_references
from memories.rules.language import detect_language
from memories.rules.summariser import ReplyLine, Request
from memories.rules.tokens import estimate_tokens

_TOO_LONG = 3  # times the token limit
_MIN_LIMIT_TOKENS = 40  # one valid line may be several times a lower limit
_LONG_INPUT = 1_000  # tokens: such an input needs more than …
_MIN_REPLY_TOKENS = 3  # … so many tokens

BULLET = re.compile(r"\s*(?:[-*•・–—]|\d{1,3}[.)])")
_REFUSAL = re.compile(
    r"(?:i(?:'|’)?m (?:very )?sorry|sorry, (?:but )?i|i can(?:no|'|’)t|i(?:'m| am) (?:unable|not able)|"
    r"as an ai|申し訳(?:ありません|ございません)|(?:要約|お答え|対応)(?:は|することは)?できません)",
    re.IGNORECASE,
)


def find_fault(
    text: str,
    lines: Sequence[ReplyLine],
    request: Request,
    *,
    calls: int,
    has_statements: bool = False,
) -> Fault | None:
    """Return why the text or its lines are a bad reply.

    ``calls``: how many replies the text joins.
    """
    if has_statements and not lines:
        return Fault.PROMPT_ECHOED  # each statement repeats the prompt
    if not any(character.isalnum() for line in lines for character in line.text):
        return Fault.BLANK
    # Only at the start: a message may contain an apology.
    is_plain = not BULLET.match(text) and not any(line.refs for line in lines)
    if is_plain and len(lines) <= 2 and _REFUSAL.match(text):
        return Fault.REFUSAL
    # A merge repeats the lines of people, whatever their length.
    repeated = sum(estimate_tokens(line.text) for line in request.existing if line.by_person)
    size = estimate_tokens(text)
    limit = _TOO_LONG * max(calls, 1) * max(request.max_tokens, _MIN_LIMIT_TOKENS)
    if size > limit + repeated:
        return Fault.TOO_LONG
    inputs = [*request.source_texts, *(reference.text for reference in shown_references(request))]
    if size <= _MIN_REPLY_TOKENS and sum(map(estimate_tokens, inputs)) >= _LONG_INPUT:
        return Fault.TOO_SHORT
    return None


def is_in_wrong_language(lines: Sequence[ReplyLine], request: Request) -> bool:
    """Return whether lines are clearly not in the requested language, or not in their sources' one.

    Lines of people are repeated word for word and do not count.
    """
    by_person = {line.text for line in request.existing if line.by_person}
    language = detect_language([line.text for line in lines if line.text not in by_person])
    if language is None or language == request.language:
        return False
    if request.language != "conversation":
        return True
    return detect_language(request.source_texts) not in (None, language)
