"""Answer a request of a person in Slack with what this person may read."""

from collections.abc import Callable
from datetime import datetime

from django.utils.translation import gettext as _

from memories.models import Reader, Workspace
from memories.rules.memory.catch_up import parse_since
from memories.rules.slack_app.blocks import Block, answer
from memories.rules.slack_app.manifest import REMEMBER, WRONG
from memories.rules.slack_app.payloads import COMMAND, HOME, LINKS, REACTION, SHORTCUT, AppRequest
from memories.slack_app.briefing import briefing_blocks
from memories.slack_app.callers import Caller, find_caller, find_person, language_of
from memories.slack_app.commands import SHARE, run_command, share
from memories.slack_app.shortcuts import PROPOSE, correction_form, keep_as_note, propose
from memories.slack_app.unfurls import build_unfurls

SHORTCUTS = {REMEMBER: keep_as_note, WRONG: correction_form}
BUTTONS = {SHARE: share, PROPOSE: propose}
HOME_PERIOD = "7d"


def answer_request(request: AppRequest, workspace: Workspace, now: datetime) -> Block:
    """Return the answer. A refusal says why."""
    with language_of(find_person(request, workspace), workspace):
        if request.kind == LINKS:
            channel = workspace.channels.filter(slack_id=request.channel).first()
            reader = channel.common_reader(now) if channel else Reader(now=now)
            return {"unfurls": build_unfurls(request.links, workspace, reader)}
        caller = find_caller(request, workspace, now)
        return answer(caller) if isinstance(caller, str) else _answer(caller)


def _answer(caller: Caller) -> Block:
    request = caller.request
    handlers: dict[str, Callable[[Caller], Block] | None] = {
        COMMAND: run_command,
        HOME: _home,
        REACTION: keep_as_note,
        SHORTCUT: SHORTCUTS.get(request.name),
    }
    handler = handlers.get(request.kind, BUTTONS.get(request.name))
    if handler is None:
        return answer(
            _("This action is not known here. The app in Slack may have a newer manifest.")
        )
    return handler(caller)


def _home(caller: Caller) -> Block:
    since = parse_since(HOME_PERIOD, caller.now, caller.access.zone)
    blocks = briefing_blocks(caller.access, since, caller.now, with_attention=True)
    return answer(_("Catch up"), blocks)
