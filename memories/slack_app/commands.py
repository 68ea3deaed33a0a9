"""The command /memory: its verbs, and the button that shares an answer."""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from django.core.cache import cache
from django.urls import reverse
from django.utils.translation import gettext as _

from memories.models import Member, Note, NotesDisabled
from memories.pipeline.ask.asking import Answer, ask, number
from memories.pipeline.ask.passages import Passage, load_passages
from memories.pipeline.generate.probing import configured_model
from memories.rules.ask.answer import MAX_QUESTION, Sentence, check_sentences
from memories.rules.ask.ranking import BEST
from memories.rules.backfill_input import InvalidInput
from memories.rules.ingest.markup import escape
from memories.rules.ingest.references import load_object
from memories.rules.memory.catch_up import parse_since
from memories.rules.notes.fields import InvalidNote
from memories.rules.slack_app.blocks import (
    MAX_VALUE,
    Block,
    actions,
    answer,
    button,
    date,
    item,
    link,
    sections,
)
from memories.rules.slack_app.payloads import parse_command
from memories.slack_app.briefing import briefing_blocks
from memories.slack_app.callers import Caller
from memories.slack_app.digests import choose_digest
from memories.views.paths import full_url
from memories.views.search.passages import ShownPassage, show_passages

SHARE = "slack_commands-share"
SHARED_ONCE = 600  # seconds in which a person posts the same answer once
DEFAULT_PERIOD = "24h"


def run_command(caller: Caller) -> Block:
    """Return the answer to a command, which only the caller sees."""
    verb, argument = parse_command(caller.request.text)
    match verb:
        case "catch up":
            return _catch_up(caller, argument or DEFAULT_PERIOD)
        case "ask":
            return _ask(caller, argument)
        case "note":
            return _note(caller, argument)
        case "digest":
            return choose_digest(caller, argument)
        case "help":
            return answer(_help())
    return answer(_("“%(words)s” is no command.") % {"words": argument[:80]} + f"\n{_help()}")


def _help() -> str:
    lines = [
        _("/memory catch up: what is new since yesterday. “catch up 7d” goes back a week."),
        _("/memory ask QUESTION: what the team knows about it, with links."),
        _("/memory note TEXT: keep a note for this channel."),
        _("/memory digest daily: get what is new as a direct message. Also: weekly, off."),
        _("/memory digest here daily: the same in this channel, for everybody in it."),
        _("You see only what you may read. Nobody else sees the answers."),
    ]
    return "\n".join(lines)


def _catch_up(caller: Caller, period: str) -> Block:
    try:
        since = parse_since(period, caller.now, caller.access.zone)
    except InvalidInput:
        since = None
    if since is None or since.us is None:
        return answer(
            _("“%(words)s” is no period. Write 24h, 7d or a date like 2026-11-20.")
            % {"words": period[:40]}
        )
    return answer(_("Catch up"), briefing_blocks(caller.access, since, caller.now))


# Ask


def _ask(caller: Caller, question: str) -> Block:
    question = question[:MAX_QUESTION]
    is_repeated = caller.request.attempt > 1
    model = None if is_repeated else configured_model()  # a question is paid once
    result = ask(question, caller.workspace, caller.reader, caller.now, model)
    if not result.passages:
        return answer(
            _("I don't know. No line, note or message that you may read is about this question.")
        )
    blocks = answer_blocks(question, result)
    if is_repeated:
        note = _(
            "Slack did not confirm an earlier answer. These texts were found without the model."
        )
        blocks = [*sections([note]), *blocks]
    text = _("Answer to “%(question)s”") % {"question": question}
    return answer(text, [*blocks, *_share_button(caller, question, result)])


def answer_blocks(question: str, result: Answer) -> list[Block]:
    """Return the sentences with links to what they cite, or the best passages."""
    shown = show_passages(result.passages)
    title = f"*{escape(question)}*"
    if result.sentences:
        lines = [_sentence_line(sentence, shown) for sentence in result.sentences]
        return sections([title, *lines])
    if result.has_failed:
        title += "\n" + _(
            "The model did not answer, or a limit allows no call now. The texts below were found "
            "without it."
        )
    elif result.sentences is not None:
        title += "\n" + _("I don't know. These texts are nearest to the question:")
    return sections([title, *map(_passage_line, shown[:BEST])])


def _sentence_line(sentence: Sentence, shown: Sequence[ShownPassage]) -> str:
    return item(sentence.text, *(f"[{_source(shown[ref - 1])}]" for ref in sentence.refs))


def _passage_line(shown: ShownPassage) -> str:
    return item(shown.text, _source(shown))


