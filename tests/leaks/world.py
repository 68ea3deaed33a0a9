"""A team with a word of its own in each thing that was said, written or made in each place, and an
account in each role; and, kept apart from the product, who may read the words of which place.

Words look like ``zqxjemberkqwvnote``: the place, then what it stands in. Changes of membership come as
Slack tells them; what they do to the audiences is written down here by hand.
"""

import json
import random
import re
import string
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Permission
from django.utils import timezone

from memories.models import (
    Backfill,
    BackfillChannel,
    Channel,
    ChannelSync,
    Member,
    Memory,
    MemoryVersion,
    Message,
    NewVersion,
    Note,
    Person,
    Proposal,
    QuarantinedLine,
    SlackConnection,
    User,
    Workspace,
)
from memories.pipeline.access import channel_audience
from memories.pipeline.ingest import uploads
from memories.pipeline.ingest.roster import set_members, store_channels, store_people
from memories.pipeline.search import indexing
from memories.rules.ingest.timestamps import to_micros, ts_from_micros
from memories.rules.memory.identity import MemoryType
from memories.rules.memory.lines import Line, Origin
from memories.rules.summariser import Reply
from tests.factories import make_job, make_segment, make_version
from tests.slackexports import channel, export_files, slack_message, write_zip

ROLES = ("outsider", "guest", "member", "editor", "admin", "operator")
WORD = re.compile(r"zqxj([a-z]+)kqwv([a-z]+)", re.IGNORECASE)  # no random token looks like it
PLACES = {
    # name: kind, who is in it (role names; everybody else is a stranger to it)
    "plaza": ("public", ("member", "editor", "admin")),
    "market": ("public", ()),
    "fjord": ("public", ("member",)),  # shared with another organisation
    "ember": ("private", ("member", "admin")),
    "basalt": ("private", ("editor", "guest")),
    "cobalt": ("private", ("admin", "guest", "member")),
    "onyx": ("private", ("editor",)),
    "quartz": ("mpim", ("member", "editor")),
    "velvet": ("im", ("member",)),
    "secret": ("private", ()),
    "harbor": ("private", ("admin", "editor")),  # opted in to the workspace's memory
}
FULL = frozenset({"member", "editor", "admin", "operator", "public"})  # who reads what is public
WORKSPACE = "lobby"  # words of the workspace's own memory
NOTICE = "notice"  # and of its notes
ELSEWHERE = "abroad"  # words of a workspace that nobody here is in but operators
BROUGHT = {"quay": "channels", "vault": "groups"}  # came by an upload, into one more workspace


def word(place: str, what: str) -> str:
    return f"zqxj{place}kqwv{what}"


def reply(place: str) -> dict[str, Any]:
    return Reply(f"- {word(place, 'proposal')} [1]", "stop", "fake", "none").as_json()


