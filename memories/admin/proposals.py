"""Proposals of lines and notes for readable memories, to approve or reject one or several."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OfMemory, needs_attention, row_action
from memories.models import Proposal
from memories.pipeline.memory import review


@admin.register(Proposal)
class ProposalAdmin(OfMemory):
    list_display = (
        "id",
        "beginning",
        "note_type",
        "place",
        "state",
        "author",
        "api_key",
        "decided_by",
        "created_at",
    )
    details = ("line_text", "text", "reason", "source_text", "decided_at")
    list_display_links = ("id", "beginning")
    list_filter = (
        needs_attention(Proposal.State.OPEN),
        "state",
        *OfMemory.list_filter,
    )
    list_select_related = (*OfMemory.list_select_related, "author", "api_key", "decided_by")
    search_fields = ("line_text", "text")
    actions = (
        row_action("approve", _("Approve"), review.approve),
        row_action("reject", _("Reject"), review.reject),
    )
