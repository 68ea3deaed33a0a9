"""Build the prompt of a request (S3, rules 8 and 11).

The system message is one fixed line. The user message holds the data in blocks between fences, which are
lines that start with ``<<``. The instructions come last, because a small model follows the last text best.
The fences contain a random key for each call, so no message can close its block or open another.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memories.rules.generate import prompt_texts
from memories.rules.ingest.characters import LINE_BREAK
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.names import safe_name
from memories.rules.language import is_mostly_japanese
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.safety.secrets import redact
from memories.rules.salience import is_salient
from memories.rules.summariser import MemoryLine, PromptForm, Reference, Request
from memories.rules.tokens import estimate_tokens

MAX_REFERENCE_TOKENS = 120
MAX_LINE_CHARACTERS = 6_000  # a longer message is shown in parts
NEW_LINE = " ⏎ "
THREAD = "↳"
UNKNOWN_AUTHOR = "unknown"
_TOKENS_PER_BULLET = 30
_MAX_BULLETS = 10

_FENCE_WORDS = "messages|existing|added|reference|end"
_FENCE_LIKE = re.compile(rf"^\s*<<|<<(?=\s*(?:{_FENCE_WORDS})\b)", re.IGNORECASE | re.MULTILINE)
FENCE = re.compile(rf"<<(?:{_FENCE_WORDS})\b[^\n]*>>")  # only our own prompt contains it
_BREAK = re.compile(r"\s+|[。．！？、]")


@dataclass(frozen=True)
class Prompt:
    """``version`` is a readable name and a hash of the template, e.g. ``channel-short-en-1a2b3c4d``."""

    system: str
    user: str
    version: str

    @property
    def tokens(self) -> int:
        """The estimated tokens of both messages."""
        return estimate_tokens(self.system) + estimate_tokens(self.user)


def build_prompt(request: Request, key: str) -> Prompt:
    """Build the prompt of a request. ``key`` is a random string for its fences."""
    return Prompt(system_text(request), user_text(request, key), prompt_version(request))


def instruction_language(request: Request) -> str:
    """Return the language of the instructions: ``ja``, ``en`` or ``conversation``.

    ``conversation`` is English with a request for the language of the sources. Mostly Japanese sources
    get ``ja`` instead.
    """
    if request.language != "conversation":
        return request.language
    return "ja" if is_mostly_japanese("\n".join(request.source_texts)) else "conversation"


def system_text(request: Request) -> str:
    return prompt_texts.TEXTS[instruction_language(request)]["role"]


def request_text(request: Request) -> str:
    """Return the instructions below the data, with the limits of the request."""
    is_full = request.form is PromptForm.FULL
    has_person_lines = any(line.by_person for line in request.existing)
    parts = {
        _task_of(request): True,
        "form": is_full,
        "carry_on": bool(request.messages and request.existing),
        "held": has_person_lines and request.uses_operations,
        "by_person": has_person_lines and not (request.uses_operations or request.only_adds),
        "size": is_full,
        "nothing": may_keep_nothing(request),
        "background": bool(shown_references(request)),
        "only": is_full,
        "language": True,
    }
    texts = prompt_texts.TEXTS[instruction_language(request)]
    return fill_limits(
        "\n".join(texts[name] for name, is_used in parts.items() if is_used), request
    )


def fill_limits(text: str, request: Request) -> str:
    """Fill the limits of a request in a text of `prompt_texts`."""
    max_bullets = request.max_lines or _MAX_BULLETS
    bullets = min(max(request.max_tokens // _TOKENS_PER_BULLET, 3), max_bullets)
    return text.format(most=request.max_tokens, aim=request.max_tokens * 2 // 3, bullets=bullets)


def may_keep_nothing(request: Request) -> bool:
    """Return whether the prompt offers the reply "nothing worth keeping" (rule 8)."""
    if request.memory_type is not MemoryType.SHORT_TERM or not request.messages:
        return False
    return not any(is_salient(message.text) for message in request.messages)


def shown_references(request: Request) -> Sequence[Reference]:
    """Return the shortened references of a prompt.

    The workspace is the widest scope and has none. The simple form has none, because a small model
    summarises them in place of the messages.
    """
    if request.scope is MemoryScope.WORKSPACE or request.form is PromptForm.SIMPLE:
        return ()
    return [replace(ref, text=_first_lines(ref.text)) for ref in request.references]


def _first_lines(text: str) -> str:
    """Return the first lines of a memory within the limit, at least one, and a mark for the rest.

    A memory starts with what is current, before past events.
    """
    kept: list[str] = []
    tokens_left = MAX_REFERENCE_TOKENS
    for line in text.split("\n"):
        tokens_left -= estimate_tokens(line)
        if kept and tokens_left < 0:
            return "\n".join([*kept, "[…]"])
        kept.append(line)
    return text


def prompt_version(request: Request) -> str:
    """Return a version that changes with any instruction that this kind of request may get."""
    language = instruction_language(request)
    # All texts of the language, because a combination of parts uses others than its parts. So the
    # version does not depend on whether there is an existing memory.
    texts = prompt_texts.TEXTS[language]
    used = [texts[name] for name in sorted(texts) if name not in prompt_texts.TASK_NAMES]
    used += [texts[name] for name in sorted(_possible_tasks(request))]
    prompt_hash = hashlib.sha256("\n".join(used).encode()).hexdigest()[:8]
    kind = "short" if request.memory_type is MemoryType.SHORT_TERM else "long"
    form = "-simple" if request.form is PromptForm.SIMPLE else ""
    return f"{request.scope}-{kind}{form}-{'ja' if language == 'ja' else 'en'}-{prompt_hash}"


def user_text(request: Request, key: str) -> str:
    return f"{data_text(request, key)}\n\n{request_text(request)}"


def data_text(request: Request, key: str) -> str:
    """Return the blocks of data: references, existing lines, added lines, messages."""
    blocks: list[tuple[str, str, Iterable[str]]] = [
        (f"reference: {to_one_line(ref.title)}", "", [_escape_fences(visible_text(ref.text))])
        for ref in shown_references(request)
    ]
    scope_name = to_one_line(request.scope_name)
    if request.existing:
        letter = "L" if request.uses_operations else ""
        lines = [letter + format_memory_line(line, request) for line in request.existing]
        blocks.append(("existing memory", scope_name, lines))
    for addition in request.additions:
        lines = [format_memory_line(line, request) for line in addition.lines]
        blocks.append((f"added: {to_one_line(addition.title)}", "", lines))
    if request.messages:
        blocks.append(("messages", f"{scope_name}, {request.zone}", format_messages(request)))
    rows: list[str] = []
    for title, about, block in blocks:
        rows += [f"<<{title} {key}{': ' if about else ''}{about}>>", *block, f"<<end {key}>>"]
    return "\n".join(rows)


def format_messages(request: Request) -> Iterator[str]:
    """Yield ``REF [YYYY-MM-DD HH:MM] name: text`` for each message (S3).

    Replies have their thread's letter. The simple form has no refs.
    """
    threads: dict[str, str] = {}
    for message in request.messages:
        mark = ""
        if message.thread and request.scope is not MemoryScope.THREAD:
            letter = threads.setdefault(message.thread, _letter(len(threads)))
            mark = f"{THREAD}{letter} "
        number = f"{message.ref} " if request.form is PromptForm.FULL else ""
        for part in split_long_text(message.text):
            yield f"{number}{mark}{format_message(message.at, message.author, part)}"


def format_message(at: datetime, name: str, text: str) -> str:
    """Return ``[YYYY-MM-DD HH:MM] name: text`` (S3, rule 11).

    Neither name nor text contains a line break, and the name contains no colon.
    """
    return f"[{at:%Y-%m-%d %H:%M}] {speaker_name(name)}: {to_one_line(text)}"


def speaker_name(name: str) -> str:
    """Return a name without the colon that separates it from the text."""
    return safe_name(name) or UNKNOWN_AUTHOR


def format_memory_line(line: MemoryLine, request: Request) -> str:
    """Return ``REF [YYYY-MM-DD] text``, with a mark on a line of a person.

    The simple form has no refs. Lines added to a channel's memory have no date, because their block's
    title is their period.
    """
    number = f"{line.ref} " if request.form is PromptForm.FULL else ""
    mark = f"{prompt_texts.PERSON_MARK} " if line.by_person else ""
    has_date = request.scope is MemoryScope.WORKSPACE or line in request.existing
    at = request.local_time(line.at_us) if has_date else None
    day = f"[{at:%Y-%m-%d}] " if at else ""
    return f"{number}{mark}{day}{to_one_line(line.text)}"


def split_long_text(text: str, limit: int = MAX_LINE_CHARACTERS) -> list[str]:
    """Split a text in parts of at most ``limit`` characters, which join to the text.

    A part ends after white space or a full stop if its last quarter has one.
    """
    parts = []
    while len(text) > limit:
        ends = [match.end() for match in _BREAK.finditer(text, limit * 3 // 4, limit)]
        end = ends[-1] if ends else limit
        parts.append(text[:end])
        text = text[end:]
    return [*parts, text]


def to_one_line(text: str) -> str:
    """Return a text as one line without invisible characters and without our fences."""
    return _escape_fences(visible_text(text).strip()).replace("\n", NEW_LINE)


def visible_text(text: str) -> str:
    """Return a text without invisible characters, with ``\\n`` for every kind of line break."""
    return strip_invisible(LINE_BREAK.sub("\n", text))


def clean_for_model(text: str) -> str:
    """Return a text without invisible characters and secrets.

    In this order, because an invisible character in a secret would hide it.
    """
    return redact(visible_text(text))


def _task_of(request: Request) -> str:
    if request.only_adds:
        return "only_adds"
    if request.form is PromptForm.SIMPLE:
        return _simple_task(request)
    return _operations_task(request) if request.uses_operations else _full_task(request)


def _full_task(request: Request) -> str:
    is_short = request.memory_type is MemoryType.SHORT_TERM
    if request.scope is MemoryScope.WORKSPACE:
        return "workspace_short" if is_short else "workspace_long"
    if not is_short:
        return "channel_long"
    if request.additions:
        return "parts"
    return "thread_short" if request.scope is MemoryScope.THREAD else "channel_short"


def _operations_task(request: Request) -> str:
    is_workspace = request.scope is MemoryScope.WORKSPACE
    return "workspace_changes" if is_workspace else "channel_changes"


def _simple_task(request: Request) -> str:
    return "simple_messages" if request.messages else "simple_lines"


def _possible_tasks(request: Request) -> set[str]:
    """Return the tasks of a request, of its parts, and of their combination."""
    is_long = request.memory_type is MemoryType.LONG_TERM
    if request.form is PromptForm.SIMPLE:
        return {"simple_lines", "only_adds" if is_long else _simple_task(request)}
    tasks = {_full_task(request), "parts"}
    return tasks | {_operations_task(request)} if is_long and request.operations else tasks


def _escape_fences(text: str) -> str:
    return _FENCE_LIKE.sub(lambda fence: fence[0].replace("<<", "< <"), text)


def _letter(number: int) -> str:
    """Return a, b, … z, aa, ab, … for 0, 1, …"""
    quotient, remainder = divmod(number, 26)
    return (_letter(quotient - 1) if quotient else "") + chr(ord("a") + remainder)
