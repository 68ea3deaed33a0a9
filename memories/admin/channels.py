"""Channels with their members, messages and segments, mostly read-only."""

import json
from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import (
    AudienceAdmin,
    AuditedChanges,
    ChangeOnly,
    ReadOnlyAdmin,
    VisibleFilter,
    display_value,
    preview,
)
from memories.admin.forgetting import ForgettingAdmin
from memories.models import Channel, ChannelMember, Memory, Message, Reader, Segment
from memories.models.sync.channel_sync import sync_of
from memories.pipeline.sync.coverage import coverage_of
from memories.rules.ingest.markup import strip_channel_labels
from memories.rules.ingest.references import load_object
from memories.rules.ingest.timestamps import from_micros


@admin.register(Channel)
class ChannelAdmin(ForgettingAdmin, AuditedChanges, ChangeOnly, AudienceAdmin):
    """Channels that the user may read. The name of a private channel is private text."""

    list_display = (
        "name",
        "workspace",
        "kind",
        "is_archived",
        "is_followed",
        "remembered_from",
        "members_known_at",
        "synced_at",
        "read_from_slack",
        "remember_bots",
    )
    list_filter = (("workspace", VisibleFilter), "kind", "is_archived", "remember_bots")
    list_select_related = ("sync",)
    search_fields = ("name", "slack_id", "topic", "purpose")
    readonly_fields = (
        "lists",
        *list_display[:-1],
        "slack_id",
        "topic_as_sent",
        "purpose_as_sent",
        "bot_is_in",
        "is_shared",
        "synced_ts",
        "resynced_at",
    )
    fields = ("remember_bots", *readonly_fields)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Channel]:
        """Give the channels of a workspace one `Workspace`, so that `sync_max_age` counts them once."""
        return super().get_queryset(request).prefetch_related("workspace")

    @admin.display(description=_("related rows"))
    def lists(self, channel: Channel) -> str:
        """Link to the lists of this channel, because their filters may not offer all channels."""
        links = (
            (
                reverse(f"admin:memories_{model._meta.model_name}_changelist"),
                channel.pk,
                model._meta.verbose_name_plural,
            )
            for model in (Message, Segment, ChannelMember, Memory)
        )
        return format_html_join(", ", '<a href="{}?channel__id__exact={}">{}</a>', links)

    @admin.display(description=_("topic"))
    def topic_as_sent(self, channel: Channel) -> str:
        return strip_channel_labels(channel.topic)

    @admin.display(description=_("purpose"))
    def purpose_as_sent(self, channel: Channel) -> str:
        return strip_channel_labels(channel.purpose)

    @admin.display(description=_("start of memory"), ordering="start_us")
    def remembered_from(self, channel: Channel) -> str:
        return display_value(None if channel.start_us is None else from_micros(channel.start_us))

    @admin.display(description=_("reading from Slack"))
    def read_from_slack(self, channel: Channel) -> str:
        """Return why a sync cannot read the channel, with Slack's message. Empty without a problem."""
        if channel.workspace.connected_at is None:
            return ""
        why = coverage_of(channel, timezone.now()).why
        return f"{why} {sync_of(channel).error_text}".strip()

    @admin.display(description=_("synced up to"))
    def synced_ts(self, channel: Channel) -> str:
        return sync_of(channel).synced_ts

    @admin.display(description=_("last read to the end"), ordering="sync__synced_at")
    def synced_at(self, channel: Channel) -> str:
        return display_value(sync_of(channel).synced_at)

    @admin.display(description=_("last swept"))
    def resynced_at(self, channel: Channel) -> str:
        return display_value(sync_of(channel).resynced_at)


@admin.register(ChannelMember)
class ChannelMemberAdmin(ReadOnlyAdmin):
    list_display = ("channel", "person")
    list_filter = (("channel", VisibleFilter),)
    list_select_related = ("channel", "person")
    search_fields = ("channel__name", "person__name", "person__real_name", "person__slack_id")
    ordering = ("-pk",)

    def filter_for(self, reader: Reader, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(channel__in=Channel.objects.visible_to(reader))


@admin.register(Message)
class MessageAdmin(ForgettingAdmin, ReadOnlyAdmin):
    list_display = ("sent", "channel", "written_by", "beginning", "thread_ts", "state", "subtype")
    list_filter = ("state", "is_bot", "is_notice", "broadcast", ("channel", VisibleFilter))
    list_select_related = ("channel", "author")
    search_fields = ("text", "username", "author__name", "ts")
    ordering = ("-pk",)  # by time, a database would sort the messages of all channels
    list_only = ("beginning", "written_by")
    details = (
        "author",
        "username",
        "text_as_sent",
        "ts",
        "is_notice",
        "is_bot",
        "broadcast",
        "edited_ts",
        "reply_count",
        "latest_reply",
        "segment",
        "thread_segment",
        "stored_at",
        "raw_as_sent",
    )

    @admin.display(description=_("sent"), ordering="micros")
    def sent(self, message: Message) -> datetime:
        return from_micros(message.micros)

    @admin.display(description=_("author"))
    def written_by(self, message: Message) -> str:
        return message.author_name

    @admin.display(description=_("text"))
    def beginning(self, message: Message) -> str:
        return preview(strip_channel_labels(message.text))

    @admin.display(description=_("text"))
    def text_as_sent(self, message: Message) -> str:
        return strip_channel_labels(message.text)

    @admin.display(description=_("raw data"))
    def raw_as_sent(self, message: Message) -> str:
        """The data without its copy of the thread's first message, which has its own readers."""
        raw = load_object(message.raw)
        without_root = json.dumps(raw, ensure_ascii=False) if raw.pop("root", None) else message.raw
        return strip_channel_labels(without_root)


@admin.register(Segment)
class SegmentAdmin(ReadOnlyAdmin):
    list_display = (
        "id",
        "channel",
        "thread_ts",
        "number",
        "first",
        "last",
        "message_count",
        "reason",
        "outcome",
        "stale",
    )
    list_filter = ("outcome", "reason", "stale", ("channel", VisibleFilter))
    list_select_related = ("channel",)
    search_fields = ("channel__name", "channel__slack_id", "thread_ts")
    ordering = ("-pk",)
    details = ("closed",)

    @admin.display(description=_("first message"), ordering="first_us")
    def first(self, segment: Segment) -> datetime:
        return from_micros(segment.first_us)

    @admin.display(description=_("last message"), ordering="last_us")
    def last(self, segment: Segment) -> datetime:
        return from_micros(segment.last_us)

    @admin.display(description=_("closed at"))
    def closed(self, segment: Segment) -> datetime:
        return from_micros(segment.closed_us)
