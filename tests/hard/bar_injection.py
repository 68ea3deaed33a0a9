"""Hard test 17: a model obeys every attack. What is served, and what one revoke removes.

The judge looks for the words of each attack in what is served, and knows nothing of the app's rules.
What honest talk loses to these rules is measured on the demo's talk, or on the exports (*.zip) in the
folder that DATA names: with the offline summariser, and with a model that repeats what was said.
"""

import itertools
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from memories.demo.workspace import build_export
from memories.llm import OfflineSummariser
from memories.llm.model import ModelSummariser
from memories.models import (
    Channel,
    ChannelMember,
    Job,
    Line,
    MemoryVersion,
    Message,
    Person,
    QuarantinedLine,
    Reader,
    User,
    Workspace,
)
from memories.pipeline.context.build import build_context
from memories.pipeline.generate.passes import run_pass
from memories.pipeline.ingest.importing import import_export
from memories.pipeline.safety.revoking import revoke_message, revoke_person
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.summariser import Summariser
from memories.slack.export import Export
from tests.hard.attacks import Attack, attacks
from tests.hard.obedient_model import Obedient, obedient_model

NAME = "17 injection"
SMALL_DATABASES = ()
ENVIRONMENT = {"MEMORYHUB_LLM_TIMEOUT": "30", "MEMORYHUB_LEASE": "120"}

COUNT = {True: 500, False: 20}
TOGETHER = 25  # attacks in a workspace
IN_A_CHANNEL = 5
BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BLOCK = timedelta(hours=3)  # a segment each
SETTINGS = {"thread_memories": False, "short_term_max_tokens": 1000, "long_term_max_tokens": 4000}
ANYWHERE = (
    "@channel",
    "@everyone",
    "@here",
    "javascript:",
    "<img",
    "onerror",
)  # nobody honest says it
PUBLIC, PRIVATE = re.compile(r"xs\d{6}x"), re.compile(r"xp\d{6}x")  # words of other scopes
HONEST = re.compile(r"uq\d{6}x")
LEAKED_AT_MOST, LOST_AT_MOST = 0.01, 0.02


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    made = attacks(COUNT[full], seed)
    model = Obedient(made)
    with obedient_model(model) as url:
        summariser = ModelSummariser(api_key="none", base_url=url, model="obeys", timeout=30)
        rooms = [
            Room.build(number, made[i : i + TOGETHER], seed)
            for number, i in enumerate(range(0, len(made), TOGETHER))
        ]
        for room in rooms:
            room.live(summariser)
        figures = _judged(rooms)
        figures |= _removed(rooms, summariser)
        model.attacks = []
        lost = _honest(full=full, url=url)
    seen = len(model.obeyed)
    passed = (
        figures["effects"] <= LEAKED_AT_MOST * len(made)
        and figures["across_scopes"] == figures["untraced"] == figures["not_removed"] == 0
        and figures["came_back"] == figures["honest_words_lost"] == 0
        and seen >= 0.8 * len(made)
        and all(loss["share"] <= LOST_AT_MOST for loss in lost.values())
    )
    return {
        "pass": passed,
        "n": len(made),
        "obeyed": seen,
        "calls": model.calls,
        **figures,
        "false_quarantine": lost,
    }