def _source(shown: ShownPassage) -> str:
    """Return the link to a text and its date: a message of last month may say "tomorrow"."""
    return f"{link(shown.url, shown.where)} {date(shown.at_us)}"


def _share_button(caller: Caller, question: str, result: Answer) -> list[Block]:
    """Return the button if everybody in the channel may read all that the answer rests on.

    A sentence may have words of any text that the model read. If one of these is not for everybody,
    the button shares the cited texts without the sentences.
    """
    all_keys = [passage.key for passage in result.passages]
    sentences = result.sentences or ()
    cited = sorted({ref for sentence in sentences for ref in sentence.refs})
    shown_keys = [all_keys[ref - 1] for ref in cited] or all_keys
    choices: list[tuple[list[str], Sequence[Sentence]]] = [(shown_keys[:BEST], ())]
    if sentences:
        choices.insert(0, (all_keys, sentences))
    for keys, shared in choices:
        rows = [[sentence.text, sentence.refs] for sentence in shared]
        # Not "sentences": older buttons have these without the keys of all texts.
        value = json.dumps({"q": question, "keys": keys, "answer": rows}, ensure_ascii=False)
        if len(value) <= MAX_VALUE and _shareable(caller, keys):
            return [actions(button(SHARE, _("Share in this channel"), value))]
    return []


def share(caller: Caller) -> Block:
    """Return the answer for the whole channel, if everybody there may read all its texts now.

    It is sent once, because a response without a confirmation may have arrived, and a person may
    press twice.
    """
    request = caller.request
    words = f"{request.team} {request.channel} {request.user} {request.text}"
    key = f"shared:{sha256(words.encode()).hexdigest()}"
    if request.attempt > 1:
        cache.delete(key)
        return answer(
            _(
                "Slack did not confirm that the answer was posted. If it is not in the channel, "
                "share it again."
            )
        )
    value: dict[str, Any] = load_object(request.text)
    keys = [str(key) for key in value.get("keys", [])]
    passages = _shareable(caller, keys)
    given = [Sentence(str(text), tuple(refs)) for text, refs in value.get("answer", [])]
    sentences = check_sentences(given, number(passages, caller.workspace))
    if not passages or len(sentences) != len(given):
        return answer(
            _(
                "The answer was not shared. Not everybody in this channel may read all its sources, "
                "or one of them has changed. Ask again to see what holds now."
            )
        )
    if not cache.add(key, True, SHARED_ONCE):
        return answer(
            _(
                "This answer was shared a moment ago. If it is not in the channel, share it again "
                "in ten minutes."
            )
        )
    question = str(value.get("q", ""))[:MAX_QUESTION]
    text = _("Answer to “%(question)s”") % {"question": question}
    blocks = answer_blocks(question, Answer(passages, sentences or None))
    by = sections([_("Shared by %(person)s") % {"person": f"<@{caller.person.slack_id}>"}])
    return answer(text, [*blocks, *by], in_channel=True)


def _shareable(caller: Caller, keys: Sequence[str]) -> list[Passage]:
    """Return these passages if the caller and everybody in the channel may read them all, else []."""
    if caller.channel_reader is None:
        return []
    own = {passage.key for passage in load_passages(keys, caller.workspace, caller.reader)}
    loaded = load_passages(keys, caller.workspace, caller.channel_reader)
    by_key = {passage.key: passage for passage in loaded}
    if not own.intersection(by_key).issuperset(keys):
        return []
    return [by_key[key] for key in keys]


# Notes


def _note(caller: Caller, content: str) -> Block:
    """Keep a note for the readers of the channel. Only editors write notes, as on the pages."""
    if caller.access.role not in Member.EDITING:
        return answer(
            _(
                "The note was not saved. Only editors write notes here. Ask an admin for this role, "
                "and sign in once with Slack, so that your account is linked."
            )
        )
    if caller.channel is None:
        return answer(
            _("The note was not saved. This channel is not in the memory, so it has no notes.")
        )
    notes = Note.objects.in_use(caller.workspace).filter(channel=caller.channel)
    note = notes.filter(content=content).first()  # a task may run twice
    try:
        note = note or Note.objects.write(
            caller.workspace, content, channel=caller.channel, author=caller.user, now=caller.now
        )
    except NotesDisabled:
        return answer(_("The note was not saved. Notes are switched off in this workspace."))
    except InvalidNote:
        return answer(_("The note was not saved. It is empty or too long."))
    return note_saved(note)


def note_saved(note: Note) -> Block:
    """Return the answer after a note was saved, with a link to it."""
    path = reverse("notes-detail", args=[note.workspace.slug, note.pk])
    words = link(full_url(path), note.title)
    return answer(_("Note saved."), sections([f"{_('Note saved.')} {words}"]))
