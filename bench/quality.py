"""Measure if a context contains what an answer needs: `make quality` (DATA=, MODEL=1).

The questions are those of the demo (quality_questions.toml), as of the evening of a day. With DATA they come
from two files in GateMem's format, DATA.episodes.jsonl and DATA.checkpoints.jsonl. A question is a hit if
the context contains all its strings, and recall is their mean share. Two baselines have as many tokens: the
newest messages, and the messages that a search for the question finds. MODEL=1 uses the configured model.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

BUDGETS = (1_000, 2_000, 4_000)
NOW = datetime(2026, 11, 24, 9, tzinfo=UTC)  # of the demo's story
OURS, ASKED = "context", "context --query"
NEWEST, SEARCH = "newest messages", "search"
BEST_THREE = "ask, 3 texts"
PASSES_APART = timedelta(hours=2)


@dataclass(frozen=True)
class Question:
    """A question with regular expressions for its answer, at a time. ``old`` is an outdated answer."""

    group: str  # a language, or a domain
    channel: str
    at: datetime
    text: str
    strings: tuple[str, ...]
    old: str = ""

    def is_outdated(self, text: str) -> bool:
        """Return whether a context contains the old answer as a current one."""
        return bool(self.old) and any(
            _holds(_plain(line), self.old) for line in current_lines(text)
        )

    def match(self, text: str) -> list[bool]:
        plain = _plain(text)
        return [_holds(plain, _plain(string)) for string in self.strings]


@dataclass
class Score:
    """Counts of hits, with the questions that lack a string or have an outdated answer.

    *Ask* says "I don't know" to the ``unknown`` ones.
    """

    asked: int = 0
    hits: int = 0
    recall: float = 0.0
    missed: list[str] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, question: Question, text: str) -> None:
        matches = question.match(text)
        self.asked += 1
        self.hits += all(matches)
        self.recall += sum(matches) / len(matches)
        if not all(matches):
            self.missed.append(question.text)
        if question.is_outdated(text):
            self.outdated.append(question.text)

    @property
    def hit_rate(self) -> float:
        return self.hits / self.asked


Scores = dict[tuple[str, int, str], Score]  # by group, budget and source of the text


def demo_questions(now: datetime = NOW) -> list[Question]:
    """Return the questions of the demo, in the order of their times."""
    from memories.demo.script import TOKYO, with_dates, workday

    rows = tomllib.loads((Path(__file__).parent / "quality_questions.toml").read_text("utf-8"))
    questions = []
    for row in rows["question"]:
        day = workday(now.astimezone(TOKYO).date(), row["day"])
        at = datetime(day.year, day.month, day.day, 23, tzinfo=TOKYO)
        strings = tuple(re.escape(with_dates(string, now)) for string in row["strings"])
        text = with_dates(row["text"], now)
        old = re.escape(_plain(with_dates(row.get("old", ""), now)))
        questions.append(Question(row["language"], row["channel"], at, text, strings, old))
    return sorted(questions, key=lambda question: question.at)


def ask_demo(budgets: Sequence[int] = BUDGETS, summariser: Any = None) -> Scores:
    """Return the scores of the demo's questions, each at its time."""
    workspace = make_demo(NOW)
    scores: Scores = {}
    at = None
    for question in demo_questions(NOW):
        if question.at != at:
            at = question.at
            remember(workspace, at, summariser)
        _ask(workspace, question, budgets, scores)
    return scores


def make_demo(now: datetime) -> Any:
    """Import the demo's messages into a new workspace, without memories."""
    from memories.demo.workspace import build_export
    from memories.models import Workspace

    workspace = Workspace.objects.create(slug="quality", name="Kazoe")
    workspace.change_settings({"time_zone": "Asia/Tokyo"})
    with TemporaryDirectory() as folder:
        build_export(Path(folder), now)
        _import(workspace, Path(folder), now)
    return workspace


def ask_gatemem(data: str, budgets: Sequence[int] = BUDGETS, summariser: Any = None) -> Scores:
    """Return the scores of the utility checkpoints of a domain. Each episode is a channel."""
    from memories.models import Workspace

    scores: Scores = {}
    for episode, checkpoints in _episodes(data):
        turns = _dated(episode["turns"])
        workspace = Workspace.objects.create(slug=f"e{len(scores)}-{episode['number']}", name="e")
        with TemporaryDirectory() as folder:
            _write_export(Path(folder), episode, turns)
            _import(workspace, Path(folder), turns[-1][0] + timedelta(hours=1))
        clock = turns[0][0]
        for checkpoint in checkpoints:
            at = turns[checkpoint["index"]][0] + timedelta(seconds=60)
            while clock < at:
                remember(workspace, clock, summariser)
                clock += PASSES_APART
            remember(workspace, at, summariser)
            strings = tuple(checkpoint["judge_spec"]["include"])
            question = Question(episode["domain"], "episode", at, checkpoint["query_text"], strings)
            _ask(workspace, question, budgets, scores)
    return scores


