"""The prompt for a request, as a value that can be printed (S3, rules 8 and 11).

The system message holds our instructions, the user message nothing but data, in blocks between
lines that start with ``<<`` and carry a key drawn anew for each call: no message can know it, so
none can end its block or open another.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memories.rules import prompt_texts
from memories.rules.characters import LINE_BREAK
from memories.rules.invisible import clean
from memories.rules.memory import MemoryScope, MemoryType
from memories.rules.secrets import redacted
from memories.rules.summary import MemoryLine, MessageLine, Reference, Request

LONGEST_MESSAGE = 6_000  # characters; the rest of a longer message is left out, visibly
NEW_LINE = " ⏎ "
THREAD = "↳"
UNKNOWN = "unknown"  # an author of whom nothing is known

_FENCE_WORDS = "messages|existing|added|reference|end"
_FENCE_LIKE = re.compile(rf"^\s*<<|<<(?=\s*(?:{_FENCE_WORDS})\b)", re.IGNORECASE | re.MULTILINE)
FENCE = re.compile(rf"<<(?:{_FENCE_WORDS})\b[^\n]*>>")  # what only our own prompt can hold
_KANA = re.compile("[\u3041-\u30ff]")
_JAPANESE = re.compile("[\u3041-\u30ff\u3400-\u9fff]")
_LATIN = re.compile("[A-Za-z]")


@dataclass(frozen=True)
class Prompt:
    """``version`` is a readable name and a hash of the template, e.g. ``channel-short-en-1a2b3c4d``."""

    system: str
    user: str
    version: str


def build(request: Request, key: str) -> Prompt:
    """The prompt of a request; ``key`` is random for each call and closes its blocks."""
    return Prompt(system_text(request), user_text(request, key), version(request))


def language_of(request: Request) -> str:
    """Language of the instructions: ``ja``, ``en``, or ``conversation`` (English words that ask
    for the language of the sources). Mostly Japanese sources get the Japanese ones."""
    if request.language != "conversation":
        return request.language
    text = "\n".join(_source_texts(request))
    # A Japanese character says about as much as two or three Latin letters.
    japanese = len(_JAPANESE.findall(text)) * 2
    mostly = japanese > len(_LATIN.findall(text)) and _KANA.search(text)
    return "ja" if mostly else "conversation"


def system_text(request: Request) -> str:
    """Our instructions with this request's limits filled in."""
    texts = prompt_texts.TEXTS[language_of(request)]
    parts = [texts[_task(request)], texts["form_messages" if request.messages else "form_lines"]]
    if request.messages and request.existing:
        parts.append(texts["carry_on"])
    if any(line.by_person for line in request.existing):
        parts.append(texts["by_person"])
    parts.append(texts["size"])
    if request.memory_type is MemoryType.SHORT_TERM:
        parts.append(texts["nothing"])
    parts.append(texts["data"])
    if references(request):
        parts.append(texts["background"])
    return "\n".join(parts).format(most=request.max_tokens, aim=request.max_tokens * 2 // 3)


def references(request: Request) -> Sequence[Reference]:
    """Background that goes along (S3's table): none for the workspace, nothing is above it."""
    return () if request.scope is MemoryScope.WORKSPACE else request.references


def version(request: Request) -> str:
    """Changes whenever a word of the instructions that this kind of request may get changes."""
    language = language_of(request)
    # Every text of the language, not only those used: combining the parts of a long input
    # uses others, and a settled name must not depend on whether there is an existing memory.
    texts = prompt_texts.TEXTS[language]
    used = [texts[name] for name in sorted(texts) if name not in prompt_texts.TASKS]
    used += [texts[name] for name in sorted({_task(request), "parts"})]
    digest = hashlib.sha256("\n".join(used).encode()).hexdigest()[:8]
    kind = "short" if request.memory_type is MemoryType.SHORT_TERM else "long"
    return f"{request.scope}-{kind}-{'ja' if language == 'ja' else 'en'}-{digest}"


def user_text(request: Request, key: str) -> str:
    """Only data: references, existing lines, then what is to be summarised, each in its block."""
    blocks: list[tuple[str, str, Iterable[str]]] = [
        (f"reference: {one_line(r.title)}", "", [_guarded(visible(r.text))])
        for r in references(request)
    ]
    place = one_line(request.place)
    if request.existing:
        blocks.append(("existing memory", place, map(memory_line, request.existing)))
    for addition in request.additions:
        title = f"added: {one_line(addition.title)}"
        blocks.append((title, "", map(memory_line, addition.lines)))
    if request.messages:
        about = f"{place}, {request.zone}"
        blocks.append(("messages", about, message_lines(request)))
    return "\n".join(line for block in blocks for line in _block(*block, key))


def message_lines(request: Request) -> Iterator[str]:
    """``REF [YYYY-MM-DD HH:MM] name: text`` each (S3), replies marked with their thread's letter."""
    threads: dict[str, str] = {}
    for message in request.messages:
        mark = ""
        if message.thread and request.scope is not MemoryScope.THREAD:
            letter = threads.setdefault(message.thread, _letter(len(threads)))
            mark = f"{THREAD}{letter} "
        yield f"{message.ref} {mark}{_message(message)}"


def message_line(at: datetime, name: str, text: str) -> str:
    """``[YYYY-MM-DD HH:MM] name: text`` (S3, rule 11). Neither half can end the line or the name."""
    return f"[{at:%Y-%m-%d %H:%M}] {speaker(name)}: {one_line(text)}"


def speaker(name: str) -> str:
    """A name as it stands before what was said: a colon and a space end it, so it has none."""
    return one_line(name).replace(": ", ":")


def memory_line(line: MemoryLine) -> str:
    """``REF text``, with the mark of a line that a person wrote."""
    mark = f"{prompt_texts.PERSON} " if line.by_person else ""
    return f"{line.ref} {mark}{one_line(line.text)}"


def one_line(text: str) -> str:
    """Text as one line that can neither start a line of its own nor pass for one of our fences."""
    return _guarded(visible(text).strip()).replace("\n", NEW_LINE)


def visible(text: str) -> str:
    """Text without what a person cannot see; every kind of line break as ``\\n``."""
    return clean(LINE_BREAK.sub("\n", text))


def for_model(text: str) -> str:
    """Text as a request may hold it: nothing that a person cannot see, and no secret. In this order,
    for a character that nobody sees can stand in the middle of a key."""
    return redacted(visible(text))


def _message(message: MessageLine) -> str:
    text = message.text
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[:LONGEST_MESSAGE]} […{len(text) - LONGEST_MESSAGE} characters left out]"
    return message_line(message.at, message.author, text)


def _block(title: str, about: str, lines: Iterable[str], key: str) -> Iterator[str]:
    yield f"<<{title} {key}{': ' if about else ''}{about}>>"
    yield from lines
    yield f"<<end {key}>>"


def _task(request: Request) -> str:
    if request.scope is MemoryScope.WORKSPACE:
        short = request.memory_type is MemoryType.SHORT_TERM
        return "workspace_short" if short else "workspace_long"
    if request.memory_type is MemoryType.LONG_TERM:
        return "channel_long"
    if request.additions:
        return "parts"
    return "thread_short" if request.scope is MemoryScope.THREAD else "channel_short"


def _source_texts(request: Request) -> Iterator[str]:
    yield from (message.text for message in request.messages)
    lines: list[Iterable[MemoryLine]] = [addition.lines for addition in request.additions]
    yield from (line.text for group in (request.existing, *lines) for line in group)


def _guarded(text: str) -> str:
    return _FENCE_LIKE.sub(lambda fence: fence[0].replace("<<", "< <"), text)


def _letter(number: int) -> str:
    """a … z, then aa, ab, …"""
    rest, last = divmod(number, 26)
    return (_letter(rest - 1) if rest else "") + chr(ord("a") + last)
