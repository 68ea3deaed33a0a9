"""Message shortcuts, the reaction :memo:, the Home tab and previews of links in a fake Slack."""

from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from memories.models import Channel, Line, Memory, Message, Note, Proposal, SlackEvent
from memories.pipeline.notes.keeping import keep_message
from memories.rules.ingest.timestamps import to_micros
from memories.rules.memory.identity import MemoryType
from memories.slack_app.shortcuts import LINE, PROPOSE, TEXT
from tests.factories import ChannelMemberFactory, make_version
from tests.slack_app.conftest import OPEN, SECRET, Team

pytestmark = pytest.mark.django_db


class TestNotes:
    def test_a_member_keeps_a_message_once_by_shortcut_or_reaction(self, team: Team) -> None:
        source = team.cast.messages[0]
        team.slack.say(OPEN, team.id_of("mika"), source.text, source.ts)
        ChannelMemberFactory(channel=team.cast.public, person=team.people["ann"])
        team.send(team.slack.shortcut("U0ANN", OPEN, source.ts, "remember"))
        team.send(team.slack.react("U0ANN", OPEN, source.ts))
        note = Note.objects.get()
        assert (note.content, note.source, note.channel) == (source.text, source, team.cast.public)
        assert note.author is None
        shown = team.slack.shown_to("U0ANN")
        assert ["Note saved." in answer.text for answer in shown] == [True, True]

    def test_a_note_that_moved_to_a_private_channel_is_not_shown(self, team: Team) -> None:
        source = team.cast.messages[0]
        ChannelMemberFactory(channel=team.cast.public, person=team.people["ann"])
        team.send(team.slack.shortcut("U0ANN", OPEN, source.ts, "remember"))
        note = Note.objects.get()
        note.channel = team.cast.private
        note.set_wording("Tom earns little", title="Salaries")
        note.save_wording(by=None)
        team.send(team.slack.shortcut("U0ANN", OPEN, source.ts, "remember"))
        assert "Salaries" not in str(team.slack.shown_to("U0ANN")[1])
        assert Note.objects.get(channel=team.cast.public).content == source.text

    def test_messages_of_unjoined_channels_cannot_be_kept(self, team: Team) -> None:
        source = team.cast.messages[0]
        team.send(team.slack.shortcut(team.id_of("mika"), OPEN, source.ts, "remember"))
        assert "Only members of this channel" in team.slack.shown_to(team.id_of("mika"))[0].text
        secret = team.cast.private.messages.get()
        team.send(team.slack.shortcut(team.id_of("mika"), SECRET, secret.ts, "remember"))
        assert "not in the memory" in team.slack.shown_to(team.id_of("mika"))[1].text
        assert not Note.objects.exists()

    @pytest.mark.parametrize("text", ["", "Read just now"])
    def test_a_message_without_words_is_not_kept(
        self, team: Team, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second one is edited after it was read."""
        source = team.cast.messages[0]
        ChannelMemberFactory(channel=team.cast.public, person=team.people["ann"])

        def keep(message: Message, *arguments: Any, **given: Any) -> Note:
            Message.objects.filter(pk=source.pk).update(text="Edited")
            return keep_message(message, *arguments, **given)

        Message.objects.filter(pk=source.pk).update(text=text)
        if text:
            monkeypatch.setattr("memories.slack_app.shortcuts.keep_message", keep)
        team.send(team.slack.shortcut("U0ANN", OPEN, source.ts, "remember"))
        words = "The message was deleted or edited." if text else "The message has no text."
        assert f"No note was saved. {words}" in team.slack.shown_to("U0ANN")[0].text
        assert not Note.objects.exists()

    def test_a_message_from_private_days_stays_private(self, team: Team) -> None:
        secret = team.cast.private.messages.get()
        team.send(team.slack.shortcut(team.id_of("tom"), SECRET, secret.ts, "remember"))
        assert Note.objects.get().was_private is secret.was_private

    @pytest.mark.parametrize("name", ["mika", "tom"])
    def test_a_late_request_is_done_with_the_rights_of_that_time(
        self, team: Team, name: str
    ) -> None:
        secret, person = team.cast.private.messages.get(), team.id_of(name)
        team.send_late(team.slack.shortcut(person, SECRET, secret.ts, "remember"))
        assert not team.slack.shown_to(person)
        assert Note.objects.exists() is (name == "tom")
        Note.objects.all().delete()
        team.send_late(team.slack.react(person, SECRET, secret.ts))
        assert Note.objects.exists() is (name == "tom")

    def test_another_reaction_does_nothing(self, team: Team) -> None:
        source = team.cast.messages[0]
        team.send(team.slack.react(team.id_of("visitor"), OPEN, source.ts, "tada"))
        assert not Note.objects.exists()

    def test_a_disabled_shortcut_is_explained(self, team: Team) -> None:
        team.cast.workspace.change_settings({"slack_shortcuts": False})
        source, mika = team.cast.messages[0], team.id_of("mika")
        team.send(team.slack.shortcut(mika, OPEN, source.ts, "remember"))
        team.send(team.slack.press(mika, OPEN, PROPOSE, source.ts))
        shown = team.slack.shown_to(mika)
        assert ["switched off here" in answer.text for answer in shown] == [True, True]
        for event in SlackEvent.objects.all():
            assert (event.state, event.reason, event.body) == ("skipped", "switched off", "")


class TestCorrections:
    def test_a_correction_becomes_a_proposal(self, team: Team) -> None:
        source, mika = team.cast.messages[0], team.id_of("mika")
        team.send(team.slack.shortcut(mika, OPEN, source.ts, "wrong"))
        [form] = team.slack.shown_to(mika)
        line = team.cast.memory.current.lines.first()
        assert "We launch on Monday" in form.text
        for _ in range(2):
            team.press("mika", form, PROPOSE, **{LINE: str(line.pk), TEXT: "We launch on Tuesday"})
        shown = team.slack.shown_to(mika)
        assert "waits for the approval" in shown[-1].text and form not in shown
        proposal = Proposal.objects.get()
        assert (proposal.text, proposal.line_text) == (
            "We launch on Tuesday",
            "We launch on Monday",
        )
        assert proposal.author == team.people["mika"].user
        assert list(proposal.sources.all()) == [source]

    def test_an_empty_correction_is_refused(self, team: Team) -> None:
        source, mika = team.cast.messages[0], team.id_of("mika")
        team.send(team.slack.shortcut(mika, OPEN, source.ts, "wrong"))
        line = team.cast.memory.current.lines.first()
        team.press("mika", team.slack.shown_to(mika)[0], PROPOSE, **{LINE: str(line.pk), TEXT: " "})
        form, refusal = team.slack.shown_to(mika)
        assert "Nothing was proposed." in refusal.text and PROPOSE in form.buttons()

    def test_guests_propose_nothing(self, team: Team) -> None:
        source, visitor = team.cast.messages[0], team.id_of("visitor")
        team.send(team.slack.shortcut(visitor, OPEN, source.ts, "wrong"))
        assert "Guests cannot propose corrections." in team.slack.shown_to(visitor)[0].text
        team.send(team.slack.shortcut(team.id_of("mika"), OPEN, source.ts, "wrong"))
        [form] = team.slack.shown_to(team.id_of("mika"))
        line = team.cast.memory.current.lines.first()
        typed = {LINE: str(line.pk), TEXT: "We launch on Tuesday"}
        team.press("visitor", form, PROPOSE, **typed)
        assert "Guests cannot" in team.slack.shown_to(visitor)[-1].text
        assert not Proposal.objects.exists()

    def test_unreadable_lines_cannot_be_corrected(self, team: Team) -> None:
        mika, secret = team.id_of("mika"), team.cast.private.messages.get()
        team.send(team.slack.shortcut(mika, SECRET, secret.ts, "wrong"))
        assert "No line that you may read" in team.slack.shown_to(mika)[0].text
        line = team.cast.private_memory.current.lines.get()
        typed = {LINE: str(line.pk), TEXT: "Tom earns little"}
        team.send(team.slack.press(mika, SECRET, PROPOSE, secret.ts, typed))
        assert "Nothing was proposed." in team.slack.shown_to(mika)[1].text
        assert not Proposal.objects.exists()


class TestHome:
    @pytest.mark.parametrize("name", ["mika", "tom", "ann", "visitor"])
    def test_the_home_tab_has_the_rights_of_its_person(self, team: Team, name: str) -> None:
        Line.objects.update(at_us=to_micros(timezone.now()))
        team.send(team.slack.open_home(team.id_of(name)))
        view = str(team.slack.screen.homes[team.id_of(name)])
        assert "Open Catch up" in view
        assert ("salaries" in view) is (name == "tom")


class TestLinks:
    def preview(self, team: Team, channel: str, path: str) -> str:
        url = f"{settings.MEMORYHUB_URL}{path}"
        team.send(team.slack.post_link(team.id_of("tom"), channel, url))
        return str(team.slack.screen.unfurls[-1]["unfurls"][url])

    def test_a_preview_of_a_public_text_shows_it(self, team: Team) -> None:
        path = f"/w/{team.cast.workspace.slug}/c/{OPEN}/"
        assert "We launch on Monday" in self.preview(team, OPEN, path)
        assert "We launch on Monday" in self.preview(team, SECRET, path)
        version = team.cast.memory.current
        assert "We launch on Monday" in self.preview(team, OPEN, f"/v/{version.pk}/")

    def test_a_private_text_is_only_a_title_elsewhere(self, team: Team) -> None:
        for path in (
            f"/w/{team.cast.workspace.slug}/c/{SECRET}/",
            f"/v/{team.cast.private_memory.current.pk}/",
        ):
            assert "om earns a lot" in self.preview(team, SECRET, path)
            preview = self.preview(team, OPEN, path)
            assert "Memory Hub" in preview
            assert "earns" not in preview and "salaries" not in preview

    def test_a_guest_in_the_channel_reads_no_other_channel(self, team: Team) -> None:
        hidden = Channel.objects.create(
            workspace=team.cast.workspace, slack_id="C0OTHER", name="other", kind="public"
        )
        memory = Memory.objects.of_channel(hidden, MemoryType.LONG_TERM)
        make_version(memory=memory, text="- The other team moves")
        path = f"/w/{team.cast.workspace.slug}/c/C0OTHER/"
        assert "The other team moves" not in self.preview(team, OPEN, path)
        assert "The other team moves" in self.preview(team, SECRET, path)

    def test_a_link_that_is_not_posted_yet_has_no_preview(self, team: Team) -> None:
        url = f"{settings.MEMORYHUB_URL}/w/{team.cast.workspace.slug}/c/{OPEN}/"
        body = team.slack.post_link(team.id_of("tom"), OPEN, url)
        body["event"] |= {"channel": "COMPOSER", "message_ts": "U0-1", "source": "composer"}
        team.send(body)
        assert SlackEvent.objects.get().state == SlackEvent.State.SKIPPED
        assert not team.slack.count("chat.unfurl")

    def test_an_address_elsewhere_has_no_preview(self, team: Team) -> None:
        urls = ("https://example.com/w/team/", "https://[/w/team/")
        team.send(team.slack.post_link(team.id_of("tom"), OPEN, *urls))
        assert SlackEvent.objects.get().state == SlackEvent.State.DONE
        assert not team.slack.screen.unfurls
