"""People talk, answer years-old threads, edit and delete for ten days; a sync looks every few hours.

Time is virtual: the fake Slack, the budget and the sync go by one clock, which passes while somebody
waits and between two syncs. Slack refuses what is over its budget, drops connections, answers with
502, 429 and empty pages by chance; of its events most are lost, and what comes, comes twice, in any
order. On the slow plan there is not even an event. Oracle: the fake's own messages, compared by
channel, ts, text and whether they are deleted, and its own journal of calls.

On the slow plan a sync of everything takes days, in which what is new and who is there is looked at
as ever. So there the pages of messages are counted that are read for the sync of everything.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Q

from memories.models import Message, SlackConnection, Workspace
from memories.pipeline.ingest import events
from memories.pipeline.sync.connecting import client_for
from memories.pipeline.sync.slack_budget import SharedLimiter
from memories.pipeline.sync.sync import sync_workspace
from memories.pipeline.sync.sync_report import SyncReport
from memories.rules.ingest.timestamps import micros, ts_from_micros
from tests.slack.fake_channel import is_reply
from tests.slack.fake_limits import INTERNAL_APP, SLOW_PAGE, SLOW_PLAN, busiest_minute
from tests.slack.fake_slack import TOKEN, FakeSlack, RandomFaults, VirtualClock

NAME = "12 never miss"
SMALL_DATABASES = ()

DAY = 86_400.0  # seconds
PAGE = 999
HISTORY, REPLIES = "conversations.history", "conversations.replies"
AGES = 400  # days: so old are parents
ACTS_LAST = 10 * DAY
RING = 30 * DAY
HOT = 29 * DAY  # a day less than the window, for the walks that it takes
POLLS = 2  # of the hot window
DEAR = 1.05  # calls over the least that do
TROUBLES = {"502": 0.005, "dropped": 0.005, "cut off": 0.002, "429": 0.005, "empty": 0.005}
SENT_SHARE = 0.4  # of the events, each of them twice


@dataclass(frozen=True)
class Size:
    """Counts, and how many hours lie between two syncs."""

    channels: int
    messages: int
    late_replies: int
    edits: int
    deletions: int
    hours: float


FULL = Size(5, 10_000, 2_000, 1_000, 500, 6)
FULL_ON_SQLITE = Size(5, 2_000, 400, 200, 100, 6)
SMALL = Size(2, 200, 40, 20, 10, 24)


def run(*, full: bool, seed: int, work: Path, database_url: str) -> dict[str, Any]:
    of_all = FULL_ON_SQLITE if database_url.startswith("sqlite") else FULL
    size = of_all if full else SMALL
    settings.SLACK_BOT_TOKEN = TOKEN
    figures = {
        "plan": _live_through("quick", size, seed),
        "slow_plan": _live_through("slow", size, seed + 1, slow=True),
    }
    return {
        "n": size.messages,
        "late_replies": size.late_replies,
        "edits": size.edits,
        "deletions": size.deletions,
        **figures,
        "pass": all(figure["pass"] for figure in figures.values()),
    }


@dataclass
class Change:
    """Something that somebody did, not found yet. ``walks``: of its channel, begun since."""

    channel: str
    ts: str
    at: float
    is_hot: bool
    walks: int = 0


@dataclass
class Life:
    """A fake workspace that is talked in, and ours that follows it."""

    slack: FakeSlack
    clock: VirtualClock
    chance: random.Random
    workspace: Workspace
    acts: list[tuple[float, str]] = field(default_factory=list)  # what is still to be done
    sought: list[Change] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)  # of all that were found, in days
    polls: Counter[int] = field(default_factory=Counter)  # of the hot ones
    walked: dict[str, datetime | None] = field(default_factory=dict)
    runs: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    whole: int = 0  # calls that read all of a channel, or a thread
    busiest: Counter[str] = field(default_factory=Counter)
    recent: dict[str, list[float]] = field(default_factory=dict)  # calls of the last minutes

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def wait(self, seconds: float) -> None:
        """Time passes, and people act in it."""
        until = self.clock.seconds + seconds
        while self.acts and self.acts[0][0] <= until:
            at, kind = self.acts.pop(0)
            self.clock.advance(max(0.0, at - self.clock.seconds))
            self._act(kind)
        self.clock.advance(max(0.0, until - self.clock.seconds))

    # What people do

    def create_past(self, size: Size) -> None:
        """The past: messages over 400 days, some of them in threads."""
        slack, begin = self.slack, self.clock.seconds - AGES * DAY
        for number in range(12):
            slack.add_user(f"U{number}", f"person{number}")
        moments = sorted(
            self.chance.uniform(begin, self.clock.seconds) for _ in range(size.messages)
        )
        roots: dict[str, list[str]] = {}
        for number in range(size.channels):
            slack.add_channel(f"C{number}", f"channel-{number}", members=list(slack.users))
            roots[f"C{number}"] = []
        for number, moment in enumerate(moments):
            channel = self.chance.choice(list(roots))
            ts = ts_from_micros(int(moment * 1e6) + number % 1000)
            recent = roots[channel][-10:]
            thread = self.chance.choice(recent) if recent and self.chance.random() < 0.3 else ""
            slack.say(channel, self._somebody(), f"said {number}", ts, thread=thread)
            if not thread:
                roots[channel].append(ts)
        slack.take_events()

    def plan(self, size: Size) -> None:
        kinds = ["reply"] * size.late_replies + ["edit"] * size.edits
        kinds += ["delete"] * size.deletions + ["say"] * (size.messages // 20)
        self.chance.shuffle(kinds)
        begin = self.clock.seconds
        moments = sorted(self.chance.uniform(begin, begin + ACTS_LAST) for _ in kinds)
        self.acts = list(zip(moments, kinds, strict=True))

    def _act(self, kind: str) -> None:
        slack, now = self.slack, self.clock.seconds
        channel_id = self.chance.choice(list(slack.channels))
        channel = slack.channels[channel_id]
        alive = [
            ts for ts, message in channel.messages.items() if message.get("subtype") != "tombstone"
        ]
        ts = self.chance.choice(alive)
        root_ts = channel.messages[ts].get("thread_ts", ts)
        if kind == "say":
            ts = slack.say(channel_id, self._somebody(), f"new at {now:.3f}", slack.now_ts())
            is_hot = True
        elif kind == "reply":
            parents = [stamp for stamp in alive if not is_reply(channel.messages[stamp])]
            root_ts = self.chance.choice(parents)
            text = f"late at {now:.3f}"
            ts = slack.say(channel_id, self._somebody(), text, slack.now_ts(), thread=root_ts)
            is_hot = self._is_hot(root_ts)
        elif kind == "edit":
            # Nothing but the ring shows an edit inside of a thread.
            is_hot = self._is_hot(ts) and not is_reply(channel.messages[ts])
            slack.edit(channel_id, ts, f"edited at {now:.3f}")
        else:
            is_hot = self._is_hot(root_ts)
            slack.delete(channel_id, ts)
        self.sought.append(Change(channel_id, ts, now, is_hot))

    def _is_hot(self, ts: str) -> bool:
        return self.clock.seconds - micros(ts) / 1e6 < HOT

    def _somebody(self) -> str:
        return f"U{self.chance.randrange(12)}"

    def tell(self) -> None:
        """Some events, twice and in any order; the others are lost."""
        bodies = [body for body in self.slack.take_events() if self.chance.random() < SENT_SHARE]
        bodies += bodies
        self.chance.shuffle(bodies)
        for body in bodies:
            events.store_payload(body)
        if bodies:
            events.process_events(self.workspace, seconds=600)

    # What we do

    def sync(self, **given: Any) -> SyncReport:
        """One run, as the worker makes them, and as the command does with ``full``."""
        self.workspace.refresh_from_db()
        client = client_for(
            self.workspace,
            limiter=SharedLimiter(TOKEN + self.workspace.slug, self.now),
            sleep=self.wait,
            pause=0.0001,
        )
        report = sync_workspace(
            self.workspace, client, self.now(), stopwatch=self.clock, **{"resume": True} | given
        )
        self.runs += 1
        self._measure()
        self._look()
        return report

    def _measure(self) -> None:
        """Counted by the fake, and then forgotten: its journal would grow for a month."""
        calls = list(self.slack.calls)
        self.slack.clear_calls()
        self.calls.update(call.method for call in calls)
        self.whole += sum(
            call.method == REPLIES or (call.method == HISTORY and call.params["oldest"] == "0")
            for call in calls
        )
        for method in {call.method for call in calls}:
            moments = [call.at for call in calls if call.method == method]
            earlier = [at for at in self.recent.get(method, []) if at > moments[0] - 120]
            self.recent[method] = [*earlier, *moments]
            busiest = busiest_minute(self.recent[method])
            self.busiest[method] = max(self.busiest[method], busiest)

    def _look(self) -> None:
        """Which changes have come to us by now."""
        walked = dict(self.workspace.channels.values_list("slack_id", "sync__synced_at"))
        new = {key for key, at in walked.items() if at != self.walked.get(key)}
        self.walked = walked
        for change in self.sought:
            at = walked[change.channel]
            if change.channel in new and at is not None and at.timestamp() >= change.at:
                change.walks += 1
        here = self._here({(change.channel, change.ts) for change in self.sought})
        missing = []
        for change in self.sought:
            if here.get((change.channel, change.ts)) != self.there(change.channel, change.ts):
                missing.append(change)
                continue
            self.waits.append((self.clock.seconds - change.at) / DAY)
            if change.is_hot:
                self.polls[change.walks] += 1
        self.sought = missing

    def there(self, channel_id: str, ts: str) -> str | None:
        """The text of a message in Slack; None when there is none any more."""
        message = self.slack.channels[channel_id].messages.get(ts)
        return None if message is None or message.get("subtype") == "tombstone" else message["text"]

    def _here(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], str | None]:
        states: dict[tuple[str, str], str | None] = {}
        stamps = sorted({ts for _, ts in keys})
        rows = Message.objects.filter(channel__workspace=self.workspace, state="live")
        for begin in range(0, len(stamps), 500):
            some = rows.filter(ts__in=stamps[begin : begin + 500])
            states |= {
                (c, ts): text for c, ts, text in some.values_list("channel__slack_id", "ts", "text")
            }
        return states

    def differences(self) -> int:
        """Of the whole, in both directions."""
        rows = Message.objects.filter(channel__workspace=self.workspace, state="live")
        here = {
            (c, ts): text for c, ts, text in rows.values_list("channel__slack_id", "ts", "text")
        }
        there = {
            (channel_id, ts): text
            for channel_id, channel in self.slack.channels.items()
            for ts in channel.messages
            if (text := self.there(channel_id, ts)) is not None
        }
        deleted = Message.objects.filter(channel__workspace=self.workspace, state="deleted")
        kept = deleted.exclude(text="", raw="").count()
        return len(set(here.items()) ^ set(there.items())) + kept

    def least_pages(self, page: int) -> int:
        """Pages of channels and threads: what it takes to read every message once."""
        pages = 0
        for channel in self.slack.channels.values():
            pages += max(1, ceil(len(channel.in_channel()) / page))
            pages += sum(ceil(len(replies) / page) for replies in channel.threads.values())
        return pages

    def least_lists(self) -> int:
        """Pages of people, channels and members."""
        pages = ceil(len(self.slack.users) / PAGE) + ceil(len(self.slack.channels) / PAGE)
        return pages + sum(ceil(len(c.members) / PAGE) for c in self.slack.channels.values())

    def hot_pages(self, page: int) -> int:
        """What it takes to look at the hot window."""
        edge = self.clock.seconds - 30 * DAY
        return sum(
            max(
                1,
                ceil(sum(micros(message["ts"]) / 1e6 > edge for message in c.in_channel()) / page),
            )
            for c in self.slack.channels.values()
        )


@contextmanager
def _life(slug: str, size: Size, seed: int, *, slow: bool) -> Iterator[Life]:
    clock = VirtualClock()
    budgets = SLOW_PLAN if slow else INTERNAL_APP
    with FakeSlack(clock=clock, budgets=budgets, slow=slow) as slack:
        slack.team_id = f"T0{slug.upper()}"
        settings.SLACK_BASE_URL = slack.url
        workspace = Workspace.objects.create(slug=slug, name=slug)
        life = Life(slack, clock, random.Random(seed), workspace)
        life.create_past(size)
        yield life


def _live_through(slug: str, size: Size, seed: int, *, slow: bool = False) -> dict[str, Any]:
    with _life(slug, size, seed, slow=slow) as life:
        page = SLOW_PAGE if slow else PAGE
        first = _whole(life, slow=slow, channels=list(life.slack.channels))
        discovery = len(life.slack.over_budget)  # how else would it know of the slow plan
        life.busiest.clear()
        life.wait(300)  # as the worker does
        hot_pages = life.hot_pages(page)
        idle = _poll(life)
        life.plan(size)
        life.slack.random_faults = RandomFaults(seed, TROUBLES)
        end = life.clock.seconds + ACTS_LAST + RING
        while life.clock.seconds < end and (life.acts or life.sought):
            began = life.clock.seconds
            _poll(life)
            life.wait(max(60.0, began + size.hours * 3600 - life.clock.seconds))
            if not slow:
                life.tell()
        missed = len(life.sought)
        differences = life.differences()
        life.slack.random_faults = None
        _poll(life)
        life.wait(3600)
        full = _whole(life, slow=slow, full=True)
        budgets = life.slack.budgets.calls
        over = {m: most for m, most in life.busiest.items() if most > budgets[m]}
        late = sum(count for walks, count in life.polls.items() if walks > POLLS)
        knows_plan = SlackConnection.objects.get(workspace=life.workspace).slow_plan is slow
        refused = len(life.slack.over_budget) - discovery
        figures = {
            "changes": len(life.waits) + missed,
            "missed": missed,
            "differences": differences,
            "longest_wait_days": round(max(life.waits), 1),
            "hot_by_polls": dict(sorted(life.polls.items())),
            "hot_too_late": late,
            "first_sync_over_least": round(first, 3),
            "full_sync_over_least": round(full, 3),
            "hot_pages": hot_pages,
            "idle_history": idle[HISTORY],
            "idle_replies": idle[REPLIES],
            "over_budget": over,
            "refused": refused,
            "discovery": discovery,
            "too_early": len(life.slack.too_early),
            "busiest_minute": {HISTORY: life.busiest[HISTORY], REPLIES: life.busiest[REPLIES]},
            "calls": life.calls.total(),
            "runs": life.runs,
            "knows_plan": knows_plan,
        }
        wrong = (missed, differences, over, late, refused, figures["too_early"], idle[REPLIES])
        passed = (
            not any(wrong)
            and max(first, full) <= DEAR
            and max(life.waits) * DAY <= RING
            # On the slow plan a walk takes minutes: one that is under way goes on to its end before
            # the one that is asked for, so all of a channel's pages may be read once more.
            and 0 <= idle[HISTORY] - hot_pages <= (hot_pages if slow else 0)
            and discovery <= (2 if slow else 0)
            and knows_plan
        )
        return {"pass": passed, **figures}


def _poll(life: Life) -> Counter[str]:
    """A sync, in as many runs as Slack makes it, until each channel was walked; its calls."""
    before = Counter(life.calls)
    began = life.now()
    life.sync()
    while life.workspace.channels.exclude(sync__synced_at__gte=began).exists():
        life.wait(_until_next(life))
        life.sync()
    return life.calls - before


def _whole(life: Life, *, slow: bool, **given: Any) -> float:
    """A sync of everything, in as many runs as it takes: its calls over the least that do."""
    least = life.least_pages(SLOW_PAGE if slow else PAGE) + (0 if slow else life.least_lists())
    calls, whole = life.calls.total(), life.whole
    life.sync(resume=False, **given)
    roots = Message.objects.filter(channel__workspace=life.workspace).roots()
    unread = roots.filter(Q(has_unread_replies=True) | Q(replies_read_at=None, reply_count__gt=0))
    unswept = life.workspace.channels.filter(Q(sync__synced_at=None) | Q(sync__resynced_at=None))
    while unread.exists() or unswept.exists():
        life.wait(_until_next(life))
        life.sync()
    return (life.whole - whole if slow else life.calls.total() - calls) / least


def _until_next(life: Life) -> float:
    life.workspace.refresh_from_db()
    again = life.workspace.next_sync_at
    return max(0.001, again.timestamp() - life.clock.seconds) if again else 60.0
