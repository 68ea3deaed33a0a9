"""Test what a model can do with a few small tasks, and choose its prompt form."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memories.rules.generate import prompts
from memories.rules.generate.prompts import Prompt
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.reply_statements import parse_statements, strip_thinking
from memories.rules.language import detect_language
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.sources import MIN_SCORE, SourceFinder
from memories.rules.summariser import MessageLine, PromptForm, Reply, Request
from memories.rules.tokens import estimate_tokens

_START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_MIN_LINES = 3
_MIN_CORRECT = 0.7  # of the statements
_HIDDEN_TOKENS = 100  # above the size of the reply: the model thinks
LONG_PROMPT_LINES = (120, 60, 30)  # about 5,000, 2,500 and 1,300 tokens
_WORD = "maple"
OPERATIONS_LIMIT = 150  # tokens of a reply
WORD_LIMIT = 30

_ENGLISH = (
    ("Ann", "We still need a provider for the backups. Bolt costs 1,200 dollars a year."),
    ("Ben", "Crate is cheaper, 900 dollars, but has no support in Europe."),
    ("Ann", "Then we take Bolt. I sign the contract on Wednesday."),
    ("Cara", "The old storage server is switched off on 20 January at 14:00."),
    ("Dan", "Lunch was great today, thanks for the cake!"),
    ("Ben", "I will move the archive to Bolt before that, by Friday."),
    ("Eva", "Who tells the customers about the downtime? I have no idea."),
    ("Cara", "The test restore of last night failed because of a full disk."),
)
_JAPANESE = (
    ("佐藤", "バックアップの業者がまだ決まっていません。ボルト社は年間12万円です。"),
    ("田中", "クレート社は9万円で安いですが、日本語の窓口がありません。"),
    ("佐藤", "ではボルト社にしましょう。水曜日に契約します。"),
    ("鈴木", "古い保管サーバーは1月20日の14時に停止します。"),
    ("山本", "今日のお昼のケーキ、おいしかったです。"),
    ("田中", "停止の前に、金曜日までにアーカイブをボルト社へ移します。"),
    ("伊藤", "停止のことはお客様に誰が伝えますか？私にはわかりません。"),
    ("鈴木", "昨夜の復元テストは、ディスクがいっぱいで失敗しました。"),
)
_OPERATIONS = """\
L1 [2026-01-05] The launch is on 18 November.
L2 [2026-01-05] Ben owns the budget.
L3 [2026-01-05] The office is closed on Fridays.

New lines:
1 [2026-01-07] The launch moves to 26 November.
2 [2026-01-07] Cara joins the team.

Bring the memory above up to date with the new lines. Write one operation a line: "+ sentence [n]" adds \
a line, "~ L1 sentence [n]" puts a new sentence in the place of a line, "- L1 [n]" removes a line. A line \
that stays needs no operation. Write only the operations."""


@dataclass(frozen=True)
class ProbeResult:
    """The abilities of a model. None: the probe could not find out."""

    gives_sources: bool
    writes_operations: bool
    keeps_language: bool
    reasons: bool
    context_tokens: int | None  # our estimate for the longest prompt that was read completely
    tokens_per_second: float | None

    @property
    def form(self) -> PromptForm:
        return PromptForm.FULL if self.gives_sources and self.keeps_language else PromptForm.SIMPLE

    def as_json(self) -> dict[str, Any]:
        return {"form": self.form, **asdict(self)}


def build_conversation(*, japanese: bool) -> Request:
    """Build a small request in the full form."""
    return Request(
        scope=MemoryScope.CHANNEL,
        memory_type=MemoryType.SHORT_TERM,
        max_tokens=300,
        language="conversation",
        zone="UTC",
        scope_name="#backups",
        messages=[
            MessageLine(n, _START + timedelta(minutes=n), author, text)
            for n, (author, text) in enumerate(_JAPANESE if japanese else _ENGLISH, 1)
        ],
    )


def build_operations_prompt() -> Prompt:
    return Prompt(
        prompts.system_text(build_conversation(japanese=False)), _OPERATIONS, "probe-operations"
    )


def build_long_prompt(lines: int = LONG_PROMPT_LINES[0]) -> Prompt:
    """Build a prompt with a word in its first line and a question for that word at its end."""
    fillers = (
        f"[2026-01-05 {n // 60 + 9:02}:{n % 60:02}] {('Ann', 'Ben', 'Cara')[n % 3]}: shelf {n} holds {n * 7 % 90} "
        "boxes of cables, lamps, paper and tape, and nobody has counted the spare parts below it"
        for n in range(1, lines)
    )
    first = f"[2026-01-05 09:00] Ann: the word for the harbour gate is {_WORD}"
    question = "What is the word for the harbour gate? Write only the word."
    system = prompts.system_text(build_conversation(japanese=False))
    return Prompt(system, "\n".join([first, *fillers, "", question]), "probe-context")


# A model that reads this prompt completely gets prompts of full length.
LONG_PROMPT_TOKENS = build_long_prompt().tokens


def can_cite(reply: Reply, request: Request) -> bool:
    """Return whether most statements of a reply have the ref of a message that supports them."""
    parsed = parse_reply(reply, request)
    if parsed.fault or parsed.is_copied or len(parsed.lines) < _MIN_LINES:
        return False
    finder = SourceFinder.of(request)
    statements = parse_statements(strip_thinking(reply.text))
    correct = sum(
        any(
            finder.score(statement.text, ref) >= MIN_SCORE
            for span in statement.spans
            for ref in span
        )
        for statement in statements
    )
    return correct >= _MIN_CORRECT * len(statements)


def can_keep_language(reply: Reply, request: Request) -> bool:
    """Return whether the lines about Japanese messages are in Japanese."""
    parsed = parse_reply(reply, request)
    return not parsed.fault and detect_language([line.text for line in parsed.lines]) == "ja"


def can_write_operations(text: str) -> bool:
    """Return whether a reply replaces the line of the launch, adds the person, and does no more."""
    rows = [row.strip() for row in strip_thinking(text).split("\n") if row.strip()]
    replaced = [row for row in rows if row.startswith("~ L1 ") and "26" in row]
    added = [row for row in rows if row.startswith("+ ") and "Cara" in row]
    return len(replaced) == 1 and len(added) == 1 and len(rows) == 2


def can_read_first_line(text: str) -> bool:
    return _WORD in strip_thinking(text).casefold()


def has_thoughts(replies: Sequence[Reply]) -> bool:
    """Return whether a model thinks before it answers, in its text or in hidden tokens."""
    return any(
        reply.thinking_tokens
        or strip_thinking(reply.text) != reply.text.strip()
        or reply.completion_tokens > 2 * estimate_tokens(reply.text) + _HIDDEN_TOKENS
        for reply in replies
    )


def measure_speed(replies: Sequence[Reply]) -> float | None:
    """Return completion tokens per second, or None without any measured time."""
    seconds = sum(reply.seconds for reply in replies)
    tokens = sum(reply.completion_tokens for reply in replies)
    return round(tokens / seconds, 1) if seconds else None
