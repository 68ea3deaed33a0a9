"""A small team with a bit of everything that pages show, made by the product's own verbs."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from allauth.idp.oidc.models import Client
from django.contrib import admin
from django.urls import reverse
from django.utils import timezone

from memories.digest_mail import unsubscribe_path
from memories.models import (
    ApiKey,
    Backfill,
    Channel,
    Digest,
    Job,
    Memory,
    Message,
    NewVersion,
    Note,
    Person,
    Proposal,
    Upload,
    User,
    Workspace,
)
from memories.pipeline.costs.estimate import estimate_backfill
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin, merge_lines
from memories.rules.summariser import Reply
from tests.browser.operated import operate
from tests.factories import (
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_job,
    make_reply,
    make_segment,
    make_thread_memory,
    make_version,
)

SENTENCES = [
    "Proposal: launch on Thursday, freeze a week before. Who sees a problem?",
    "iOS review took *three days* last time because of the camera text",
    "I need two clear days with a frozen build. A freeze “more or less” does not give me that",
    "what happens when the phone is full? `queue.flush()` returns false and nobody reads that",
    "We stop counting and say so, with the number of counts that are safe",
    "see <https://example.com/rollout|the rollout page> and <#C0MINATO>",
    "&gt; the cart ones look like a real shop\nagreed!",
    "```error: sync aborted after 3 retries\n  at queue.ts:118```\nthat is from the second shop",
    "who writes the mail to the beta shops?",
    "crash rate of the beta is 0.4 %, it was 2.1 % last week :tada:",
    "AVeryLongWordWithoutAnySpaceInItThatSomebodyPastedFromALogFileAndNobodyEverCleanedUpAfterwards",
    "store screenshots: phone in portrait, or the tablet on a cart?",
]
SENTENCES_JA = [
    "来週の水曜日までに在庫連携の仕様を決めたいです",
    "文字コードはShift_JISのままで受け取れますか？",
    "決定：連携は毎朝五時に一回、失敗したら三十分後に三回まで再試行",
    "棚卸しの締めは月末ではなく二十五日だそうです",
]
LINES = [
    "- Kazoe 3 launches on Thursday; freeze a week before, owner Tom.",
    "- iOS goes to review a day earlier than last time.",
    "- Priya needs two clear days with a frozen build.",
    "- When the phone is full, counting stops; no count is dropped silently.",
    "- Crash rate of the beta fell from 2.1 % to 0.4 %.",
    "- `queue.flush()` returns false when storage is full, and nothing reads that.",
]
LINES_JA = [
    "- 連携は毎朝五時に一回、失敗時は三十分後に三回まで再試行する。",
    "- 文字コードはShift_JISで受け取り、こちらで変換する。",
    "- 棚卸しの締めは月末ではなく二十五日。",
]

CONSENT = {
    "client_id": "app",
    "redirect_uri": "https://claude.ai/callback",
    "response_type": "code",
    "scope": "read notes propose",
    "code_challenge": "c" * 43,
    "code_challenge_method": "S256",
}


@dataclass
class Story:
    """``url`` is the server's; ``memory`` the long-term memory of #launch; ``user`` may edit."""

    url: str
    workspace: Workspace
    launch: Channel
    memory: Memory
    thread_ts: str
    user: User

    def at(self, path: str) -> str:
        return f"{self.url}{path}"

    @property
    def channel(self) -> str:
        return self.at(f"/w/{self.workspace.slug}/c/{self.launch.slack_id}/")

    @property
    def now(self) -> int:
        """The number of the newest version of the long-term memory."""
        self.memory.refresh_from_db()
        return self.memory.head

    def meanwhile(self, line: str) -> None:
        """Add a line to the top of the long-term memory as another person."""
        self.memory.refresh_from_db()
        current = self.memory.current
        assert current is not None
        text = f"{line}\n{current.content}"
        self.memory.revise(text, by=self.user, based_on=current.number)

    def texts(self) -> list[str]:
        """The text of each version of the long-term memory, oldest first."""
        return list(self.memory.versions.order_by("number").values_list("content", flat=True))

    def version(self, number: int) -> int:
        """The key of that version of the long-term memory."""
        return self.memory.versions.values_list("pk", flat=True).get(number=number)

    def operators_pages(self) -> dict[str, str]:
        """The pages of `setup/`, with an import in each state that waits for a person."""
        uploads = Upload.objects.values_list("state", "pk")
        states = {f"import-{state}": f"/setup/import/{pk}/" for state, pk in uploads}
        return {"setup": "/setup/", "import": "/setup/import/", **states}

    def pages(self) -> dict[str, str]:
        """Every page in its full state."""
        ts = self.launch.messages.in_order()[3].ts
        current = self.memory.current
        assert current is not None
        ours = Note.objects.filter(workspace=self.workspace)
        short = Memory.objects.of_channel(self.launch, MemoryType.SHORT_TERM)
        note, binned = ours.live().latest("pk").pk, ours.in_trash()[0].pk
        return {
            "catch-up": "/w/kazoe/catch-up/",
            "workspace": "/w/kazoe/",
            "channel": "/w/kazoe/c/C0LAUNCH/",
            "channel-ja": "/w/kazoe/c/C0MINATO/",
            "channel-provisional": "/w/kazoe/c/C0OPS/",
            "channel-empty": "/w/kazoe/c/C0NEW/",
            "messages": f"/w/kazoe/c/C0LAUNCH/messages/?around={ts}&v={current.pk}#msg-{ts}",
            "messages-empty": "/w/kazoe/c/C0NEW/messages/",
            "threads": "/w/kazoe/c/C0LAUNCH/threads/",
            "threads-none": "/w/kazoe/c/C0NEW/threads/",
            "update": f"/m/{short.pk}/generate/",
            "thread": f"/w/kazoe/c/C0LAUNCH/t/{self.thread_ts}/",
            "version": f"/v/{self.version(2)}/",
            "sources": f"/v/{self.version(2)}/sources/",
            "version-restored": f"/v/{current.pk}/",
            "compare": f"/diff/{self.version(2)}..{self.version(3)}/",
            "compare-split": f"/diff/{self.version(2)}..{self.version(3)}/?view=split",
            "edit": f"/m/{self.memory.pk}/edit/",
            "line-edit": f"/m/{self.memory.pk}/lines/0/edit/",
            "line-wrong": f"/m/{self.memory.pk}/lines/0/edit/?wrong=1",
            "versions": f"/m/{self.memory.pk}/versions/",
            "archive": f"/m/{self.memory.pk}/archive/",
            "rebuild": f"/m/{self.memory.pk}/rebuild/",
            "notes": "/w/kazoe/notes/",
            "notes-none": "/w/kazoe/notes/?q=nowhere",
            "note-edit": f"/w/kazoe/notes/{note}/edit/",
            "note": f"/w/kazoe/notes/{note}/?v=1",
            "notes-trash": "/w/kazoe/notes/trash/",
            "api-keys": "/w/kazoe/keys/",
            "app-consent": f"/oauth/authorize?{urlencode(CONSENT)}",
            "app-refused": "/oauth/authorize",
            "note-purge": f"/w/kazoe/notes/{binned}/purge/",
            "settings": "/w/kazoe/settings/",
            "people": "/w/kazoe/people/",
            "invitations": "/w/kazoe/invitations/",
            "slack": "/w/kazoe/slack/",
            "opt-in": "/w/kazoe/c/C0PRICING/opt-in/",
            "quarantine": "/w/kazoe/quarantine/",
            "proposals": "/w/kazoe/proposals/",
            "search": "/w/kazoe/search/?q=freeze",
            "search-none": "/w/kazoe/search/?q=nowhere&in=notes",
            "search-kind": "/w/kazoe/search/?q=lanch+kind%3Adecision",
            "ask": "/w/kazoe/ask/?q=Who+told+the+press%3F",
            "unsubscribe": unsubscribe_path(Digest.objects.get_or_create(user=self.user)[0]),
            "preferences": "/settings/",
            "factors": "/factors/",
            "password": "/password/",
            "jobs": "/w/kazoe/jobs/",
            "job": f"/w/kazoe/jobs/{Job.objects.proposed().get().pk}/",
            "cost": "/w/kazoe/jobs/cost/",
            "context": "/w/kazoe/context/?channel=C0LAUNCH&budget=4000",
            "context-empty": "/w/kazoe/context/?channel=C0NEW",
            "backfill": "/w/kazoe/backfill/",
            "backfill-estimate": "/w/kazoe/backfill/?estimate=1&since=&cap=200000",
            "backfill-cancelled": f"/w/kazoe/backfill/{self.workspace.backfills.get().pk}/",
            "proposal": f"/m/{Job.objects.proposed().get().memory_id}/proposal/",
            "help": "/help/",
            "not-found": "/nowhere/",
        }

    def admin_pages(self) -> dict[str, str]:
        """The index, lists, forms and rows of history, for an operator."""
        pages = {"index": "/admin/"}
        for model in admin.site._registry:
            options = model._meta
            path = reverse(f"admin:{options.app_label}_{options.model_name}_changelist")
            row = model._default_manager.order_by("-pk").first()
            pages[f"{options.model_name}"] = path
            if row is not None:
                pages[f"{options.model_name}-change"] = f"{path}{row.pk}/change/"
        added = ("apikey", "user", "budget", "note", "price", "slackconnection", "workspace")
        pages |= {f"{name}-add": f"/admin/memories/{name}/add/" for name in added}
        return pages | {"group-add": "/admin/auth/group/add/"}


