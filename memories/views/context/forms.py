"""The form of the context preview. Its values are the query string of the page."""

import shlex
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.models import Reader
from memories.pipeline.context.build import build_context
from memories.rules.context.blocks import Part
from memories.rules.context.contents import (
    API_BUDGET,
    DEFAULT_BUDGET,
    LEAVABLE,
    Context,
    NoSuchChannel,
    NoThread,
    UnknownThread,
    find_channel,
)
from memories.views.access.access import WorkspaceAccess
from memoryhub.env import PROGRAM

MAX_TOKENS = 10_000_000
MAIN_FIELDS = ("channel", "budget", "query")
MAX_QUESTION_LENGTH = 1000
BOT = "bot"  # a reader of public channels only


def _parse_moment(text: str) -> datetime | None:
    """Return a time, None for an invalid one. In a typed address the + of a zone is a blank."""
    try:
        return parse_datetime(text) or parse_datetime(text.replace(" ", "+"))
    except ValueError:
        return None


class MomentField(forms.CharField):
    """A time with a zone, or without one as a browser's control sends it."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"})

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return the time in the reader's zone, without the zone."""
        moment = _parse_moment(data or "")
        if moment is None or timezone.is_naive(moment):
            return data
        try:
            return timezone.make_naive(moment).isoformat(timespec="seconds")
        except OverflowError:
            return data


class PreviewForm(forms.Form):
    """The options of a context, as `build_context` takes them."""

    channel = forms.CharField(label=gettext_lazy("Channel"), required=False, max_length=200)
    thread = forms.CharField(
        label=gettext_lazy("Thread"),
        required=False,
        max_length=20,
        help_text=gettext_lazy("The ts of its first message, such as 1767603600.000100."),
    )
    budget = forms.IntegerField(
        label=gettext_lazy("Token limit"),
        required=False,
        min_value=0,
        max_value=MAX_TOKENS,
        help_text=gettext_lazy("Empty: 4,000. 0: all memories, uncut."),
    )
    query = forms.CharField(
        label=gettext_lazy("Question"),
        required=False,
        max_length=MAX_QUESTION_LENGTH,
        help_text=gettext_lazy("Lines and messages about it come first."),
    )
    at = MomentField(
        label=gettext_lazy("As of"),
        required=False,
        max_length=40,
        help_text=gettext_lazy("What the hub held at that time."),
    )
    persona = forms.CharField(
        label=gettext_lazy("Persona"),
        required=False,
        max_length=2000,
        help_text=gettext_lazy("Who the bot is. It comes first."),
    )
    notes = forms.BooleanField(label=gettext_lazy("Include notes"), required=False)
    archive = forms.BooleanField(label=gettext_lazy("Include the archive"), required=False)
    without = forms.MultipleChoiceField(
        choices=[(part, part) for part in LEAVABLE],
        required=False,
        widget=forms.MultipleHiddenInput,
    )

    def __init__(self, data: QueryDict, *, access: WorkspaceAccess) -> None:
        super().__init__(data)
        self.access = access
        self.has_local_time = False  # whether `at` depends on the zone of the reader
        if access.has_few_channels:
            none = _("none: the whole workspace")
            rows = ((channel.slack_id, str(channel)) for channel in access.channels)
            self.fields["channel"].widget = forms.Select(choices=[("", none), *rows])
        if access.workspace.memory_settings.notes_inject != "manual":
            del self.fields["notes"]
        if access.reads_workspace:  # guests do not read all public channels
            choices = [("", _("you")), (BOT, _("a bot: public channels only"))]
            self.fields["as"] = forms.ChoiceField(
                label=_("Who reads"), required=False, choices=choices
            )

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in MAIN_FIELDS]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        """Return the fields that the page folds."""
        return [field for field in self.visible_fields() if field.name not in MAIN_FIELDS]

    @property
    def has_more(self) -> bool:
        """Return whether a folded field has a value or an error."""
        return any(field.value() or field.errors for field in self.more_fields)

    def clean_channel(self) -> str:
        """Return the channel's id. An unreadable channel gives the error of an unknown one."""
        channel_name: str = self.cleaned_data["channel"]
        names = self.access.readable_channels.named(channel_name).names() if channel_name else {}
        try:
            return find_channel(names, channel_name) if channel_name else ""
        except NoSuchChannel as error:
            raise forms.ValidationError(_("This channel does not exist.")) from error

    def clean_at(self) -> datetime | None:
        """Return the time in UTC. A time without a zone is in the reader's zone."""
        text = self.cleaned_data["at"]
        if not text:
            return None
        moment = _parse_moment(text)
        if moment is None:
            raise forms.ValidationError(_("Enter a valid date and time."))
        self.has_local_time = timezone.is_naive(moment)
        if self.has_local_time:
            moment = timezone.make_aware(moment, self.access.zone)
        try:
            return moment.astimezone(UTC)
        except OverflowError as error:
            raise forms.ValidationError(_("Enter a valid date and time.")) from error

    def build(self) -> Context | None:
        """Return the context, or None with errors on the form."""
        if not self.is_valid():
            return None
        options = self.cleaned_data
        try:
            return build_context(
                self.access.workspace,
                Reader.public(self.access.reader.now) if self.is_bot else self.access.reader,
                channel=options["channel"] or None,
                thread_ts=options["thread"] or None,
                budget=self.tokens,  # None would also read all memories, which the page ignores
                question=options["query"],
                persona=options["persona"],
                with_notes=options.get("notes", False),
                with_archive=options["archive"],
                without=[Part(part) for part in options["without"]],
                now=timezone.now(),
                at=options["at"],
            )
        except UnknownThread:
            self.add_error("thread", _("This channel has no such thread."))
        except NoThread:
            self.add_error(
                "thread",
                _("Enter a valid ts.")
                if options["channel"]
                else _("Choose the channel of the thread as well."),
            )
        except NoSuchChannel:
            self.add_error("channel", _("A bot reads public channels only."))
        return None

    @property
    def tokens(self) -> int:
        """The budget in tokens, 0 for no limit."""
        budget: int | None = self.cleaned_data["budget"]
        return DEFAULT_BUDGET if budget is None else budget

    @property
    def is_bot(self) -> bool:
        return self.cleaned_data.get("as") == BOT

    def command(self, username: str) -> str:
        """Return the shell command for the same context."""

        def option(name: str, value: object) -> list[str]:
            text = str(value)  # argparse takes a separate -word for an option
            return [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]

        options = self.cleaned_data
        words = [PROGRAM, "context", "--workspace", self.access.workspace.slug]
        words += [] if self.is_bot else ["--as", username]
        for name in ("channel", "thread", "budget", "query", "persona"):
            words += option(name, options[name]) if options[name] not in ("", None) else []
        words += ["--notes"] if options.get("notes") else []
        words += ["--with-archive"] if options["archive"] else []
        words += ["--at", options["at"].isoformat()] if options["at"] else []
        for part in options["without"]:
            words += ["--without", part]
        return shlex.join(words)

    def api_query(self) -> str | None:
        """Return the query string of the same context in the API, None if the API has no such context."""
        options = self.cleaned_data
        is_unknown = options["persona"] or options["archive"] or options.get("notes")
        if is_unknown or not 1 <= self.tokens <= API_BUDGET:
            return None
        names = ("channel", "thread", "budget", "query")
        query: dict[str, Any] = {
            name: options[name] for name in names if options[name] not in ("", None)
        }
        if options["at"]:
            query["at"] = options["at"].isoformat().replace("+00:00", "Z")
        return urlencode(query | {"without": options["without"]}, doseq=True)
