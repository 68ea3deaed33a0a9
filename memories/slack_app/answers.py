"""Answer a request of a person in Slack with what this person may read."""

from contextlib import AbstractContextManager
from datetime import datetime

from django.utils import translation
from django.utils.translation import gettext as _

from memories.models import Person, Workspace
from memories.rules.slack_app.blocks import Block, answer
from memories.rules.slack_app.payloads import COMMAND, AppRequest
from memories.slack_app.callers import Caller, find_person
from memories.slack_app.commands import SHARE, run_command, share

BUTTONS = {SHARE: share}


def answer_request(request: AppRequest, workspace: Workspace, now: datetime) -> Block:
    """Return the answer. A refusal says why."""
    person = find_person(request, workspace)
    with _language_of(person, workspace):
        return _answer(request, workspace, person, now)


def _answer(
    request: AppRequest, workspace: Workspace, person: Person | None, now: datetime
) -> Block:
    if person is None:
        return answer(
            _(
                "You are not in the list of people yet. It is read from Slack every five minutes. "
                "Try again then."
            )
        )
    caller = Caller(request, workspace, person, now)
    if refusal := caller.find_refusal():
        return answer(refusal)
    if request.kind == COMMAND:
        return run_command(caller)
    if press := BUTTONS.get(request.name):
        return press(caller)
    return answer(_("This action is not known here. The app in Slack may have a newer manifest."))


def _language_of(person: Person | None, workspace: Workspace) -> AbstractContextManager[None]:
    """Return the language of the account, else that of the workspace's memories."""
    output = workspace.memory_settings.output_language
    given = person.user.language if person is not None and person.user is not None else ""
    return translation.override(given or ("ja" if output == "ja" else "en"))
