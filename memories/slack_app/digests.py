"""Digests in Slack: a person or the editors of a channel choose them, and a task sends them."""

import logging
from datetime import datetime, tzinfo

from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memories.models import Channel, Digest, Member, Person, Reader, SlackDigest
from memories.pipeline.sync.connecting import client_for, error_text
from memories.rules.memory.digests import RETRY_AFTER, last_period, next_end
from memories.rules.slack_app.blocks import Block, answer
from memories.slack.web import SlackError
from memories.slack_app.briefing import digest_blocks
from memories.slack_app.callers import Caller, language_of
from memories.views.access.access import WorkspaceAccess

logger = logging.getLogger(__name__)

AT_ONCE = 100  # messages of one run
FREQUENCIES = {"daily": Digest.Frequency.DAILY, "weekly": Digest.Frequency.WEEKLY, "off": ""}


def zone_of(owner: Person | Channel) -> tzinfo:
    """Return the time zone of the periods."""
    return owner.workspace.zone_for(owner.user if isinstance(owner, Person) else None)


def reader_of(owner: Person | Channel, now: datetime) -> Reader:
    """Return the person, or all readers of the channel. Access grants do not extend to digests."""
    if isinstance(owner, Person):
        return Reader.of_person(owner, now).without_operator_rights()
    return owner.common_reader(now)


def build_digest(owner: Person | Channel, since: datetime, now: datetime) -> list[Block]:
    """Return the news that the person, or every reader of the channel, may read now."""
    person = owner if isinstance(owner, Person) else None
    zone = person.user.zone if person and person.user else None
    access = WorkspaceAccess(owner.workspace, reader_of(owner, now), zone)
    with language_of(person, owner.workspace):
        return digest_blocks(access, since)


def send_due(now: datetime) -> int:
    """Send the digests whose period is over. Return their number."""
    return sum(_send(digest, now) for digest in SlackDigest.objects.due(now)[:AT_ONCE])


def is_due(now: datetime) -> bool:
    return SlackDigest.objects.due(now).exists()


def _send(digest: SlackDigest, now: datetime) -> bool:
    """Send a digest once. Slack's temporary errors leave it for the next try."""
    if not digest.claim(now):
        return False
    owner, zone = digest.owner, zone_of(digest.owner)
    start, end = last_period(digest.frequency, now, zone)
    next_at = next_end(digest.frequency, now, zone)
    is_on = owner.workspace.memory_settings.slack_digests
    blocks = build_digest(owner, start, now) if is_on else []
    if not blocks:
        digest.finish(next_at, sent_at=None)
        return False
    try:
        client_for(owner.workspace).send(
            "chat.postMessage",
            channel=owner.slack_id,
            text=blocks[0]["text"]["text"],
            blocks=blocks,
            client_msg_id=digest.message_id(end),
        )
    except SlackError as error:
        logger.warning("%s was not sent: %s", digest, error.code)
        again_at = next_at if error.permanent else now + RETRY_AFTER
        digest.finish(again_at, sent_at=None, problem=error.code[:100])
        return False
    digest.finish(next_at, sent_at=now)
    return True


# The command


def choose_digest(caller: Caller, argument: str) -> Block:
    """Save the choice of "daily", "weekly" or "off", with "here" for the channel; or show it."""
    if not caller.workspace.memory_settings.slack_digests:
        return answer(_("Digests are switched off here. An admin can switch them on."))
    words = argument.casefold().split()
    is_here = words[:1] == ["here"]
    owner = caller.channel if is_here else caller.person
    if owner is None:
        return answer(_("This channel is not in the memory, so it has no digest."))
    choice = words[is_here:]
    if not choice:
        return answer(_describe(owner))
    if len(choice) > 1 or choice[0] not in FREQUENCIES:
        return answer(
            _("“%(words)s” is no choice. Write daily, weekly or off.") % {"words": argument[:40]}
        )
    if is_here and caller.access.role not in Member.EDITING:
        return answer(_("Nothing was changed. Only editors choose the digest of a channel."))
    SlackDigest.objects.choose(owner, FREQUENCIES[choice[0]], caller.now, zone_of(owner))
    return answer(_describe(owner))


def _describe(owner: Person | Channel) -> str:
    """Return in words when the digest comes, and what Slack refused last."""
    digest = SlackDigest.objects.of(owner).first()
    name = str(owner) if isinstance(owner, Channel) else _("Direct message")
    if digest is None or not digest.frequency or digest.next_at is None:
        return _("%(place)s: no digest.") % {"place": name}
    when = date_format(digest.next_at.astimezone(zone_of(owner)), _("j M Y, H:i"))
    text = _("%(place)s: %(frequency)s, next on %(when)s.") % {
        "place": name,
        "frequency": digest.get_frequency_display(),
        "when": when,
    }
    if digest.problem:
        text += "\n" + _("The last one was not sent. %(why)s") % {"why": error_text(digest.problem)}
    return text