@dataclass
class World:
    """``audiences``: place → roles that may read its words. ``public`` stands for a reader behind
    whom no person is."""

    seed: int = 1
    audiences: dict[str, set[str]] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)
    people: dict[str, Person] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    message_count: int = 0
    opted_in: bool = True
    flowed: tuple[str, ...] = ()  # what of an opted-in channel a merge has read

    def build(self) -> "World":
        self.now = timezone.now()
        self.team = self._workspace("leaks", "T1")
        SlackConnection.objects.create(workspace=self.team)
        rights = list(Permission.objects.all())
        for role in ROLES:
            # Staff with every right of Django's: nothing but the audience keeps them out.
            user = User.objects.create(
                username=f"as-{role}", is_staff=True, is_superuser=role == "operator"
            )
            user.user_permissions.set(rights)
            self.users[role] = user
        for role in ("guest", "member", "editor", "admin"):
            self.people[role] = Person.objects.create(
                workspace=self.team,
                slack_id=f"U{role.upper()}",
                name=f"{role} person",
                user=self.users[role],
                linked_by="slack",
                is_guest=role == "guest",
            )
        for role in ("editor", "admin"):
            Member.objects.create(workspace=self.team, user=self.users[role], role=role)
        for name, (kind, roles) in PLACES.items():
            self._place(self.team, name, kind, roles)
            readers = set(FULL) | set(roles) if kind == "public" else set(roles)
            self.audiences[name] = readers - {"public"} if kind != "public" else readers
        self._mention("secret", in_place="market")
        Channel.objects.filter(name__contains="fjord").update(is_shared=True)
        self._workspaces_own(self.team, WORKSPACE, NOTICE)
        self.audiences[WORKSPACE], self.audiences[NOTICE] = set(FULL), set(FULL)
        abroad = self._workspace("abroad", "T2")
        self._place(abroad, ELSEWHERE, "public", ())
        self._workspaces_own(abroad, ELSEWHERE, ELSEWHERE)
        self.audiences[ELSEWHERE] = {"operator", "public"}
        channel_audience.set_opt_in(self.channels["harbor"], by=None, on=True)
        self.refresh()
        return self

    def bring(self, folder: Path) -> None:
        """An export of a public and a private channel, a day of each broken, uploaded twice by the
        operator: once it is stored with both, once it waits for a choice."""
        days: dict[str, Any] = {}
        lists: dict[str, list[Any]] = {}
        for place, kind in BROUGHT.items():
            name = word(place, "channel")
            topic = {"topic": {"value": word(place, "topic")}}
            lists[kind] = [channel(f"C{place.upper()}", name, **topic)]
            days[f"{name}/2023-11-14"] = [
                slack_message(1, word(place, "said")),
                slack_message(2, word(place, "more")),
            ]
            days[f"{name}/2023-11-15"] = f'[{{"text": "{word(place, "broken")}'
        path = write_zip(folder / "export.zip", export_files(days, **lists))
        by, choices = self.users["operator"], {"without": [], "private": True, "direct": True}
        for slug in ("brought", "waiting"):
            upload = uploads.store_upload(slug, "export.zip", [path.read_bytes()], by=by)
            uploads.process_upload(upload, self.now)
            if slug == "brought":
                upload.start(choices, by=by, now=self.now)
                uploads.process_upload(upload, self.now)
        for place in BROUGHT:
            self.channels[place] = Channel.objects.get(slack_id=f"C{place.upper()}")
            self.audiences[place] = set()
        self.audiences["quay"] = {"operator", "public"}
        indexing.index_pending()

    # -- rows

    def _workspace(self, slug: str, team_id: str) -> Workspace:
        return Workspace.objects.create(
            slug=slug,
            name=slug,
            team_id=team_id,
            connected_at=self.now,
            synced_at=self.now,
            listed_at=self.now,
        )

    def _place(self, team: Workspace, name: str, kind: str, roles: tuple[str, ...]) -> None:
        channel = Channel.objects.create(
            workspace=team,
            slack_id=f"C{name.upper()}",
            name=word(name, "channel"),
            kind=kind,
            topic=word(name, "topic"),
            purpose=word(name, "purpose"),
            start_us=0,
            is_followed=True,
        )
        self.channels[name] = channel
        ChannelSync.objects.create(channel=channel, error_text=word(name, "trouble"))
        set_members(channel, [f"U{role.upper()}" for role in roles], self.now, live=True)
        self.fill(name)

    def _mention(self, place: str, in_place: str) -> None:
        """Slack puts its name beside its id, for whoever reads the other channel."""
        label = f"see <#{self.channels[place].slack_id}|{word(place, 'label')}>"
        self.channels[in_place].update_fields({"topic": label, "purpose": label})
        message = self.say(in_place, "mention")
        message.text = f"{message.text}, {label}"
        message.raw = json.dumps({"text": message.text})
        message.save()

    def fill(self, place: str) -> None:
        """Something of every kind in a channel, each with its word."""
        channel = self.channels[place]
        root = self.say(place, "said")
        replies = [self.say(place, f"reply{letter}", thread=root) for letter in "ab"]
        segment = make_segment(messages=[root])
        in_thread = make_segment(messages=replies, thread_ts=root.ts)
        for memory_type in MemoryType:
            memory = Memory.objects.of_channel(channel, memory_type)
            first = make_version(
                memory=memory,
                text=f"- {word(place, 'old')}\n- and more of it",
                sources=[root],
                segment=segment,
                put_back=[word(place, "restored")],
                kept=[word(place, "kept")],
            )
            first.rename(word(place, "called"), by=None)
            memory.refresh_from_db()
            memory.revise(
                f"- {word(place, 'new')}\n- and more", by=None, based_on=memory.current.number
            )
            self._jobs(place, memory, segment, first)
        thread = Memory.objects.of_thread(channel, root.ts)
        early = make_version(memory=thread, text=f"- {word(place, 'wording')}", segment=in_thread)
        lines = [Line(f"- {word(place, 'thread')}", Origin.MODEL)]
        early.rewrite(NewVersion(lines=lines, origin=Origin.MODEL, segment=in_thread))
        self._notes(channel.workspace, place, channel)
        memory.refresh_from_db()
        Proposal.objects.propose(
            memory.current, None, word(place, "learned"), note_type="pattern", sources=[root]
        )
        memory.current.lines.first().sources.add(root)
        for line in QuarantinedLine.objects.filter(memory__channel=channel):
            line.sources.set([root])

    def _notes(self, team: Workspace, place: str, channel: Channel | None) -> None:
        """Create a note with an earlier version, and a note in the trash."""
        for what in ("note", "trashed"):
            note = Note.objects.create(
                workspace=team,
                channel=channel,
                title=word(place, "title"),
                content=word(place, f"{what}before"),
                tags=[word(place, "tag")],
                date=self.now.date(),
            )
            note.rewrite(word(place, what), tags=[word(place, "tag")], title=word(place, "title"))
        note.remove()

    def _jobs(self, place: str, memory: Memory, segment: Any, first: Any) -> None:
        for state in ("dead", "waiting", "proposed"):
            job = make_job(
                memory=memory,
                inputs=[first],
                segment=segment if memory.memory_type == MemoryType.SHORT_TERM else None,
                base=memory.current,
                as_of_us=to_micros(self.now),
                state=state,
                retry_at=self.now + timedelta(days=1),
                fault="timeout" if state != "proposed" else "",
                fault_text=word(place, "fault"),
                model="fake",
                reply=reply(place) if state == "proposed" else None,
                reply_sources=[[]],
            )
        line = memory.current.lines.first()
        correction = word(place, "correction")
        Proposal.objects.propose(memory.current, line, correction, reason=word(place, "reason"))
        QuarantinedLine.objects.create(
            memory=memory, job=job, text=word(place, "quarantine"), rule="address"
        )

    def say(self, place: str, what: str, thread: Message | None = None) -> Message:
        self.message_count += 1
        us = to_micros(self.now - timedelta(hours=6)) + self.message_count * 1_000_000
        ts = ts_from_micros(us)
        if thread is not None and not thread.thread_ts:
            thread.thread_ts = thread.ts
            thread.save()
        text = f"{word(place, what)} was decided"
        return Message.objects.create(
            channel=self.channels[place],
            ts=ts,
            micros=us,
            thread_ts=thread.ts if thread else "",
            text=text,
            username=word(place, "author"),
            raw=json.dumps({"text": text, "files": [{"name": word(place, "file")}]}),
        )

    def _workspaces_own(self, team: Workspace, place: str, notes: str) -> None:
        for memory_type in MemoryType:
            memory = Memory.objects.of_workspace(team, memory_type)
            first = make_version(memory=memory, text=f"- {word(place, 'old')}")
            memory.refresh_from_db()
            memory.revise(f"- {word(place, 'new')}", by=None, based_on=memory.current.number)
            read = MemoryVersion.objects.current_in(
                team.channels.feeding_workspace_memory(), MemoryType.LONG_TERM
            )
            self._jobs(place, memory, None, read.first() or first)
        self._notes(team, notes, None)
        open_ones = team.channels.public()
        backfill = Backfill.objects.create(
            workspace=team, since_us=0, until_us=1, state="done", estimate={}
        )
        BackfillChannel.objects.create(backfill=backfill, channel=open_ones[0])

    def refresh(self) -> None:
        rows = Channel.objects.select_related("workspace").in_bulk()
        self.channels = {name: rows[channel.pk] for name, channel in self.channels.items()}

    # -- what is to be looked for

    def leaks(self, text: str, role: str) -> set[str]:
        """Words in a text that this role may not read. The name of a channel that was opted in is
        published with its text; one's own eyes may have seen what one types."""
        words = set()
        for place, what in WORD.findall(text):
            readers = self.audiences.get(place.lower(), set())
            if place.lower() == "harbor":
                readers = readers | self.published(what.lower())
            if role not in readers:
                words.add(word(place.lower(), what.lower()))
        return words

    def published(self, what: str) -> set[str]:
        """To whom opting in opened what is remembered in the long term, and the channel's name."""
        opened = ("channel", *self.flowed)
        # A text that is cut to its budget may end within a word.
        if not self.opted_in or not any(name.startswith(what) for name in opened):
            return set()
        return self.audiences[NOTICE]

    # -- changes, as Slack tells them

    CHANGES = (
        "leave",
        "kick",
        "archive",
        "closes",
        "opens",
        "becomes_guest",
        "deactivated",
        "opts_out",
        "shared",
        "stale",
        "ends",
    )

    def change(self, name: str) -> None:
        getattr(self, f"_{name}")()
        self.refresh()

    def _members(self, place: str, *roles: str) -> None:
        channel = Channel.objects.get(pk=self.channels[place].pk)
        set_members(channel, [f"U{role.upper()}" for role in roles], timezone.now(), live=True)

    def _says(self, place: str, *, private: bool, **raw: Any) -> None:
        channel = self.channels[place]
        fields = {
            "id": channel.slack_id,
            "name": channel.name,
            "topic": {"value": channel.topic},
            "purpose": {"value": channel.purpose},
            "is_private": private,
            **raw,
        }
        kind = "private" if private else "public"
        store_channels(self.team, [(fields, kind)], known_at=timezone.now(), live=True)

    def _person(self, role: str, **raw: Any) -> None:
        person = self.people[role]
        fields = {"id": person.slack_id, "name": person.name, "team_id": "T1", **raw}
        store_people(self.team, [fields], live=True)

    def _leave(self) -> None:
        self._members("ember", "admin")
        self.audiences["ember"] = {"admin"}

    def _kick(self) -> None:
        self._members("basalt", "editor")
        self.audiences["basalt"] = {"editor"}

    def _archive(self) -> None:
        self._says("cobalt", private=True, is_archived=True)

    def _closes(self) -> None:
        """Public no more: for its members, and the workspace's memory forgets it."""
        self._says("plaza", private=True)
        self.audiences["plaza"] = {"member", "editor", "admin"}
        # Nothing tells what the workspace's versions here were made of: all of them may be of it.
        self.audiences[WORKSPACE] = set()

    def _opens(self) -> None:
        """What was said in private stays with the members; what is said now is for everybody."""
        self._says("onyx", private=False)
        self.audiences["onyx"] = {"editor"}
        name = random.Random(self.seed).choice(string.ascii_lowercase) + "dawn"
        self.audiences[name] = set(FULL)
        self.channels["onyx"] = Channel.objects.get(pk=self.channels["onyx"].pk)
        # The channel is called otherwise from now on: its old name was private too.
        Channel.objects.filter(pk=self.channels["onyx"].pk).update(
            name=word(name, "channel"), topic=word(name, "topic"), purpose=word(name, "purpose")
        )
        self.channels[name] = self.channels["onyx"]
        self.fill(name)

    def _becomes_guest(self) -> None:
        self._person("member", is_restricted=True)
        for place, readers in self.audiences.items():
            if place in PLACES and PLACES[place][0] == "public" and "member" in PLACES[place][1]:
                continue
            if "public" in readers:
                readers.discard("member")

    def _deactivated(self) -> None:
        """Who left Slack reads nothing more, by no role either."""
        self._person("admin", deleted=True)
        for readers in self.audiences.values():
            readers.discard("admin")

    def _opts_out(self) -> None:
        channel_audience.set_opt_in(self.channels["harbor"], by=None, on=False)
        self.opted_in = False

    def _shared(self) -> None:
        self._says("market", private=False, is_ext_shared=True)

    def _stale(self) -> None:
        """No sync for more than a day: nobody knows who is in what."""
        Channel.objects.update(members_known_at=timezone.now() - timedelta(hours=25))
        for place, readers in self.audiences.items():
            if place in (WORKSPACE, NOTICE, ELSEWHERE):
                continue
            if "public" not in readers:
                readers.clear()
            else:
                readers.intersection_update(FULL)
                if "member" in readers and self.is_guest("member"):
                    readers.discard("member")

    def _ends(self) -> None:
        """The app was removed: nobody is shown anything of the workspace, operators neither."""
        SlackConnection.objects.of(self.team).stop(
            SlackConnection.State.UNINSTALLED, "It was removed.", timezone.now()
        )
        for place, readers in self.audiences.items():
            if place not in (ELSEWHERE, *BROUGHT):
                readers.clear()

    def is_guest(self, role: str) -> bool:
        return Person.objects.get(pk=self.people[role].pk).is_guest