def _import(workspace: Any, folder: Path, now: datetime) -> None:
    from memories.pipeline.ingest.importing import import_export
    from memories.pipeline.search import indexing
    from memories.slack.export import Export

    with Export(folder) as export:
        import_export(workspace, export, now, backfill="all")
    indexing.index_pending()


def remember(workspace: Any, at: datetime, summariser: Any = None) -> None:
    from memories.llm.offline import OfflineSummariser
    from memories.pipeline.generate.passes import run_pass
    from memories.pipeline.search import indexing

    run_pass(workspace, at, summariser or OfflineSummariser())
    indexing.index_pending()


def _ask(workspace: Any, question: Question, budgets: Iterable[int], scores: Scores) -> None:
    from memories.models import Message, Reader
    from memories.pipeline.ask.asking import ask
    from memories.pipeline.context.build import build_context
    from memories.pipeline.search.finding import audience_keys, most_relevant, question_hits
    from memories.rules.ingest.timestamps import to_micros

    messages = Message.objects.visible_to(Reader.public()).filter(
        channel__workspace=workspace, channel__name=question.channel
    )
    messages = messages.rememberable().until(to_micros(question.at)).select_related("author")
    newest = [f"{row.author_name}: {row.text}" for row in messages.order_by("-micros")]
    keys = audience_keys(workspace, Reader.public(), None)
    rows = question_hits(question.text, messages, keys, to_micros(question.at))
    hits = {row.pk: row for row in rows}
    best = most_relevant(question.text, [(x.pk, x.micros, x.tokens) for x in hits.values()])
    matches = [f"{hits[pk].author_name}: {hits[pk].text}" for pk in best]
    answer = ask(question.text, workspace, Reader.public(), question.at)
    for budget in budgets:
        plain, with_question = (
            build_context(
                workspace,
                Reader.public(),
                channel=question.channel,
                budget=budget,
                question=text,
                now=question.at,
            ).text
            for text in ("", question.text)
        )
        texts = {
            OURS: plain,
            ASKED: with_question,
            NEWEST: _within(newest, budget),
            SEARCH: _within(matches, budget, may_skip=True),
            BEST_THREE: "\n".join(passage.text for passage in answer.passages[:3]),
        }
        for source, text in texts.items():
            score = scores.setdefault((question.group, budget, source), Score())
            score.add(question, text)
            if source == BEST_THREE and answer.sentences is not None:
                score.unknown.append(question.text)


def current_lines(text: str) -> list[str]:
    """Return the current lines of the memories in a context, without history and replaced lines."""
    lines, is_memory, is_history = [], False, False
    for line in text.splitlines():
        if line.startswith("#"):
            if line.startswith("# "):
                is_memory = line in ("# Long-term memory", "# Short-term memory", "# Threads")
            is_history = line.lstrip("# ") in ("History", "経緯")
        elif is_memory and not is_history and not line.endswith(("(replaced)", "（変更済み）")):
            lines.append(line)
    return lines


def _within(lines: Iterable[str], budget: int, *, may_skip: bool = False) -> str:
    """Return the lines that fit. Stop at the first that does not, or skip it."""
    from memories.rules.tokens import estimate_tokens

    fitting = []
    for line in lines:
        cost = estimate_tokens(f"{line}\n")
        if cost > budget:
            if may_skip:
                continue
            break
        budget -= cost
        fitting.append(line)
    return "\n".join(fitting)


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.lower().replace(",", ""))


