"""The prompt for a request, as a value that can be printed (S3, rules 8 and 11).

The system message is one line of ours. The user message is the data, in blocks between lines that
start with ``<<``, and then the request: a small model does what it read last. The blocks carry a key
drawn anew for each call: no message can know it, so none can end its block or open another.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memories.rules.generate import prompt_texts
from memories.rules.generate.language import is_mostly_japanese
from memories.rules.generate.salience import is_salient
from memories.rules.generate.summariser import MemoryLine, PromptForm, Reference, Request
from memories.rules.generate.tokens import WIDE_CHARACTER, estimate_tokens
from memories.rules.ingest.characters import LINE_BREAK
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.names import safe_name
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.safety.secrets import redacted

MAX_REFERENCE_TOKENS = 120  # tokens of a text that is background only
MAX_LINE_CHARACTERS = 6_000  # characters; a longer message is shown in parts of so many
NEW_LINE = " ⏎ "
THREAD = "↳"
_TOKENS_A_BULLET = 30
_MOST_BULLETS = 10
UNKNOWN_AUTHOR = "unknown"  # an author of whom nothing is known

_FEWEST_MESSAGES = 3  # with content: of fewer a model may say that nothing is worth keeping
_WORD = re.compile(r"[^\W\d_]{2,}")
_WORDS = 3  # of a message with content
_WIDE_LETTERS = 6

_FENCE_WORDS = "messages|existing|added|reference|end"
_FENCE_LIKE = re.compile(rf"^\s*<<|<<(?=\s*(?:{_FENCE_WORDS})\b)", re.IGNORECASE | re.MULTILINE)
FENCE = re.compile(rf"<<(?:{_FENCE_WORDS})\b[^\n]*>>")  # what only our own prompt can hold
_BREAK = re.compile(r"\s+|[。．！？、]")


@dataclass(frozen=True)
class Prompt:
    """``version`` is a readable name and a hash of the template, e.g. ``channel-short-en-1a2b3c4d``."""

    system: str
    user: str
    version: str


def build_prompt(request: Request, key: str) -> Prompt:
    """The prompt of a request; ``key`` is random for each call and closes its blocks."""
    return Prompt(system_text(request), user_text(request, key), prompt_version(request))


def instruction_language(request: Request) -> str:
    """Language of the instructions: ``ja``, ``en``, or ``conversation`` (English words that ask
    for the language of the sources). Mostly Japanese sources get the Japanese ones."""
    if request.language != "conversation":
        return request.language
    return "ja" if is_mostly_japanese("\n".join(_source_texts(request))) else "conversation"


def system_text(request: Request) -> str:
    """One line: who the model is, and that data is data."""
    return prompt_texts.TEXTS[instruction_language(request)]["role"]


def request_text(request: Request) -> str:
    """What is wanted of the data above it, with this request's limits filled in."""
    texts = prompt_texts.TEXTS[instruction_language(request)]
    names = [_task(request)]
    if request.form is PromptForm.FULL:
        names.append("form")
    if request.messages and request.existing:
        names.append("carry_on")
    if any(line.by_person for line in request.existing) and not request.only_adds:
        names.append("held" if request.uses_operations else "by_person")
    if request.form is PromptForm.FULL:
        names.append("size")
    if may_keep_nothing(request):
        names.append("nothing")
    if shown_references(request):
        names.append("background")
    if request.form is PromptForm.FULL:
        names.append("only")
    names.append("language")
    return fill_limits("\n".join(texts[name] for name in names), request)


