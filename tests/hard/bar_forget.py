"""Messages are deleted in Slack, a message and a person forgotten by command: nothing of them is left.

Teams talk in English and Japanese, in channels and threads, each message in words that no other one
has; a model that repeats what it is shown word for word makes memories of it, and people quote it in
edits, pins, notes, drafts, names, topics and links. Oracle: a scanner of its own. It knows what was
said from the talk it made, and looks for eight words in a row (sixteen letters of Japanese) that nobody
else said: in every column of every table, in every file beside the database, and on every page of a
workspace admin and of the admin site; at once, after more passes, in other processes, and after the
old export comes again.
"""

import base64
import html
import io
import itertools
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from memories.llm import get_summariser
from memories.models import (
    Channel,
    Draft,
    Job,
    Member,
    Memory,
    MemoryVersion,
    Message,
    Note,
    Person,
    QuarantinedLine,
    Reader,
    Segment,
    SlackEvent,
    User,
    Workspace,
)
from memories.models.memory.versions import MAX_NAME_LENGTH
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.generate.requests import JobRequest, RequestBuilder
from memories.pipeline.ingest.store import store_messages
from memories.rules.memory.identity import MemoryType
from memories.rules.summariser import Reply
from tests.factories import make_job
from tests.hard.model_client import ROOT, FakeModel, fake_model
from tests.slackexports import channel, export_files, person, write_zip

NAME = "16 forget"
SMALL_DATABASES = ()
ENVIRONMENT = {"MEMORYHUB_LLM_TIMEOUT": "30", "MEMORYHUB_LEASE": "120", "MEMORYHUB_BACK_OFF": "0.1"}

MESSAGES = {True: 1000, False: 20}  # that are deleted; a fifth of the full number on SQLite
OF_PERSON = {True: 3000, False: 14}
STAY = {True: 2000, False: 24}
CHANNELS = {True: 6, False: 3}
MAX_PAGES = {True: 200, False: 12}  # of each reader
WHO = "UGONE"
EVERY_THREAD, REPLIES, EVERY_MENTION, EVERY_SHARE = 6, 4, 5, 4
SETTINGS = {
    "message_threshold": 6,
    "thread_min_messages": 3,
    "short_term_max_tokens": 2000,
    "long_term_max_tokens": 4000,
    "workspace_short_term": True,
}
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or", "il")]
_KANJI = "橋倉門銅灯港山川村町道駅車船荷箱紙布糸石砂土木葉花鳥魚犬猫馬牛朝昼夜春夏秋冬東西南北赤青白黒金銀鉄"
_KANA = "あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもらりるれろ"
_WORD = re.compile(r"[a-z0-9]+")
_LINK = re.compile(r'(?:href|hx-get)="(/[^"#]*)')
_SAME = re.compile(r"around=|[?&]o=|[?&]e=|/delete/|/add/|__exact|__isnull|__id")
_LETTER = re.compile("[^\u3041-\u30ff\u4e00-\u9fff]+")


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    scale = 5 if full and database_url.startswith("sqlite") else 1
    talk = Talk.made(random.Random(seed), full=full, scale=scale)
    export = write_zip(work / "old.zip", talk.export())
    again = write_zip(work / "again.zip", talk.export(again=True))
    with fake_model(work, seed=seed, latency=(0.0, 0.0)) as model:
        town = Town(talk, model, work)
        town.begins(export)
        town.people_quote()
        before = town.scan(pages=False)
        masked_none = len([1 for place in before if place.startswith("memories_")])
        deleted, report = town.forget()
        hits: dict[str, dict[str, int]] = {}
        hits["at once"] = town.scan(most=MAX_PAGES[full])
        town.passes()
        hits["after passes"] = town.scan(pages=False)
        skipped = town.elsewhere("import_slack", str(again), "--workspace", "town")
        town.elsewhere("run_pass", "--workspace", "town")
        hits["after a restart and the old export"] = town.scan(most=MAX_PAGES[full])
    left = {when: dict(places) for when, places in hits.items() if places}
    stays = town.share_that_stays()
    facts = {
        "places_before": masked_none,
        "quoted_before": sum(before.values()),
        "left": left,
        "deleted": deleted,
        "of_person": len(talk.of(WHO)),
        "versions_touched": report["versions"],
        "lines_masked": report["lines"],
        "tombstones": Message.objects.filter(state=Message.State.DELETED).count(),
        "calls_under_way": report["calls"],
        "answers_kept": report["answers_kept"],
        "skipped_as_forgotten": "forgotten" in skipped,
        "names_left": town.names_left(),
        "others_still_in_memories": round(stays, 3),
        "pages": town.pages_seen,
        "cells": town.cells_seen,
        "errors": town.errors[:3],
    }
    enough = masked_none >= 6 and stays >= 0.9 and facts["skipped_as_forgotten"]
    nothing = not left and not facts["names_left"] and not facts["answers_kept"]
    passed = enough and nothing and not town.errors
    return {"n": deleted + len(talk.of(WHO)), **facts, "pass": passed}


