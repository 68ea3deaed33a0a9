"""Previews of links to the hub in Slack: the text where everybody may read it, else the title."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import Resolver404, resolve
from django.utils.translation import gettext as _

from memories.models import MemoryVersion, Note, Reader, Workspace
from memories.models.memory.version_queries import MemoryVersionQuerySet
from memories.rules.memory.identity import MemoryScope, MemoryType
from memories.rules.memory.lines import split_text, strip_bullet
from memories.rules.slack_app.blocks import Block, item, link, sections
from memories.views import paths

LINES = 5  # of a preview


def build_unfurls(urls: list[str], workspace: Workspace, reader: Reader) -> dict[str, Any]:
    """Return the previews by address. ``reader`` reads what everybody in the channel may read."""
    unfurls = {}
    for url in urls:
        preview = _preview(url, workspace, reader)
        if preview is not None:
            unfurls[url] = {"blocks": preview}
    return unfurls


def _preview(url: str, workspace: Workspace, reader: Reader) -> list[Block] | None:
    """Return the blocks of one preview, None for an address that is no page of this workspace."""
    hub = urlsplit(settings.MEMORYHUB_URL)
    try:
        parts = urlsplit(url)
        if (parts.scheme, parts.netloc) != (hub.scheme, hub.netloc):
            return None
        match = resolve(parts.path)
    except (ValueError, Resolver404):  # a person may type any address
        return None
    if match.kwargs.get("slug", workspace.slug) != workspace.slug:
        return None
    readable = _find_text(match.url_name or "", match.kwargs, workspace, reader)
    if readable is None:
        return sections([link(url, _("Memory Hub"))])
    title, lines = readable
    return sections([f"*{link(url, title)}*", *(item(line) for line in lines[:LINES])])


def _find_text(
    name: str, given: dict[str, Any], workspace: Workspace, reader: Reader
) -> tuple[str, list[str]] | None:
    """Return the title and the lines of a page that the reader may read, None for any other."""
    if name == "notes-detail":
        notes = Note.objects.visible_to(reader).in_use(workspace)
        note = notes.filter(pk=given["pk"]).first()
        return (note.title, [note.content]) if note else None
    versions = MemoryVersion.objects.visible_to(reader).with_text()
    versions = versions.filter(memory__workspace=workspace).select_related(
        "memory__channel", "memory__workspace"
    )
    version = _find_version(name, given, versions)
    if version is None:
        return None
    memory = version.memory
    title = f"{paths.scope_name(memory)}: {paths.type_name(memory)}"
    return title, [strip_bullet(line) for line in split_text(version.content)]


def _find_version(
    name: str, given: dict[str, Any], versions: MemoryVersionQuerySet
) -> MemoryVersion | None:
    """Return the version of a page: a version's own, or the long-term memory of a channel."""
    if name in ("versions-detail", "versions-sources"):
        return versions.filter(pk=given["pk"]).first()
    current = versions.current().filter(memory__memory_type=MemoryType.LONG_TERM)
    if name == "channels-detail":
        own = current.filter(memory__scope=MemoryScope.CHANNEL)
        return own.filter(memory__channel__slack_id=given["slack_id"]).first()
    if name == "workspaces-detail":
        return current.filter(memory__scope=MemoryScope.WORKSPACE).first()
    return None