def tell() -> Story:
    workspace = WorkspaceFactory(
        slug="kazoe", name="Kazoe", domain="kazoe", settings={"time_zone": "Asia/Tokyo"}
    )
    mika = UserFactory(username="mika", first_name="Mika", last_name="Sorano")
    MemberFactory(workspace=workspace, user=mika, role="admin")
    people = [
        PersonFactory(workspace=workspace, name=name, user=mika if name == "mika" else None)
        for name in ("mika", "tom", "aya", "kenji", "priya", "leo")
    ]
    now = timezone.now().replace(microsecond=0)

    def channel(slack_id: str, name: str, **given: object) -> Channel:
        made: Channel = ChannelFactory(
            workspace=workspace, slack_id=slack_id, name=name, members=people, **given
        )
        return made

    launch = channel("C0LAUNCH", "launch", topic="Kazoe 3: 10 % on Monday, everyone on Wednesday")
    minato = channel("C0MINATO", "みなと連携", topic="みなと商店会との在庫連携")
    ops = channel("C0OPS", "ops")
    pricing = channel("C0PRICING", "pricing", kind=Channel.Kind.PRIVATE)
    channel("C0NEW", "new-and-empty")
    long_name = "beta-testers-of-the-second-edition-with-a-name-that-goes-on-and-on"
    old = channel("C0OLD", long_name, is_archived=True)

    memory = remember(launch, people, SENTENCES, LINES, now, segments=6)
    propose(remember(minato, people, SENTENCES_JA, LINES_JA, now, segments=3))
    talk(old, people, SENTENCES, now - timedelta(days=40), 60)
    estimate = estimate_backfill(workspace, [old], 0, now).as_json()
    Backfill.objects.start(
        workspace, [old], since_us=0, until_us=to_micros(now), estimate=estimate, by=mika
    ).cancel(mika)
    remember(pricing, people, SENTENCES[:4], LINES[:2], now, segments=1)
    talk(launch, people, SENTENCES, now - timedelta(minutes=70), 9)
    first_look(ops, talk(ops, people, SENTENCES, now - timedelta(minutes=20), 3))
    correct(memory, mika)
    thread_ts = remember_thread(launch, people)
    whole = Memory.objects.of_workspace(workspace, MemoryType.LONG_TERM)
    sources = list(launch.messages.in_order()[:4]) + list(minato.messages.in_order()[:1])
    text = "\n".join([*LINES[:4], LINES_JA[0]])
    make_version(memory=whole, text=text, sources=sources, trigger={"reason": "merge", "new": 2})
    write = Note.objects.write
    write(workspace, "Shops are shops, never clients.", kind="pattern", tags=["words"], author=mika)
    write(workspace, "When a sync stops, look at the storage first.", channel=launch, author=mika)
    write(workspace, "Sync with the old shop system.", author=mika).remove(by=mika)
    stock = write(workspace, "在庫数は整数。", title="整数", kind="architecture", author=mika)
    stock.rewrite("在庫数は必ず整数。", title="整数", kind="architecture", by=mika)
    stock.set_flags(is_pinned=True, review_on=now.date())
    operate(workspace, memory, mika)
    app = Client.objects.create(
        pk=CONSENT["client_id"],
        name="Claude",
        type=Client.Type.PUBLIC,
        redirect_uris=CONSENT["redirect_uri"],
        scopes="read\nnotes\npropose",
    )
    ApiKey.objects.connect(app, mika, workspace, channels=[launch], now=now)
    memory.refresh_from_db()
    indexing.index_pending()
    return Story("", workspace, launch, memory, thread_ts, mika)


