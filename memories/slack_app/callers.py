"""The person in Slack behind a request, and what they may read."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.utils import translation
from django.utils.translation import gettext as _

from memories.models import Channel, Person, Reader, User, Workspace
from memories.models.access.audience import entered_workspaces
from memories.rules.slack_app.payloads import AppRequest
from memories.views.access.access import WorkspaceAccess


@dataclass
class Caller:
    """A known person with a request. ``channel`` is the one of the request, if they may read it."""

    request: AppRequest
    workspace: Workspace
    person: Person
    now: datetime

    @cached_property
    def reader(self) -> Reader:
        return Reader.of_person(self.person, self.now)

    @cached_property
    def access(self) -> WorkspaceAccess:
        zone = self.user.zone if self.user else None
        return WorkspaceAccess(self.workspace, self.reader, zone)

    @property
    def user(self) -> User | None:
        """The account of the person, if the link to it is proven."""
        return self.person.user if self.reader.user_id is not None else None

    @cached_property
    def channel(self) -> Channel | None:
        return self.access.find_channels([self.request.channel]).get(self.request.channel)

    @cached_property
    def channel_reader(self) -> Reader | None:
        """The reader of what everybody in the channel of the request may read, None if unknown."""
        return self.channel.common_reader(self.now) if self.channel else None

    def find_access_error(self) -> str:
        """Return why the person gets no answer, "" if they get one."""
        if self.access.is_hidden:
            return _(
                "Nothing is shown now, because Slack has not confirmed who may read here. An admin "
                "can test the connection on the Slack page."
            )
        if not entered_workspaces(self.reader).filter(pk=self.workspace.pk).exists():
            return _("You may read nothing here. Contact an admin of this workspace.")
        return ""


def find_caller(request: AppRequest, workspace: Workspace, now: datetime) -> Caller | str:
    """Return the caller, or why they get no answer."""
    person = find_person(request, workspace)
    if person is None:
        return _(
            "You are not in the list of people yet. It is read from Slack every five minutes. "
            "Try again then."
        )
    caller = Caller(request, workspace, person, now)
    return caller.find_access_error() or caller


def find_person(request: AppRequest, workspace: Workspace) -> Person | None:
    people = workspace.people.select_related("user")
    return people.filter(slack_id=request.user, is_bot=False, forgotten_at=None).first()


def language_of(person: Person | None, workspace: Workspace) -> AbstractContextManager[None]:
    """Return the language of the account, else that of the workspace's memories."""
    output = workspace.memory_settings.output_language
    given = person.user.language if person is not None and person.user is not None else ""
    return translation.override(given or ("ja" if output == "ja" else "en"))
