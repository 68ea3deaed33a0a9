"""`manage.py forget`: redacted texts, its output, and later imports."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.core.management import CommandError, call_command
from django.utils import timezone

from memories.models import (
    ApiKey,
    AuditEvent,
    Channel,
    Digest,
    Member,
    Memory,
    Message,
    Note,
    Person,
    Reader,
)
from memories.models.ingest.people import BY_SLACK
from memories.pipeline.ingest.roster import store_channels, store_people
from memories.pipeline.ingest.store import store_messages
from memories.pipeline.notes.files import ImportResult, sync_text
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.outcomes import ObjectType, Result
from memories.rules.notes import notes_file
from tests.factories import (
    MONDAY,
    ChannelFactory,
    MemberFactory,
    MessageFactory,
    NoteFactory,
    PersonFactory,
    UserFactory,
    WorkspaceFactory,
    make_channel_memory,
    make_job,
    make_reply,
    make_segment,
    make_version,
    make_workspace_memory,
    ts_at,
)
from tests.holding import being_stored

pytestmark = pytest.mark.django_db

SECRET = "We decided that the copper gate of warehouse nine ships on Friday the ninth"
NOW = MONDAY + timedelta(days=400)


@pytest.fixture
def channel():
    return ChannelFactory(name="gates", is_followed=True)


def run(*arguments: str) -> dict:
    out = StringIO()
    call_command("forget", *arguments, "--yes", "--json", stdout=out)
    return json.loads(out.getvalue())


def by(person, raw=None, **given):
    return {"type": "message", "user": person.slack_id, **given, **(raw or {})}


class TestAMessage:
    def test_a_message_and_its_quotes_are_redacted(self, channel):
        message = MessageFactory(channel=channel, text=SECRET, raw=json.dumps({"text": SECRET}))
        make_segment(messages=[message])
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}\n- fine"])
        report = run("--message", f"{channel.slack_id}:{message.ts}")
        message.refresh_from_db()
        assert (message.state, message.text, message.raw, message.author) == (
            Message.State.DELETED, "", "", None,
        )  # fmt: skip
        assert memory.versions.get().content == "- […]\n- fine"
        assert report == {
            "forgotten": "message", "id": message.pk, "messages": 1, "versions": 1, "lines": 1,
            "jobs": 0, "quarantined": 0, "notes": 0, "events": 0, "memories": [memory.pk],
            "versions_deleted": 0, "messages_cleaned": 0, "dry_run": False,
        }  # fmt: skip
        event = AuditEvent.objects.get()
        assert (event.action, event.subject) == ("message_forget", f"message {message.pk}")
        assert "copper" not in json.dumps(event.details)

    def test_a_message_that_is_not_stored_leaves_a_tombstone(self, channel):
        ts = ts_at(MONDAY)
        run("--message", f"{channel.slack_id}:{ts}")
        store_messages(channel, [{"type": "message", "ts": ts, "text": SECRET}], NOW)
        assert Message.objects.get().text == ""

    def test_a_dry_run_counts_and_changes_nothing(self, channel):
        message = MessageFactory(channel=channel, text=SECRET)
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}"])
        out = StringIO()
        what = f"{channel.slack_id}:{message.ts}"
        call_command("forget", "--message", what, "--dry-run", stdout=out)
        assert out.getvalue() == (
            f"message {message.pk}:\n  messages: 1\n  versions: 1\n  lines: 1\n  memories: 1\n"
            "Nothing was changed.\n"
        )
        assert memory.versions.get().content == f"- {SECRET}"
        assert Message.objects.get().text == SECRET
        assert not AuditEvent.objects.exists()


class TestAPerson:
    def test_the_messages_and_the_name_of_a_person_are_redacted(self, channel):
        person = PersonFactory(
            workspace=channel.workspace, name="Quillon", real_name="Quillon Vane",
            email="q@example.org", user=UserFactory(),
        )  # fmt: skip
        second = ChannelFactory(workspace=channel.workspace)
        output = [MessageFactory(channel=place, author=person, text=SECRET)
                for place in (channel, second)]  # fmt: skip
        raw = {"text": f"see <@{person.slack_id}|quillon>",
               "attachments": [{"author_id": person.slack_id, "author_name": "Quillon",
                                "text": "as I said"}]}  # fmt: skip
        theirs = MessageFactory(channel=channel, text=raw["text"], raw=json.dumps(raw))
        memory = make_workspace_memory(workspace=channel.workspace, texts=[f"- {SECRET}"])
        report = run("--person", person.slack_id)
        assert (report["messages"], report["versions"], report["messages_cleaned"]) == (2, 1, 1)
        person.refresh_from_db()
        assert (person.name, person.real_name, person.email, person.user) == (
            "forgotten person", "", "", None,
        )  # fmt: skip
        assert person.forgotten_at is not None
        for message in output:
            message.refresh_from_db()
            assert (message.state, message.text, message.author) == ("deleted", "", None)
        theirs.refresh_from_db()
        assert theirs.text == f"see <@{person.slack_id}>"
        assert "uillon" not in theirs.raw
        assert "as I said" in theirs.raw
        assert memory.versions.get().content == "[…]"

    def test_a_mention_in_a_note_loses_a_name_that_is_also_a_word(self, channel):
        PersonFactory(workspace=channel.workspace, slack_id="UGONE", name="Hope")
        author = PersonFactory(workspace=channel.workspace, name="Bob")
        hoping = MessageFactory(channel=channel, author=author, text="we hope to ship")
        memory = make_channel_memory(channel=channel, texts=["- first"])
        make_version(memory=memory, text="- We hope to ship", sources=[hoping])
        note = NoteFactory(workspace=channel.workspace, content="I hope so, ask @Hope")
        run("--person", "UGONE", "--workspace", channel.workspace.slug)
        note.refresh_from_db()
        assert note.content.startswith("I hope so, ask @[…]")

    def test_ones_own_signature_does_not_keep_the_name(self, channel):
        person = PersonFactory(workspace=channel.workspace, slack_id="UGONE", name="Quillon")
        signed = MessageFactory(channel=channel, author=person, text="Thanks, Quillon")
        memory = make_channel_memory(channel=channel, texts=["- first"])
        make_version(memory=memory, text="- Quillon says thanks", sources=[signed])
        note = NoteFactory(workspace=channel.workspace, content="Quillon sends the report")
        run("--person", "UGONE", "--workspace", channel.workspace.slug)
        note.refresh_from_db()
        assert "Quillon" not in note.content

    def test_mentions_by_other_people_lose_the_name(self, channel):
        PersonFactory(
            workspace=channel.workspace, slack_id="UGONE", name="Will", real_name="Quillon Vane"
        )
        others = [
            PersonFactory(workspace=channel.workspace, name="Vane Quist"),
            PersonFactory(workspace=channel.workspace, name="ota"),
        ]
        output = MessageFactory(
            channel=channel, author=others[0], text="<@UGONE|will> will see to it"
        )
        memory = make_channel_memory(channel=channel, texts=["- first"])
        make_version(
            memory=memory, text="- @Will will see to it\n- Ask Quillon Vane, or Vane Quist",
            sources=[output],
        )  # fmt: skip
        elsewhere = make_channel_memory(channel=ChannelFactory(), texts=["- Quillon Vane"])
        note = NoteFactory(workspace=channel.workspace, content="Quillon Vane knows")
        row = make_job(memory=memory, state="claimed", fence=1, attempts=1)
        run("--person", "UGONE", "--workspace", channel.workspace.slug)
        assert memory.versions.get(number=2).content == (
            "- @[…] will see to it\n- Ask […], or Vane Quist"
        )
        assert elsewhere.versions.get().content == "- Quillon Vane"  # of another workspace
        note.refresh_from_db()
        row.refresh_from_db()
        assert note.content.startswith("[…] knows")
        assert (row.state, row.fence) == ("waiting", 2)
        # A later message with the name is redacted too.
        raw = by(others[1], ts=ts_at(MONDAY + timedelta(days=1)), text="so <@UGONE|will>")
        store_messages(channel, [raw], NOW)
        assert Message.objects.get(author=others[1]).text == "so <@UGONE>"

    @pytest.mark.parametrize("name", ["Quil\u200blon: Vane", f"Quillon {'Vane' * 40}"])
    def test_other_forms_of_the_name_are_redacted(self, channel, name):
        PersonFactory(workspace=channel.workspace, slack_id="UGONE", name=name)
        text = f"- 2026-01-05 09:00 {safe_name(name)}: the gate ships"
        memory = make_channel_memory(channel=channel, texts=[text])
        run("--person", "UGONE")
        content = memory.versions.get().content
        assert "Quillon" not in content and "the gate ships" in content

    def test_data_of_a_sign_in_with_slack_is_deleted(self, channel):
        channel.workspace.save_team_id("T1")
        user = UserFactory(email="q@example.org", first_name="Quillon", last_name="Vane")
        person = PersonFactory(workspace=channel.workspace, slack_id="UGONE", user=user)
        claims = {"https://slack.com/team_id": "T1", "https://slack.com/user_id": "UGONE"}
        extra = {"userinfo": {**claims, "name": "Quillon Vane", "email": "Q@example.org"}}
        SocialAccount.objects.create(user=user, provider="slack", uid="UGONE", extra_data=extra)
        kept = SocialAccount.objects.create(
            user=UserFactory(), provider="slack", uid="U2",
            extra_data={"userinfo": {**claims, "https://slack.com/user_id": "U2"}},
        )  # fmt: skip
        single = SocialAccount.objects.create(
            user=user, provider="sso", uid="7",
            extra_data={"id_token": {"iss": "https://a", "name": "Quillon"}},
        )  # fmt: skip
        for email in ("q@example.org", "other@example.org"):
            EmailAddress.objects.create(user=user, email=email, verified=True)
        run("--person", person.slack_id)
        user.refresh_from_db()
        assert (user.email, user.first_name, user.last_name) == ("", "", "")
        assert [a.email for a in EmailAddress.objects.all()] == ["other@example.org"]
        assert list(SocialAccount.objects.order_by("pk")) == [kept, single]
        single.refresh_from_db()
        assert single.extra_data == {"id_token": {"iss": "https://a"}}

    def test_their_account_loses_its_access_to_the_workspace(self, channel):
        """Before, Slack restricted the account through its person."""
        ours, theirs = channel.workspace, WorkspaceFactory()
        user, colleague = UserFactory(username="quillon"), UserFactory()
        PersonFactory(workspace=ours, slack_id="UGONE", is_deleted=True).link(user, BY_SLACK)
        feed = Digest.objects.create(user=user).new_feed_token()
        for workspace, account in ((ours, user), (theirs, user), (ours, colleague)):
            MemberFactory(workspace=workspace, user=account, role="admin")
            ApiKey.objects.issue(workspace, name="agent", by=account, user=account)
        run("--person", "UGONE", "--workspace", ours.slug)
        left = [(theirs.pk, user.pk), (ours.pk, colleague.pk)]
        assert ours.role_of(Reader.of(user)) == ""
        assert not Channel.objects.visible_to(Reader.of(user)).exists()
        assert list(Member.objects.order_by("pk").values_list("workspace", "user")) == left
        keys = ApiKey.objects.usable(timezone.now()).order_by("pk")
        assert list(keys.values_list("workspace", "user")) == left
        assert Digest.objects.find_by_token(feed) is None
        event = AuditEvent.objects.get(action="role")
        assert (event.subject, event.workspace) == ("quillon", ours.slug)
        assert event.details == {"before": "admin", "after": None, "source": "forget"}

    def test_a_topic_by_the_person_is_redacted(self, channel):
        person = PersonFactory(workspace=channel.workspace, slack_id="UGONE")
        raw = by(person, ts=ts_at(MONDAY), subtype="channel_topic", text=f"set it to {SECRET}")
        store_messages(channel, [raw], NOW)
        Channel.objects.update(topic=SECRET, purpose="gates")
        run("--person", "UGONE")
        channel.refresh_from_db()
        assert (channel.topic, channel.purpose) == ("[…]", "gates")

    def test_an_old_export_does_not_restore_the_person(self, channel):
        person = PersonFactory(workspace=channel.workspace, slack_id="UGONE")
        MessageFactory(channel=channel, author=person, at=MONDAY, text=SECRET)
        run("--person", "UGONE")
        people = [{"id": "UGONE", "profile": {"display_name": "Quillon"}}]
        tally = store_people(channel.workspace, people)
        raws = [
            by(person, ts=ts_at(MONDAY), text=SECRET),
            by(person, ts=ts_at(MONDAY + timedelta(minutes=1)), text=f"{SECRET} unseen"),
            by(person, ts=ts_at(MONDAY + timedelta(minutes=2)), text=SECRET,
               thread_ts=ts_at(MONDAY + timedelta(minutes=1))),
        ]  # fmt: skip
        tally.add(store_messages(channel, raws, NOW))
        assert tally.is_complete
        assert tally.as_json()["messages"]["reasons"] == {"skipped: forgotten": 3}
        assert tally.count(ObjectType.PERSON, Result.SKIPPED) == 1
        assert {(m.state, m.text, m.raw, m.author) for m in Message.objects.all()} == {
            ("deleted", "", "", None)
        }
        assert Person.objects.get(slack_id="UGONE").name == "forgotten person"

    def test_the_name_of_a_group_message_loses_the_person(self, channel):
        """Slack names it after its members. An old export does not bring the name back."""
        raw = {"id": "G1", "name": "mpdm-quillon--bob-1", "members": ["UGONE", "UBOB"]}
        for slack_id, name in (("UGONE", "Quillon"), ("UBOB", "Bob")):
            PersonFactory(workspace=channel.workspace, slack_id=slack_id, name=name)
        store_channels(channel.workspace, [(raw, "mpim")], known_at=NOW, direct=True)
        group = Channel.objects.get(slack_id="G1")
        assert group.name == "mpdm-quillon--bob-1"
        run("--person", "UGONE")
        group.refresh_from_db()
        assert group.name == "Bob, forgotten person"
        later = NOW + timedelta(hours=1)
        store_channels(channel.workspace, [(raw, "mpim")], known_at=later, direct=True)
        group.refresh_from_db()
        assert group.name == "Bob, forgotten person"

    def test_later_messages_are_stored_without_the_name(self, channel):
        person = PersonFactory(workspace=channel.workspace, slack_id="UGONE")
        run("--person", "UGONE")
        later = timezone.now() + timedelta(hours=1)
        raw = by(person, ts=ts_at(later), text="hello", user_profile={"real_name": "Quillon"})
        store_messages(channel, [raw], later)
        message = Message.objects.get()
        assert (message.text, message.author) == ("hello", person)
        assert "Quillon" not in message.raw


class TestAChannel:
    def test_all_messages_of_a_channel_are_redacted(self, channel):
        root = MessageFactory(channel=channel, text=SECRET)
        make_reply(root=root, text="Yes, that is what we decided, and there is no doubt about it")
        memory = make_channel_memory(channel=channel, texts=[f"- {SECRET}"])
        public = make_workspace_memory(workspace=channel.workspace, texts=["- fine"])
        make_version(memory=public, text="- the gate, in other words", sources=[root])
        unrelated = MessageFactory(channel=ChannelFactory(workspace=channel.workspace), text="fine")
        NoteFactory(workspace=channel.workspace, channel=channel).rewrite("other words")
        general = NoteFactory(workspace=channel.workspace, channel=channel)
        general.channel = None
        general.save_wording(by=None)
        Channel.objects.filter(pk=channel.pk).update(topic="Gates", purpose="Of the harbour")
        report = run("--channel", channel.slack_id)
        assert (report["messages"], report["versions_deleted"]) == (2, 1)
        assert not Memory.objects.filter(pk=memory.pk).exists()
        public.refresh_from_db()
        assert public.current.content == "- fine"
        channel.refresh_from_db()
        assert channel.forgotten_at is not None
        assert (channel.topic, channel.purpose) == ("", "")
        assert Note.objects.get() == general
        assert report["notes"] == 1
        assert not general.versions.exists()  # its text in the channel
        assert not channel.is_followed
        assert {m.text for m in channel.messages.all()} == {""}
        unrelated.refresh_from_db()
        assert unrelated.text == "fine"

    def test_a_notes_sync_does_not_restore_its_notes(self, channel):
        workspace = channel.workspace
        for content in ("same", "edited in the file"):
            Note.objects.write(workspace, content, channel=channel, now=MONDAY)

        def sync(text: str, base: str = "") -> ImportResult:
            return sync_text(workspace, Reader.public(), text, base, author=None, now=NOW)

        base = sync("").text
        run("--channel", channel.slack_id)
        assert AuditEvent.objects.filter(action="note_purge").count() == 2
        done = sync(base.replace("Content: edited", "Content: twice edited"), base)
        assert not Note.objects.exists()
        assert [note.content for note in notes_file.read(done.text)] == ["twice edited in the file"]
        done = sync(f"## new\n- Channel: {channel.slack_id}\n- Content: new\n")
        assert done.conflicts == [f"line 1: no such channel: {channel.slack_id}"]

    def test_only_newer_messages_are_imported(self, channel):
        run("--channel", channel.slack_id)
        later = timezone.now() + timedelta(hours=1)
        raws = [{"type": "message", "user": "U1", "ts": ts_at(at), "text": SECRET}
                for at in (MONDAY, later)]  # fmt: skip
        tally = store_messages(Channel.objects.get(), raws, later)
        assert tally.as_json()["messages"]["reasons"] == {"skipped: forgotten": 1}
        assert [m.text for m in Message.objects.in_order()] == ["", SECRET]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--message", "C404:1767603600.000100"], "no channel"),
        (["--message", "CHERE:now"], "not the ts"),
        (["--message", "CHERE"], "not the ts"),
        (["--person", "U404"], "no person"),
        (["--channel", "C404"], "no channel"),
    ],
)
def test_unknown_ids_are_refused(arguments, why):
    ChannelFactory(slack_id="CHERE")
    with pytest.raises(CommandError, match=why):
        run(*arguments)


def test_forget_needs_confirmation(monkeypatch, channel):
    message = MessageFactory(channel=channel, text=SECRET)
    monkeypatch.setattr("sys.stdin", StringIO("no\n"))
    with pytest.raises(CommandError, match="Nothing was changed"):
        call_command("forget", "--channel", channel.slack_id, stderr=StringIO())
    message.refresh_from_db()
    assert message.text == SECRET
    monkeypatch.setattr("sys.stdin", StringIO("yes\n"))
    call_command("forget", "--channel", channel.slack_id, stdout=StringIO(), stderr=StringIO())
    message.refresh_from_db()
    assert message.text == ""


@pytest.mark.django_db(transaction=True)
def test_it_is_refused_while_an_import_runs(channel):
    with being_stored(channel.workspace), pytest.raises(CommandError, match="try again"):
        run("--channel", channel.slack_id)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["message", "person", "channel"])
def test_forgetting_in_the_admin_needs_confirmation(client, channel, kind):
    message = MessageFactory(channel=channel, text=SECRET)
    operator = UserFactory(is_staff=True, is_superuser=True)
    MemberFactory(workspace=channel.workspace, user=operator)
    client.force_login(operator)
    row = {"message": message, "person": message.author, "channel": channel}[kind]
    address = f"/admin/memories/{kind}/"
    post = {"action": "forget_permanently", "_selected_action": [row.pk]}
    response = client.post(address, post)
    assert "This cannot be undone" in response.content.decode()
    message.refresh_from_db()
    assert message.text == SECRET
    response = client.post(address, {**post, "confirmed": "1"}, follow=True)
    assert "1 message was forgotten" in response.content.decode()
    message.refresh_from_db()
    assert message.text == ""
    assert AuditEvent.objects.get(action=f"{kind}_forget").actor == operator.username