def talk(
    channel: Channel, people: list[Person], sentences: list[str], start: datetime, many: int
) -> list[Message]:
    return [
        MessageFactory(
            channel=channel,
            author=people[(i * i + 1) % len(people)],
            at=start + timedelta(minutes=3 * i),
            text=sentences[i % len(sentences)],
            edited_ts="1.000000" if i % 7 == 3 else "",
            state="deleted" if i % 11 == 10 else "live",
        )
        for i in range(many)
    ]


def remember(
    channel: Channel,
    people: list[Person],
    sentences: list[str],
    lines: list[str],
    now: datetime,
    *,
    segments: int,
) -> Memory:
    """So many closed conversations, each with its short-term version and merged into the rest."""
    short = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    long = Memory.objects.of_channel(channel, MemoryType.LONG_TERM)
    for i in range(segments):
        start = now - timedelta(days=2 * (segments - i))
        messages = talk(channel, people, sentences, start, 14)
        if i == 0:
            channel.remember_from(messages[0].micros)
        segment = make_segment(messages=messages, outcome="remembered")
        trigger = {"reason": "idle", "new": len(messages), "quiet_s": 7200}
        live = [message.pk for message in messages if message.state == "live"]
        version = write(
            short,
            [
                Line(line, Origin.MODEL, sources=(live[j], live[j + 3]))
                for j, line in enumerate(lines[:4])
            ],
            trigger,
            segment=segment,
        )
        old = long.current.line_values() if long.current else []
        made = [
            Line(line, Origin.MODEL, sources=tuple(live[j : j + 2]))
            for j, line in enumerate(lines[: 3 + i])
        ]
        if i == segments - 1:
            made.append(Line("- Everybody likes the plan.", Origin.MODEL))
        together, restored, kept = merge_lines(old, made)
        write(
            long,
            together,
            {"reason": "merge", "new": 1},
            put_back=restored,
            kept=kept,
            until_us=version.until_us,
        )
    return long