def fill_limits(text: str, request: Request) -> str:
    """One of our texts with the limits of this request."""
    most = request.most_lines or _MOST_BULLETS
    bullets = min(max(request.max_tokens // _TOKENS_A_BULLET, 3), most)
    return text.format(most=request.max_tokens, aim=request.max_tokens * 2 // 3, bullets=bullets)


def instructions(request: Request) -> str:
    """All our words in the prompt, without the data."""
    return f"{system_text(request)}\n{request_text(request)}"


def may_keep_nothing(request: Request) -> bool:
    """Whether "nothing worth keeping" is a true answer (rule 8); else it is not even offered."""
    if request.memory_type is not MemoryType.SHORT_TERM or not request.messages:
        return False
    with_content = [message.text for message in request.messages if _has_content(message.text)]
    return len(with_content) < _FEWEST_MESSAGES or not any(map(is_salient, with_content))


def _has_content(text: str) -> bool:
    return len(_WORD.findall(text)) >= _WORDS or len(WIDE_CHARACTER.findall(text)) >= _WIDE_LETTERS


def shown_references(request: Request) -> Sequence[Reference]:
    """Background that goes along (S3's table), each within LONGEST_REFERENCE: none for the workspace,
    nothing is above it."""
    if request.scope is MemoryScope.WORKSPACE:
        return ()
    return [replace(each, text=_beginning(each.text)) for each in request.references]


def _beginning(text: str) -> str:
    """The first lines of a memory that fit, what holds now before what happened; at least one. A mark
    says where lines are left out."""
    kept: list[str] = []
    room = MAX_REFERENCE_TOKENS
    for line in text.split("\n"):
        room -= estimate_tokens(line)
        if kept and room < 0:
            return "\n".join([*kept, "[…]"])
        kept.append(line)
    return text


def prompt_version(request: Request) -> str:
    """Changes whenever a word of the instructions that this kind of request may get changes."""
    language = instruction_language(request)
    # Every text of the language, not only those used: combining the parts of a long input
    # uses others, and a settled name must not depend on whether there is an existing memory.
    texts = prompt_texts.TEXTS[language]
    used = [texts[name] for name in sorted(texts) if name not in prompt_texts.TASK_NAMES]
    used += [texts[name] for name in sorted(_tasks(request))]
    digest = hashlib.sha256("\n".join(used).encode()).hexdigest()[:8]
    kind = "short" if request.memory_type is MemoryType.SHORT_TERM else "long"
    form = "-simple" if request.form is PromptForm.SIMPLE else ""
    return f"{request.scope}-{kind}{form}-{'ja' if language == 'ja' else 'en'}-{digest}"


def user_text(request: Request, key: str) -> str:
    """The data in its blocks, then the request."""
    return f"{data_text(request, key)}\n\n{request_text(request)}"


def data_text(request: Request, key: str) -> str:
    """References, existing lines, then what is to be summarised, each in its block."""
    blocks: list[tuple[str, str, Iterable[str]]] = [
        (f"reference: {to_one_line(r.title)}", "", [_guarded(visible_text(r.text))])
        for r in shown_references(request)
    ]
    place = to_one_line(request.place)
    if request.existing:
        letter = "L" if request.uses_operations else ""
        lines = [letter + format_memory_line(line, request) for line in request.existing]
        blocks.append(("existing memory", place, lines))
    for addition in request.additions:
        lines = [format_memory_line(line, request) for line in addition.lines]
        blocks.append((f"added: {to_one_line(addition.title)}", "", lines))
    if request.messages:
        about = f"{place}, {request.zone}"
        blocks.append(("messages", about, format_messages(request)))
    return "\n".join(line for block in blocks for line in _block(*block, key))


def format_messages(request: Request) -> Iterator[str]:
    """``REF [YYYY-MM-DD HH:MM] name: text`` each (S3), replies marked with their thread's letter;
    the simple form has no numbers."""
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
    """``[YYYY-MM-DD HH:MM] name: text`` (S3, rule 11). Neither half can end the line or the name."""
    return f"[{at:%Y-%m-%d %H:%M}] {speaker_name(name)}: {to_one_line(text)}"


def speaker_name(name: str) -> str:
    """A name as it stands before a text: a colon ends it, so it holds none itself."""
    return safe_name(name) or UNKNOWN_AUTHOR


def format_memory_line(line: MemoryLine, request: Request) -> str:
    """``REF [YYYY-MM-DD] text``, with the mark of a line that a person wrote; the simple form has no
    numbers. What is added to a channel's memory stands below its period instead of its days."""
    number = f"{line.ref} " if request.form is PromptForm.FULL else ""
    mark = f"{prompt_texts.PERSON_MARK} " if line.by_person else ""
    is_below_period = request.scope is not MemoryScope.WORKSPACE and line not in request.existing
    at = None if is_below_period else request.local_time(line.at_us)
    day = f"[{at:%Y-%m-%d}] " if at else ""
    return f"{number}{mark}{day}{to_one_line(line.text)}"


def split_long_text(text: str, most: int = MAX_LINE_CHARACTERS) -> list[str]:
    """The text in parts of at most so many characters, cut at white space or behind a full stop in the
    last quarter of a part, where there is one. Together they are the text."""
    parts = []
    while len(text) > most:
        ends = [match.end() for match in _BREAK.finditer(text, most * 3 // 4, most)]
        cut = ends[-1] if ends else most
        parts.append(text[:cut])
        text = text[cut:]
    return [*parts, text]


def to_one_line(text: str) -> str:
    """Text as one line that can neither start a line of its own nor pass for one of our fences."""
    return _guarded(visible_text(text).strip()).replace("\n", NEW_LINE)


def visible_text(text: str) -> str:
    """Text without what a person cannot see; every kind of line break as ``\\n``."""
    return strip_invisible(LINE_BREAK.sub("\n", text))


def clean_for_model(text: str) -> str:
    """Text as a request may hold it: nothing that a person cannot see, and no secret. In this order,
    for a character that nobody sees can stand in the middle of a key."""
    return redacted(visible_text(text))


def _block(title: str, about: str, lines: Iterable[str], key: str) -> Iterator[str]:
    yield f"<<{title} {key}{': ' if about else ''}{about}>>"
    yield from lines
    yield f"<<end {key}>>"


def _task(request: Request) -> str:
    if request.form is PromptForm.SIMPLE:
        return "only_adds" if request.only_adds else _simple_task(request)
    if request.uses_operations:
        return _changes_task(request)
    return _full_task(request)


def _full_task(request: Request) -> str:
    if request.scope is MemoryScope.WORKSPACE:
        short = request.memory_type is MemoryType.SHORT_TERM
        return "workspace_short" if short else "workspace_long"
    if request.memory_type is MemoryType.LONG_TERM:
        return "channel_long"
    if request.additions:
        return "parts"
    return "thread_short" if request.scope is MemoryScope.THREAD else "channel_short"


def _changes_task(request: Request) -> str:
    is_workspace = request.scope is MemoryScope.WORKSPACE
    return "workspace_changes" if is_workspace else "channel_changes"


def _simple_task(request: Request) -> str:
    return "simple_messages" if request.messages else "simple_lines"


def _tasks(request: Request) -> set[str]:
    """The tasks that asking such a request may take: of itself, and of its parts together."""
    if request.form is PromptForm.SIMPLE:
        long_term = request.memory_type is MemoryType.LONG_TERM
        return {"simple_lines", "only_adds" if long_term else _simple_task(request)}
    merges = request.memory_type is MemoryType.LONG_TERM and request.operations
    return {_full_task(request), "parts", *((_changes_task(request),) if merges else ())}


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
