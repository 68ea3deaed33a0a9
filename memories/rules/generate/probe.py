"""What a model can do, found out by a few small tasks, and the prompt form that follows (DESIGN 5)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from memories.rules.generate import prompts
from memories.rules.generate.language import detect_language
from memories.rules.generate.prompts import Prompt
from memories.rules.generate.reply import parse_reply
from memories.rules.generate.reply_statements import parse_statements, strip_thinking
from memories.rules.generate.summariser import MessageLine, PromptForm, Reply, Request
from memories.rules.generate.tokens import estimate_tokens
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.sources import ENOUGH, SourceFinder

_MONDAY = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_FEWEST_LINES = 3
_MOST_WRONG = 0.3  # of the statements
_THOUGHTS = 100  # tokens beyond those of the answer
LONG_PROMPT_LINES = (120, 60, 30)  # lines: about 5,000, 2,500 and 1,300 tokens
_WORD = "maple"
OPERATIONS_LIMIT = 150  # tokens of an answer
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
    """What a probe found out. None: it could not be told."""

    cites: bool
    writes_operations: bool
    keeps_language: bool
    reasons: bool
    context_tokens: int | None  # by our estimate, of the longest prompt read to its beginning
    tokens_per_second: float | None

    @property
    def form(self) -> PromptForm:
        return PromptForm.FULL if self.cites and self.keeps_language else PromptForm.SIMPLE

    def as_json(self) -> dict[str, Any]:
        return {"form": self.form, **asdict(self)}


def build_conversation(*, japanese: bool) -> Request:
    """A small request in the full form, in the language of its messages."""
    said = _JAPANESE if japanese else _ENGLISH
    return Request(
        scope=MemoryScope.CHANNEL,
        memory_type=MemoryType.SHORT_TERM,
        max_tokens=300,
        language="conversation",
        zone="UTC",
        place="#backups",
        messages=[
            MessageLine(n, _MONDAY + timedelta(minutes=n), author, text)
            for n, (author, text) in enumerate(said, 1)
        ],
    )


def build_operations_prompt() -> Prompt:
    return Prompt(
        prompts.system_text(build_conversation(japanese=False)), _OPERATIONS, "probe-operations"
    )


def build_long_prompt(lines: int = LONG_PROMPT_LINES[0]) -> Prompt:
    """A word at the beginning of a long text, and the question for it at its end."""
    fillers = (
        f"[2026-01-05 {n // 60 + 9:02}:{n % 60:02}] {('Ann', 'Ben', 'Cara')[n % 3]}: shelf {n} holds {n * 7 % 90} "
        "boxes of cables, lamps, paper and tape, and nobody has counted the spare parts below it"
        for n in range(1, lines)
    )
    first = f"[2026-01-05 09:00] Ann: the word for the harbour gate is {_WORD}"
    asked = "What is the word for the harbour gate? Write only the word."
    system = prompts.system_text(build_conversation(japanese=False))
    return Prompt(system, "\n".join([first, *fillers, "", asked]), "probe-context")


def estimate_prompt(prompt: Prompt) -> int:
    return estimate_tokens(prompt.system) + estimate_tokens(prompt.user)


LONGEST_PROMPT_TOKENS = estimate_prompt(
    build_long_prompt()
)  # a model that reads so much gets prompts of full length


def can_cite(reply: Reply, request: Request) -> bool:
    """Whether most statements give the number of a message that says them."""
    reading = parse_reply(reply, request)
    if reading.fault or reading.is_copied or len(reading.lines) < _FEWEST_LINES:
        return False
    finder = SourceFinder.of(request)
    found = parse_statements(strip_thinking(reply.text))
    right = sum(
        any(
            finder.score(one.text, ref) >= ENOUGH
            for first, last in one.spans
            for ref in (first, last)
        )
        for one in found
    )
    return right >= (1 - _MOST_WRONG) * len(found)


def can_keep_language(reply: Reply, request: Request) -> bool:
    """Whether Japanese messages got Japanese lines."""
    reading = parse_reply(reply, request)
    return not reading.fault and detect_language([line.text for line in reading.lines]) == "ja"


def can_write_operations(text: str) -> bool:
    """Whether the moved launch replaces its line, the new person is added and all else stays."""
    rows = [row.strip() for row in strip_thinking(text).split("\n") if row.strip()]
    replaced = [row for row in rows if row.startswith("~ L1 ") and "26" in row]
    added = [row for row in rows if row.startswith("+ ") and "Cara" in row]
    return len(replaced) == 1 and len(added) == 1 and len(rows) == 2


def can_read_first_line(text: str) -> bool:
    return _WORD in strip_thinking(text).casefold()


def has_thoughts(replies: Sequence[Reply]) -> bool:
    """Whether a model thinks before it answers: in words, or in tokens that it does not show."""
    return any(
        reply.thinking_tokens
        or strip_thinking(reply.text) != reply.text.strip()
        or reply.completion_tokens > 2 * estimate_tokens(reply.text) + _THOUGHTS
        for reply in replies
    )


def measure_speed(replies: Sequence[Reply]) -> float | None:
    seconds = sum(reply.seconds for reply in replies)
    tokens = sum(reply.completion_tokens for reply in replies)
    return round(tokens / seconds, 1) if seconds else None
