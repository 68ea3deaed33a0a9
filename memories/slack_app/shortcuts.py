"""The message shortcuts "Remember this" and "This is wrong", and the reaction :memo:."""

from django.utils.translation import gettext as _

from memories.models import Line, MemoryVersion, Message, NotesDisabled, Proposal
from memories.models.ingest.names import names_in
from memories.pipeline.notes.keeping import keep_message
from memories.rules.ingest.invisible import strip_invisible
from memories.rules.ingest.markup import escape, render_plain
from memories.rules.memory.lines import strip_bullet
from memories.rules.notes.fields import MAX_CONTENT_LENGTH, InvalidNote
from memories.rules.slack_app.blocks import (
    Block,
    actions,
    answer,
    button,
    choice,
    link,
    sections,
    text_input,
)
from memories.slack_app.callers import Caller
from memories.slack_app.commands import note_saved
from memories.views.paths import card_path, full_url

PROPOSE = "slack_shortcuts-propose"
LINE, TEXT = "line", "text"  # names of the inputs
MAX_LINES = 5


def keep_as_note(caller: Caller) -> Block:
    """Keep the message as a note for the readers of its channel, once."""
    message = _find_message(caller)
    if message is None:
        return answer(
            _(
                "No note was saved. This message is not in the memory: the channel is not read, or "
                "the message has not arrived yet."
            )
        )
    if not message.channel.memberships.filter(person=caller.person).exists():
        return answer(_("No note was saved. Only members of this channel keep its messages."))
    names = names_in([message.text], caller.workspace, message.channel.common_reader(caller.now))
    text = render_plain(strip_invisible(message.text), names)[:MAX_CONTENT_LENGTH]
    try:
        note = keep_message(message, text, author=caller.user, now=caller.now)
    except NotesDisabled:
        return answer(_("No note was saved. Notes are switched off in this workspace."))
    except InvalidNote:
        return answer(_("No note was saved. The message has no text."))
    except ValueError:
        return answer(_("No note was saved. The message was deleted or edited."))
    return note_saved(note)


def correction_form(caller: Caller) -> Block:
    """Return a form for the line that is wrong, among the lines that rest on the message."""
    if not caller.access.may_propose:
        return answer(_("Guests cannot propose corrections."))
    message = _find_message(caller)
    lines = _lines_of(caller, message) if message else []
    if not lines:
        return answer(_("No line that you may read rests on this message."))
    options = [(str(line.pk), strip_bullet(line.text)) for line in lines]
    return answer(
        _("What is wrong?"),
        [
            choice(LINE, _("Which line is wrong?"), options),
            text_input(TEXT, _("What is right?")),
            actions(button(PROPOSE, _("Propose correction"), caller.request.ts)),
        ],
    )


def propose(caller: Caller) -> Block:
    """Save a proposal for the chosen line. An editor approves it on the page of the memory.

    Only a saved proposal replaces the form, so that a refusal loses no text.
    """
    if not caller.access.may_propose:
        return answer(_("Guests cannot propose corrections."))
    request = caller.request
    message = _find_message(caller, request.text)
    lines = _lines_of(caller, message) if message else []
    line = next((line for line in lines if str(line.pk) == request.typed.get(LINE)), None)
    if message is None or line is None:
        return answer(
            _("Nothing was proposed. The line has changed, or you may not read it any more.")
        )
    text, version = request.typed.get(TEXT, ""), line.version
    try:
        Proposal.objects.propose(
            version, line, text, author=caller.user, sources=_public_sources(message, version)
        )
    except ValueError:
        return answer(
            _("Nothing was proposed. Write what is right, in other words than the line has now.")
        )
    page = link(full_url(card_path(version.memory)), _("Open the memory"))
    words = _("Your correction waits for the approval of an editor.")
    return answer(words, sections([f"{escape(words)} {page}"]), replaces=True)


def _find_message(caller: Caller, ts: str = "") -> Message | None:
    """Return the message if the caller may read it and a summary may use it, else None."""
    if caller.channel is None:
        return None
    messages = caller.channel.messages.visible_to(caller.reader).rememberable()
    return messages.select_related("channel__workspace").filter(ts=ts or caller.request.ts).first()


def _lines_of(caller: Caller, message: Message) -> list[Line]:
    """Return the lines of current versions that rest on a message and that the caller may read."""
    versions = MemoryVersion.objects.visible_to(caller.reader).current()
    lines = message.lines.filter(version__in=versions.values("pk"), redacted=False, outcome="")
    related = lines.select_related("version__memory__channel", "version__memory__workspace")
    return list(related.order_by("pk")[:MAX_LINES])


def _public_sources(message: Message, version: MemoryVersion) -> list[Message]:
    """Return the message if it is of the memory's own channel and was not sent in private."""
    is_own = version.memory.channel_id == message.channel_id
    return [message] if is_own and not message.was_private else []