# The messages


@dataclass(frozen=True)
class TalkMessage:
    channel: str
    ts: str
    thread_ts: str
    user: str
    text: str

    def raw(self) -> dict[str, Any]:
        raw = {"type": "message", "ts": self.ts, "user": self.user, "text": self.text}
        if self.thread_ts:
            raw["thread_ts"] = self.thread_ts
        if self.user == WHO:
            raw["user_profile"] = {"display_name": "Quillon Vane", "real_name": "Quillon B. Vane"}
        return raw

    def carried(self) -> dict[str, Any]:
        """A later message that brings this one along: a reply sent to the channel too, else a link,
        or a share without a word of its own."""
        seconds, _, micros = self.ts.partition(".")
        raw = {"type": "message", "ts": f"{int(seconds) + 1}.{micros}", "user": "U1"}
        if self.thread_ts == self.ts:
            thread = {"subtype": "thread_broadcast", "thread_ts": self.ts, "root": self.raw()}
            return {**raw, **thread, "text": "that is how it is"}
        link = f"https://town.slack.com/archives/{self.channel}/p{self.ts.replace('.', '')}"
        words = "" if int(seconds) % 2 else "look at this"
        return {**raw, "text": words, "attachments": [{"from_url": link, "text": self.text}]}


@dataclass
class Talk:
    channels: dict[str, str] = field(default_factory=dict)  # id → language
    messages: list[TalkMessage] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)  # ts of what is deleted: no two are alike

    @classmethod
    def made(cls, chance: random.Random, *, full: bool, scale: int) -> "Talk":
        talk = cls()
        count = CHANNELS[full]
        talk.channels = {
            f"C{i:04d}": "ja" if i % 3 == 1 else "both" if i % 3 == 2 else "en"
            for i in range(count)
        }
        victims, others, theirs = (n[full] // scale for n in (MESSAGES, STAY, OF_PERSON))
        authors = [WHO] * theirs + ["U1", "U2", "U3"] * ((victims + others) // 3 + 1)
        chance.shuffle(authors)
        begin = datetime.now(UTC).replace(microsecond=0) - timedelta(days=20)
        thread: dict[str, tuple[str, int]] = {}
        for n, author in enumerate(authors):
            where = f"C{chance.randrange(count):04d}"
            at = begin + timedelta(seconds=int(n * 15 * 86_400 / len(authors)))
            ts = f"{int(at.timestamp())}.{n % 1_000_000:06d}"
            root, left = thread.get(where, ("", 0))
            if not left and n % EVERY_THREAD == 0:
                root, left = ts, REPLIES
                thread[where] = root, left
            elif left:
                thread[where] = root, left - 1
            language = talk.channels[where]
            language = chance.choice(["en", "ja"]) if language == "both" else language
            text = _english(chance) if language == "en" else _japanese(chance)
            if author != WHO and n % EVERY_MENTION == 0:
                text = f"<@{WHO}> {text}"
            talk.messages.append(TalkMessage(where, ts, root if left else "", author, text))
        candidates = [message.ts for message in talk.messages if message.user != WHO]
        # A whole stretch of one channel, so that whole segments go, and single ones everywhere.
        in_a_row = [
            message.ts
            for message in talk.messages
            if message.channel == "C0000" and message.user != WHO
        ]
        talk.deleted = set(in_a_row[: victims // 2])
        remaining = [ts for ts in candidates if ts not in talk.deleted]
        talk.deleted |= set(chance.sample(remaining, victims - len(talk.deleted)))
        return talk

    def of(self, user: str) -> list[TalkMessage]:
        return [message for message in self.messages if message.user == user]

    @property
    def forgotten(self) -> list[TalkMessage]:
        return [
            message
            for message in self.messages
            if message.user == WHO or message.ts in self.deleted
        ]

    @property
    def staying(self) -> list[TalkMessage]:
        return [
            message
            for message in self.messages
            if message.user != WHO and message.ts not in self.deleted
        ]

    def export(self, *, again: bool = False) -> dict[str, bytes]:
        """With messages that carry others along, ``again`` with more of them, and a topic."""
        days: dict[str, list[Any]] = {}
        carrying = self.forgotten[:: EVERY_SHARE // 2 if again else EVERY_SHARE]
        raws = [(message.channel, message.raw()) for message in self.messages]
        raws += [(message.channel, message.carried()) for message in carrying]
        for where, raw in raws:
            day = f"{datetime.fromtimestamp(float(raw['ts']), UTC):%Y-%m-%d}"
            days.setdefault(f"{_name(where)}/{day}", []).append(raw)
        people = [person(f"U{i}", f"person{i}") for i in (1, 2, 3)]
        people.append(person(WHO, "Quillon Vane", real_name="Quillon B. Vane"))
        topic = {"topic": {"value": self.forgotten[0].text}}
        public = [channel(key, _name(key), **topic) for key in self.channels]
        return export_files(days, people=people, channels=public)


def _name(key: str) -> str:
    return f"room-{key.lower()}"


def _english(chance: random.Random) -> str:
    words = ["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(14)]
    words[7] += chance.choice([",", "", ";"])
    return " ".join(words).capitalize() + "."


def _japanese(chance: random.Random) -> str:
    letters = [chance.choice(_KANJI if chance.random() < 0.4 else _KANA) for _ in range(36)]
    letters.insert(chance.randint(10, 26), "、")
    return "".join(letters) + "。"


# The oracle


def grams(text: str) -> set[str]:
    """Eight words, or sixteen letters of Japanese, in a row."""
    words = _WORD.findall(text.lower())
    runs = {" ".join(words[i : i + 8]) for i in range(len(words) - 7)}
    letters = _LETTER.sub("", text)
    return runs | {letters[i : i + 16] for i in range(len(letters) - 15)}


def _grams_of(messages: Iterable[TalkMessage]) -> set[str]:
    return {gram for message in messages for gram in grams(message.text)}


def _readings(cell: object) -> Iterator[str]:
    """A value as people, programs and JSON read it."""
    if isinstance(cell, memoryview):
        cell = bytes(cell)
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8", "replace")
    if not isinstance(cell, str) or len(cell) < 16:
        return
    yield cell
    yield _unpaired(cell)
    if "\\u" in cell:
        yield re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), cell)
    if re.fullmatch(r"[\w+/=:.-]{40,}", cell):  # what the queue packs
        for part in re.split(r"[:.]", cell):
            try:
                yield base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode("latin-1")
            except ValueError:
                continue


def _unpaired(text: str) -> str:
    """A text whose words an index keeps as pairs of letters, each beginning with the last one's end."""
    whole = ""
    for word in text.split(" "):
        goes_on = len(word) == 2 and whole.endswith(word[0])
        whole += word[1] if goes_on else f" {word}"
    return whole


def _drained(ahead: list[str]) -> Iterator[str]:
    """Addresses in their order, while more of them are found."""
    while ahead:
        yield ahead.pop(0)


def _is_ahead(link: str, begin: str) -> bool:
    """What shows other texts: not another order of the same list, nor a form to delete."""
    inside = ("/admin/memories/",) if begin == "/admin/" else ("/w/", "/m/", "/v/", "/diff/")
    return link.startswith(inside) and not _SAME.search(link)


# The town


class Town:
    def __init__(self, talk: Talk, model: FakeModel, work: Path) -> None:
        self.talk = talk
        self.model = model
        self.work = work
        self.forbidden = _grams_of(talk.forgotten) - _grams_of(talk.staying)
        self.summariser = get_summariser(
            api_key="none", base_url=model.url, model="fake", timeout=settings.MEMORYHUB_LLM_TIMEOUT
        )
        self.errors: list[str] = []
        self.pages_seen = self.cells_seen = 0

    def begins(self, export: Path) -> None:
        Workspace.objects.create(slug="town", name="town", team_id="T1", settings=SETTINGS)
        call_command(
            "import_slack", str(export), workspace="town", backfill="all", stdout=io.StringIO()
        )
        self.workspace = Workspace.objects.get()
        admin = User.objects.create_user("admin", password="a")  # noqa: S106
        Member.objects.create(workspace=self.workspace, user=admin, role=Member.Role.ADMIN)
        User.objects.create_superuser("root", password="a")  # noqa: S106
        person = Person.objects.get(slack_id=WHO)
        person.email, person.linked_by = "quillon.vane@example.org", "slack"
        person.user = User.objects.create_user("quillon")
        person.save()
        claims = {"https://slack.com/team_id": "T1", "https://slack.com/user_id": WHO}
        extra = {"userinfo": {**claims, "name": "Quillon Vane", "email": person.email}}
        SocialAccount.objects.create(user=person.user, uid=WHO, provider="slack", extra_data=extra)
        EmailAddress.objects.create(user=person.user, email=person.email, verified=True)
        self.passes()

    def passes(self) -> None:
        for _ in range(50):
            workspace = Workspace.objects.get()
            report = run_pass(workspace, timezone.now(), self.summariser)
            self.errors += report.errors
            if not report.left and not report.made:
                return

    def people_quote(self) -> None:
        """In edits, pins, notes; and what the machinery keeps: proposals, faults, events, lines that
        wait for a person."""
        forgotten = self.talk.forgotten
        long_term = [
            version.memory
            for version in MemoryVersion.objects.filter(
                current_of__memory_type="long_term"
            ).select_related("memory__workspace", "memory__current")
        ]
        for number, memory in enumerate(long_term):
            quote = forgotten[number * 7 % len(forgotten)].text
            current = memory.current
            version = memory.revise(
                f"{current.content}\n- somebody said: {quote}", by=None, based_on=current.number
            )
            memory.pin(0, by=None, based_on=version.number)
        room = Channel.objects.get(slack_id="C0000")
        for minute in range(12):  # so that the texts are merged again, with what people hold
            ts = f"{int((timezone.now() - timedelta(hours=20)).timestamp()) + minute}.000000"
            store_messages(
                room, [{"ts": ts, "user": "U1", "text": f"later {minute} on"}], timezone.now()
            )
        self.passes()
        rows = Message.objects.filter(ts__in=[message.ts for message in forgotten])
        for number, row in enumerate(rows[:5]):
            Note.objects.write(self.workspace, f"Keep in mind: {row.text} – as {number} said")
            memory = long_term[number % len(long_term)]
            memory.refresh_from_db()
            for state in ("proposed", "dead", "done"):
                make_job(
                    memory=memory, base=memory.current, state=state, reply_sources=[[row.pk]],
                    reply={"text": f"- {row.text} [1]", "finish_reason": "stop", "model": "fake",
                           "prompt_version": "1"},
                    fault_text=f"The endpoint would not say: {row.text}",
                )  # fmt: skip
            line = QuarantinedLine.objects.create(memory=memory, text=f"- {row.text}", rule="url")
            line.sources.add(row)
            SlackEvent.objects.create(
                event_id=f"Ev{number}", team_id="T1", kind="message",
                body=f'{{"event": {{"type": "message", "channel": "{row.channel.slack_id}",'
                f' "ts": "{row.ts}", "text": "{row.text}"}}}}',
            )  # fmt: skip
        self._beside_memories(rows[5], long_term[0])

    def _beside_memories(self, row: Message, memory: Memory) -> None:
        """In a draft, in a version's name, in a channel's purpose and under a link to the message."""
        now, admin = timezone.now(), User.objects.get(username="admin")
        memory.refresh_from_db()
        seen = {"based_on": memory.current.number, "revision": memory.current.revision}
        draft = Draft.objects.save_text(Reader.of(admin), memory, f"- {row.text}", **seen, now=now)
        named = memory.current.rename(row.text[:MAX_NAME_LENGTH], by=None)
        described = row.channel.update_fields({"purpose": f"as said: {row.text}"})
        where = f"/archives/{row.channel.slack_id}/p{row.ts.replace('.', '')}"
        shown = {"from_url": f"https://town.slack.com{where}", "text": row.text}
        raw = {"ts": f"{int(now.timestamp()) - 3600}.000009", "user": "U1", "text": "look at this"}
        store_messages(row.channel, [{**raw, "attachments": [shown]}], now)
        if not (draft and named and described):
            raise RuntimeError("it could not be planted")

    def forget(self) -> tuple[int, Counter[str]]:
        """Most as Slack tells of deletions, a few messages and the person by command."""
        report: Counter[str] = Counter()
        under_way = self._calls()
        redacted_versions = MemoryVersion.objects.filter(lines__redacted=True).distinct
        by_channel: dict[str, list[str]] = {}
        for message in self.talk.forgotten:
            if message.user != WHO:
                by_channel.setdefault(message.channel, []).append(message.ts)
        for key, times in by_channel.items():
            room = Channel.objects.get(slack_id=key)
            for ts in times[:2]:
                self._command("--message", f"{key}:{ts}")
            raws = [
                {"type": "message", "subtype": "message_deleted", "ts": ts, "deleted_ts": ts}
                for ts in times[2:]
            ]
            store_messages(room, raws, timezone.now())
        self._command("--person", WHO)
        report["calls"] = len(under_way)
        for job, question in under_way:
            lines = [f"- {message.text} [{message.ref}]" for message in question.request.messages]
            reply = Reply("\n".join(lines), "stop", "fake", "1")
            report["answers_kept"] += job.save_reply(reply, question.sources)
        report["versions"] = redacted_versions().count()
        report["lines"] = sum(v.redacted_lines().count() for v in redacted_versions())
        return sum(map(len, by_channel.values())), report

    def _calls(self) -> list[tuple[Job, JobRequest]]:
        """A channel's and a thread's answers that are under way while what they were shown goes; the
        thread's last segment, which the row names, stays as it is."""
        deleted = Message.objects.filter(ts__in=self.talk.deleted).select_related("channel")
        whole = deleted.exclude(segment=None).in_order()[:1]
        places = [
            (Memory.objects.of_channel(m.channel, MemoryType.SHORT_TERM), m.segment) for m in whole
        ]
        for row in deleted.exclude(thread_segment=None).in_order():
            segments = row.channel.segments.filter(thread_ts=row.thread_ts).order_by("number")
            last = segments.last()
            if not last.thread_messages.filter(ts__in=[m.ts for m in self.talk.forgotten]).exists():
                segments.update(outcome=Segment.Outcome.WAITING)
                places.append((Memory.objects.of_thread(row.channel, row.thread_ts), last))
                break
        builder, questions = RequestBuilder(self.workspace), []
        for memory, segment in places:
            job = make_job(memory=memory, segment=segment)
            job.claim(timezone.now(), timedelta(hours=1))
            questions.append((job, builder.build(job)))
        return questions

    def _command(self, *what: str) -> None:
        call_command("forget", *what, "--yes", "--workspace", "town", stdout=io.StringIO())

    def elsewhere(self, *command: str) -> str:
        """In a process of its own: as after a restart."""
        own = {
            "OPENAI_BASE_URL": self.model.url,
            "OPENAI_API_KEY": "none",
            "MEMORYHUB_MODEL": "fake",
        }
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=ROOT, env={**os.environ, **own}, capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            self.errors.append(f"{command[0]}: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout

    def scan(self, *, pages: bool = True, most: int = 0) -> Counter[str]:
        """Where something is left: table and column, file or page → how often."""
        hits: Counter[str] = Counter()
        for place, cell in self._cells():
            for text in _readings(cell):
                if not self.forbidden.isdisjoint(grams(text)):
                    hits[place] += 1
                    break
        for file in self.work.rglob("*"):
            is_text = file.suffix == ".log" or file.is_relative_to(settings.MEMORYHUB_VAR)
            if is_text and file.is_file():
                text = file.read_text(errors="replace")
                if not self.forbidden.isdisjoint(grams(text)):
                    hits[f"file {file.name}"] += 1
        if pages:
            for path, text in self._pages(most):
                if not self.forbidden.isdisjoint(grams(text)):
                    hits[f"page {re.sub(r'[0-9]+', 'N', path)}"] += 1
        return hits

    def _cells(self) -> Iterator[tuple[str, object]]:
        with connection.cursor() as cursor:
            for table in sorted(connection.introspection.table_names(cursor)):
                cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
                names = [column[0] for column in cursor.description]
                while rows := cursor.fetchmany(500):
                    for row in rows:
                        for name, cell in zip(names, row, strict=True):
                            self.cells_seen += 1
                            cell = cell if isinstance(cell, str | bytes | memoryview) else str(cell)
                            yield f"{table}.{name}", cell

    def _pages(self, most: int) -> Iterator[tuple[str, str]]:
        for who, begin in (("admin", "/"), ("root", "/admin/")):
            client = Client(SERVER_NAME="localhost")
            client.force_login(User.objects.get(username=who))
            ahead, seen = [begin], {begin}
            for path in itertools.islice(_drained(ahead), most):
                answer = client.get(path, follow=True)
                self.pages_seen += 1
                if answer.status_code != 200 or "/login/" in str(answer.redirect_chain):
                    self.errors.append(f"{who} {path}: {answer.status_code}")
                if "text/html" not in answer.headers.get("Content-Type", ""):
                    continue
                text = answer.content.decode()
                yield path, html.unescape(re.sub("<[^>]+>", " ", text))
                links = set(map(html.unescape, _LINK.findall(text)))
                ahead += sorted(link for link in links - seen if _is_ahead(link, begin))
                seen |= links

    def names_left(self) -> list[str]:
        """Columns that still hold the name or the address of who was forgotten."""
        return sorted({
            place for place, cell in self._cells() for text in _readings(cell) if "uillon" in text
            if not place.startswith(("memories_auditevent", "memories_user", "django_"))
        })  # fmt: skip

    def share_that_stays(self) -> float:
        """Of what the others said, how much some short-term memory still repeats."""
        texts = MemoryVersion.objects.filter(memory__memory_type="short_term")
        kept: set[str] = set()
        for content in texts.values_list("content", flat=True):
            kept |= grams(content)
        staying = self.talk.staying
        return sum(not kept.isdisjoint(grams(message.text)) for message in staying) / len(staying)