def _holds(text: str, pattern: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return pattern in text


def _episodes(data: str) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield episodes with their checkpoints, in the order of their turns."""
    rows = [json.loads(line) for line in Path(f"{data}.checkpoints.jsonl").read_text().splitlines()]
    for number, line in enumerate(Path(f"{data}.episodes.jsonl").read_text().splitlines()):
        episode = json.loads(line) | {"number": number}
        index = {turn["turn_id"]: i for i, turn in enumerate(episode["turns"])}
        checkpoints = [
            row | {"index": index[row["as_of_turn_id"]]}
            for row in rows
            if row["episode_id"] == episode["episode_id"]
            and row["query_type"] == "utility"
            and row["judge_spec"].get("include")
            and row["as_of_turn_id"] in index
        ]
        yield episode, sorted(checkpoints, key=lambda row: row["index"])


def _dated(turns: Sequence[dict[str, Any]]) -> list[tuple[datetime, str, str]]:
    """Return the (time, speaker, text) of each turn, with ascending times.

    Turns without a time are three minutes apart. An episode in the future is moved back by whole weeks.
    """
    dated: list[tuple[datetime, str, str]] = []
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    for turn in turns:
        stamp = turn.get("timestamp")
        given = datetime.fromisoformat(stamp).replace(tzinfo=UTC) if stamp else None
        earliest = at + timedelta(microseconds=1) if dated else at
        at = max(given or at + timedelta(minutes=3), earliest) if dated else given or at
        dated.append((at, turn["speaker"]["principal_id"], turn["text"]))
    late = dated[-1][0] - datetime.now(UTC)
    back = timedelta(weeks=max(0, late // timedelta(weeks=1) + 1))
    return [(at - back, who, text) for at, who, text in dated]


def _write_export(
    folder: Path, episode: dict[str, Any], turns: Sequence[tuple[datetime, str, str]]
) -> None:
    people = episode["entities"]["principals"]
    ids = {person["principal_id"]: f"U{i:08d}" for i, person in enumerate(people)}
    users = [
        {
            "id": ids[person["principal_id"]],
            "team_id": "T1",
            "name": person["principal_id"],
            "real_name": person.get("display_name", person["principal_id"]),
            "profile": {"real_name": person.get("display_name", "")},
        }
        for person in people
    ]
    escaped = [
        (at, ids.get(who, "U00000000"), escape(text, quote=False)) for at, who, text in turns
    ]
    write_channel(folder, "episode", users, escaped)


def write_channel(
    folder: Path,
    name: str,
    users: Sequence[dict[str, Any]],
    turns: Iterable[tuple[datetime, str, str]],
) -> None:
    """Write the export of a channel. A turn has a time, the id of a user, and Slack's text."""
    channel = {"id": "C00000001", "name": name, "created": 1, "members": [x["id"] for x in users]}
    days: dict[str, list[dict[str, str]]] = {}
    for at, user, text in turns:
        micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        row = {"type": "message", "ts": f"{micros // 10**6}.{micros % 10**6:06d}", "text": text}
        days.setdefault(f"{at:%Y-%m-%d}", []).append(row | {"user": user})
    (folder / name).mkdir()
    files: dict[str, Any] = {"users.json": users, "channels.json": [channel]}
    files |= {f"{name}/{day}.json": rows for day, rows in days.items()}
    for path, value in files.items():
        (folder / path).write_text(json.dumps(value), "utf-8")


def table(scores: Scores) -> str:
    """Format the scores."""
    lines = [f"{'':12} {'tokens':>6}  {'':16} {'asked':>5} {'hit':>6} {'recall':>6} outdated"]
    for (group, budget, who), score in scores.items():
        rates = f"{score.hit_rate:6.3f} {score.recall / score.asked:6.3f}"
        outdated = len(score.outdated) if who in (OURS, ASKED) else ""
        lines.append(f"{group:12} {budget:6}  {who:16} {score.asked:5} {rates} {outdated:>8}")
    return "\n".join(lines)


@contextmanager
def temporary_hub() -> Iterator[None]:
    """Set up Django on a new SQLite database in a temporary folder."""
    import django
    from django.core.management import call_command

    with TemporaryDirectory() as folder:
        os.environ |= {
            "DATABASE_URL": f"sqlite:///{folder}/db.sqlite3",
            "MEMORYHUB_VAR": folder,
            "DJANGO_SETTINGS_MODULE": "memoryhub.settings",
            "MEMORYHUB_LOG_LEVEL": "ERROR",
        }
        os.environ.setdefault("SECRET_KEY", "quality")
        django.setup()
        call_command("migrate", verbosity=0)
        yield


def main() -> None:
    with temporary_hub():
        from bench.quality_model import Recorder
        from memories.pipeline.generate.passes import configured_summariser

        model = Recorder(configured_summariser()) if os.environ.get("MODEL") == "1" else None
        data = os.environ.get("DATA")
        print(table(ask_gatemem(data, summariser=model) if data else ask_demo(summariser=model)))
        if model is not None:
            print(model.figures())


if __name__ == "__main__":
    main()