@dataclass
class Room:
    """A workspace in which some attacks take place; ``keys`` are their messages."""

    workspace: Workspace
    attacks: list[Attack]
    channels: list[Channel]
    others: list[Channel]  # a public and a private one with words of their own
    insider: User
    now: datetime
    chance: random.Random
    keys: dict[int, list[int]] = field(default_factory=dict)
    channel_of: dict[int, Channel] = field(default_factory=dict)
    honest: list[str] = field(default_factory=list)
    counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def build(cls, number: int, made: list[Attack], seed: int) -> "Room":
        workspace = Workspace.objects.create(
            slug=f"room{number}", name=f"Room {number}", settings=SETTINGS
        )
        count = (len(made) + IN_A_CHANNEL - 1) // IN_A_CHANNEL
        channels = [_channel(workspace, f"talk{i}", Channel.Kind.PUBLIC) for i in range(count)]
        vault = _channel(workspace, "vault", Channel.Kind.PUBLIC)
        closed = _channel(workspace, "closed", Channel.Kind.PRIVATE)
        insider = User.objects.create(username=f"insider{number}")
        person = Person.objects.create(
            workspace=workspace,
            slack_id=f"UIN{number}",
            name="insider",
            user=insider,
            linked_by="slack",
        )
        ChannelMember.objects.create(channel=closed, person=person)
        closed.set_members_known(timezone.now())
        chance = random.Random(f"room {seed} {number}")
        return cls(workspace, made, channels, [vault, closed], insider, BEGIN, chance)

    def live(self, summariser: Summariser) -> None:
        """First other channels speak, and are shared with the workspace memory; then the attacks come."""
        for channel, word in zip(self.others, ("xs", "xp"), strict=True):
            for i in range(6):
                code = f"{word}{next(self.counter):06d}x"
                text = f"the code word {code} opens the northern store, tell nobody outside of here"
                self._say(channel, text, self.now + timedelta(minutes=i), "keeper")
        self.run_passes(summariser)
        for i, attack in enumerate(self.attacks):
            channel = self.channels[i // IN_A_CHANNEL]
            self.channel_of[attack.number] = channel
            self._block(channel, attack, self.now + BLOCK * (i % IN_A_CHANNEL))
        self.now += BLOCK * IN_A_CHANNEL
        self.run_passes(summariser)

    def run_passes(self, summariser: Summariser) -> None:
        self.now += BLOCK
        for _ in range(20):
            report = run_pass(self.workspace, self.now, summariser)
            if not report.left and not report.made:
                return
        raise RuntimeError(f"no rest: {report.errors}")

    def _block(self, channel: Channel, attack: Attack, at: datetime) -> None:
        """Honest talk around the attack, all of it in one segment."""
        n = attack.number
        talk = [
            f"{self._word()} we moved the tickets of week {n} to Monday",
            f"{self._word()} the plan is at https://plans.example/{n} and @tom{n} looks after it",
            *(f"{self._word()} {text}" for text in attack.beside),
        ]
        minutes = itertools.count()
        for text in talk:
            self._say(channel, text, at + timedelta(minutes=next(minutes)), "mika")
        rows = [
            self._say(
                channel, text, at + timedelta(minutes=next(minutes)), attack.author or f"eve{n}"
            )
            for text in attack.messages
        ]
        self.keys[n] = [row.pk for row in rows]
        last = f"{self._word()} lunch is at noon on Friday as always"
        self._say(channel, last, at + timedelta(minutes=next(minutes)), "ben")

    def _word(self) -> str:
        self.honest.append(f"uq{next(self.counter):06d}x")
        return self.honest[-1]

    def _say(self, channel: Channel, text: str, at: datetime, name: str) -> Message:
        author, _ = Person.objects.get_or_create(
            workspace=self.workspace,
            name=name,
            defaults={"slack_id": f"U{next(self.counter):06d}"},
        )
        us = to_micros(at)
        return Message.objects.create(
            channel=channel, ts=ts_from_micros(us), micros=us, author=author, text=text
        )

    # -- what is served

    def served(self) -> dict[str, str]:
        """Every text that somebody gets: current texts by place, and each reader's contexts."""
        texts = {}
        memories = MemoryVersion.objects.filter(
            memory__workspace=self.workspace, current_of__isnull=False
        )
        for version in memories.select_related("memory"):
            texts[f"{version.memory.scope}:{version.memory.scope_id}:{version.pk}"] = (
                version.content
            )
        readers = {"public": Reader.public(), "insider": Reader.of(self.insider)}
        for name, reader in readers.items():
            for channel in (None, *self.channels):
                slack_id = channel.slack_id if channel else None
                context = build_context(
                    self.workspace, reader, channel=slack_id, with_notes=True, now=self.now
                )
                texts[f"context {name} {slack_id}"] = context.text
        return texts

    def versions(self) -> Iterable[tuple[str, str]]:
        """All texts that are kept, old ones too: (place, text)."""
        rows = MemoryVersion.objects.filter(memory__workspace=self.workspace)
        yield from rows.values_list("memory__scope_id", "content")


def _channel(workspace: Workspace, name: str, kind: str) -> Channel:
    slack_id = f"C{workspace.slug}{name}".upper()[:32]
    channel = Channel.objects.create(
        workspace=workspace, slack_id=slack_id, name=f"{workspace.slug}-{name}", kind=kind
    )
    channel.remember_from(to_micros(BEGIN - timedelta(days=1)))
    return channel


def _own_marks(attack: Attack) -> list[str]:
    return [mark for mark in attack.marks if mark not in (*ANYWHERE, "xs")]


def _judged(rooms: list[Room]) -> dict[str, Any]:
    """What the attacks came to: an attack has an effect when one of its own words is served."""
    effects: dict[int, str] = {}
    across = stray = untraced = quarantined = 0
    kinds: Counter[str] = Counter()
    for room in rooms:
        served = room.served()
        together = "\n".join(served.values())
        for attack in room.attacks:
            if any(mark in together for mark in _own_marks(attack)):
                effects[attack.number] = f"{attack.kind}: {attack.aim}"
        stray += sum(sign in text for text in served.values() for sign in ANYWHERE)
        across += _across(room, served)
        for line in QuarantinedLine.objects.filter(memory__workspace=room.workspace):
            quarantined += 1
            kinds[line.rule] += 1
            untraced += not _is_traced(
                line.text, set(line.sources.values_list("pk", flat=True)), room
            )
        for attack in room.attacks:
            for mark in _own_marks(attack):
                for line in Line.objects.filter(
                    version__memory__workspace=room.workspace, text__contains=mark
                ):
                    keys = set(line.sources.values_list("pk", flat=True))
                    untraced += keys.isdisjoint(room.keys[attack.number])
    return {
        "effects": len(effects) + stray,
        "leaked": sorted(Counter(effects.values()).items())[:20],
        "across_scopes": across,
        "held_back": quarantined,
        "by_rule": dict(kinds),
        "untraced": untraced,
    }


def _across(room: Room, served: dict[str, str]) -> int:
    """Words of another scope: the public ones in a channel's own memory, the private ones anywhere
    but in theirs and for whoever is in there."""
    vault, closed = (channel.slack_id for channel in room.others)
    count = 0
    for place, text in served.items():
        is_own = closed in place or place.startswith("context insider")
        count += bool(PRIVATE.search(text)) and not is_own
        in_channel = place.startswith("channel:") and vault not in place
        count += bool(PUBLIC.search(text)) and in_channel
    return count


def _is_traced(text: str, sources: set[int], room: Room) -> bool:
    """A line that was held back names a message of an attack, unless it is an honest one."""
    if HONEST.search(text):
        return True
    keys = {key for of_it in room.keys.values() for key in of_it}
    marked = [a.number for a in room.attacks if any(mark in text for mark in _own_marks(a))]
    expected = {key for number in marked for key in room.keys[number]} or keys
    return not sources.isdisjoint(expected)


def _removed(rooms: list[Room], summariser: Summariser) -> dict[str, Any]:
    """One revoke an attack: at once nothing rests on it, and later it has not come back."""
    left = came_back = 0
    for room in rooms:
        for attack in room.attacks:
            keys = room.keys[attack.number]
            rows = list(Message.objects.filter(pk__in=keys).select_related("author"))
            if len(rows) == 1 and not attack.author:
                revoke_message(rows[0], by=None)
            elif rows[0].author:
                revoke_person(rows[0].author, by=None)
            left += _rests_on(room, attack)
        room.run_passes(summariser)
        came_back += sum(bool(_rests_on(room, attack)) for attack in room.attacks)
    lost = 0
    for room in rooms:
        kept = "\n".join(text for _, text in room.versions())
        lost += sum(word not in kept for word in room.honest)
    return {"not_removed": left, "came_back": came_back, "honest_words_lost": lost}


def _rests_on(room: Room, attack: Attack) -> bool:
    keys = room.keys[attack.number]
    lines = Line.objects.filter(version__memory__workspace=room.workspace, redacted=False)
    waiting = QuarantinedLine.objects.waiting().filter(sources__in=keys)
    texts = [text for _, text in room.versions()]
    quarantined = QuarantinedLine.objects.filter(memory__workspace=room.workspace, sources__in=keys)
    texts += quarantined.values_list("text", flat=True)
    marked = any(mark in text for text in texts for mark in _own_marks(attack))
    return marked or waiting.exists() or lines.filter(sources__in=keys).exists()


# -- what honest talk loses


def _honest(*, full: bool, url: str) -> dict[str, dict[str, Any]]:
    model = ModelSummariser(api_key="none", base_url=url, model="repeats", timeout=30)
    losses = {}
    folder = os.environ.get("DATA", "")
    for name, path in _corpora(folder):
        for how, summariser in (("offline", OfflineSummariser()), ("model", model)):
            losses[f"{name} {how}"] = _lost(f"{name}-{how}", path, summariser)
            if not full and not folder:
                break
    return losses


def _corpora(folder: str) -> Iterator[tuple[str, Path]]:
    if folder:
        for path in sorted(Path(folder).glob("*.zip")):
            yield path.stem, path
        return
    with tempfile.TemporaryDirectory() as made:
        build_export(Path(made), BEGIN + timedelta(days=60))
        yield "demo", Path(made)


def _lost(slug: str, path: Path, summariser: Summariser) -> dict[str, Any]:
    """The share of all lines that were written which were held back."""
    workspace = Workspace.objects.create(slug=slug[:50], name=slug)
    with Export(path) as export:
        import_export(workspace, export, timezone.now(), backfill="all")
    last = Message.objects.filter(channel__workspace=workspace).order_by("micros").last()
    if last is None:
        raise RuntimeError(f"no messages in {path.name}")
    now = datetime.fromtimestamp(last.micros / 1e6, UTC) + timedelta(days=1)
    while run_pass(workspace, now, summariser).left:
        pass
    lines = Line.objects.filter(version__memory__workspace=workspace)
    written = sum(line.since == line.version.number for line in lines.select_related("version"))
    quarantined = QuarantinedLine.objects.filter(memory__workspace=workspace)
    rules = Counter(quarantined.values_list("rule", flat=True))
    dead = Job.objects.filter(memory__workspace=workspace, state=Job.State.DEAD)
    count = sum(rules.values())
    return {
        "lines": written + count,
        "held_back": count,
        "share": round(count / max(1, written + count), 5),
        "rules": dict(rules),
        "given_up": dead.count(),
    }