def write(memory: Memory, lines: list[Line], trigger: dict[str, object], **given: object):
    job = make_job(memory=memory, state="done", model="offline", prompt_version="offline-1")
    segment = given.get("segment")
    draft = NewVersion(
        lines=lines,
        origin=Origin.MODEL,
        job=job,
        trigger=trigger,
        source_message_count=14,
        **{"until_us": segment.last_us if segment else 0, **given},
    )
    version = memory.add_version(draft, expected_head=memory.head)
    memory.refresh_from_db()
    return version


def propose(memory: Memory) -> None:
    """A reply that would shrink it waits for a word, and so does a correction of its first line."""
    assert memory.current is not None
    line = memory.current.lines.get(position=0)
    text = "連携は毎朝六時に一回、失敗時は三十分後に三回まで再試行する。"
    Proposal.objects.propose(
        memory.current, line, text, reason="時刻が変わりました", source_text="朝会"
    )
    short = Memory.objects.of_channel(memory.channel, MemoryType.SHORT_TERM)
    make_job(
        memory=memory,
        inputs=short.versions.in_order()[:1],
        base=memory.current,
        state="proposed",
        reply=Reply(f"{LINES_JA[0]} [1]", "stop", "tiny", "short-1").as_json(),
        trigger={"reason": "merge", "new": 1},
    )


def first_look(channel: Channel, messages: list[Message]) -> None:
    memory = Memory.objects.of_channel(channel, MemoryType.SHORT_TERM)
    channel.remember_from(messages[0].micros)
    sources = tuple(message.pk for message in messages)
    trigger = {"reason": "first", "new": len(messages), "quiet_s": 60}
    lines = [Line(LINES[4], Origin.MODEL, sources=sources)]
    write(memory, lines, trigger, provisional=True, until_us=messages[-1].micros)


def correct(memory: Memory, by: User) -> None:
    """A person's line, and an older version brought back."""
    current = memory.current
    assert current is not None
    memory.revise(f"{current.content}\n- The mail is Grace's.", by=by, based_on=current.number)
    memory.refresh_from_db()
    memory.restore(memory.versions.get(number=5), by=by, based_on=memory.head)


def remember_thread(channel: Channel, people: list[Person]) -> str:
    root = channel.messages.in_order()[0]
    for i in range(5):
        at = root.micros // 1_000_000 + 20 + 40 * i
        make_reply(root=root, author=people[i], ts=f"{at}.000100", text=SENTENCES[i + 1])
    lines = "\n".join(LINES[1:3])
    make_thread_memory(channel=channel, thread_ts=root.ts, texts=[lines])
    return str(root.ts)


def fail_a_job(memory: Memory) -> Job:
    """A job that was given up ten minutes ago."""
    failed: Job = make_job(
        memory=memory,
        state="dead",
        fault="timeout",
        attempts=5,
        finished_at=timezone.now() - timedelta(minutes=10),
    )
    return failed
