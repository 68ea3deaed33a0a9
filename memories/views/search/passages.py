"""The passages of an answer: where each stands, its text and its links."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from memories.models import Line, Note
from memories.pipeline.ask.passages import Passage
from memories.rules.ingest.names import safe_name
from memories.rules.ingest.permalinks import permalink
from memories.views import paths


@dataclass(frozen=True)
class ShownPassage:
    """``number`` is the one that sentences cite. ``path`` leads to the text in the hub."""

    number: int
    passage: Passage
    where: str
    path: str
    slack_url: str = ""

    @property
    def text(self) -> str:
        return self.passage.text

    @property
    def at_us(self) -> int:
        return self.passage.at_us

    @property
    def url(self) -> str:
        """The address of the message in Slack, else of the text in the hub."""
        return self.slack_url or paths.full_url(self.path)


def show_passages(passages: Iterable[Passage]) -> list[ShownPassage]:
    return [_show(number, passage) for number, passage in enumerate(passages, start=1)]


def _show(number: int, passage: Passage) -> ShownPassage:
    row = passage.row
    if isinstance(row, Line):
        memory = row.version.memory
        return ShownPassage(number, passage, paths.scope_name(memory), paths.card_path(memory))
    if isinstance(row, Note):
        where = str(row.channel) if row.channel else _("whole workspace")
        path = reverse("notes-detail", args=[row.workspace.slug, row.pk])
        return ShownPassage(number, passage, where, path)
    workspace = row.channel.workspace
    where = _("%(name)s in %(channel)s") % {
        "name": safe_name(row.author_name),
        "channel": row.channel,
    }
    path = paths.message_path(workspace.slug, row)
    url = permalink(workspace.domain, row.channel.slack_id, row.ts, row.thread_ts)
    return ShownPassage(number, passage, where, path, url)
