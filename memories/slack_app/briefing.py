"""What is new, as blocks: for the command "catch up", for the Home tab and for digests."""

from datetime import datetime

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from memories.rules.ingest.markup import escape
from memories.rules.ingest.timestamps import from_micros
from memories.rules.memory.catch_up import Since
from memories.rules.memory.lines import strip_bullet
from memories.rules.slack_app.blocks import Block, header, item, link, sections
from memories.views.access.access import WorkspaceAccess
from memories.views.memory.attention import AttentionItem, find_attention_items
from memories.views.memory.briefing import Briefing, OpeningLine, load_briefing, load_digest
from memories.views.memory.news import NewsEntry
from memories.views.paths import full_url, page_of, scope_name

ENTRIES = 15  # channels


def briefing_blocks(
    access: WorkspaceAccess, since: Since, now: datetime, *, with_attention: bool = False
) -> list[Block]:
    """Return the opening of Catch up, the channels with new lines, and what needs attention."""
    briefing = load_briefing(access, since, ENTRIES)
    blocks = _news_blocks(briefing) or sections([_("Nothing is new.")])
    items = find_attention_items(briefing.news, access, since, now) if with_attention else []
    if items:
        blocks += [header(_("Needs attention")), *sections(map(_attention_line, items))]
    return _framed(blocks, access, from_micros(since.us or 0), f"?since={since.choice}")


def digest_blocks(access: WorkspaceAccess, start: datetime) -> list[Block]:
    """Return the opening of Catch up and the channels with new lines, nothing without news."""
    briefing = load_digest(access, start)
    return _framed(_news_blocks(briefing), access, start) if briefing else []


def _news_blocks(briefing: Briefing) -> list[Block]:
    lines = map(_opening_line, briefing.opening_lines)
    return [*sections(lines), *sections(map(_entry_line, briefing.entries))]


def _framed(
    blocks: list[Block], access: WorkspaceAccess, start: datetime, query: str = ""
) -> list[Block]:
    """Add the time before the blocks, and a link to Catch up behind them."""
    at = start.astimezone(access.zone)
    path = reverse("catch_up-index", args=[access.workspace.slug]) + query
    title = header(_("Since %(when)s") % {"when": date_format(at, _("j M Y"))})
    return [title, *blocks, *sections([link(full_url(path), _("Open Catch up"))])]


def _opening_line(news_line: OpeningLine) -> str:
    byline = [f"_{escape(news_line.byline)}_"] if news_line.byline else []
    return item(strip_bullet(news_line.line.text), *byline)


def _entry_line(entry: NewsEntry) -> str:
    memory = entry.version.memory
    return f"{link(full_url(page_of(memory)), scope_name(memory))} {entry.counts}"


def _attention_line(attention: AttentionItem) -> str:
    where = f"{scope_name(attention.memory)}: " if attention.memory else ""
    return f"• {link(full_url(attention.href), f'{where}{attention.words}')}"
