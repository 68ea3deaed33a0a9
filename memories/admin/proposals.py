"""Proposals of lines and notes for readable memories. Editors change, approve and reject them."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from memories.admin.audience import OfMemory, needs_attention, row_action
from memories.admin.decisions import DecisionAdmin, DecisionForm, approve, reject, text_field
from memories.models import Proposal
from memories.models.memory.proposals import MAX_LENGTH


class ProposalForm(DecisionForm):
    text = text_field(rows=4)
    max_length = MAX_LENGTH

    class Meta:
        model = Proposal
        fields = ("text",)


@admin.register(Proposal)
class ProposalAdmin(OfMemory, DecisionAdmin):
    form = ProposalForm
    list_display = (
        "id",
        "beginning",
        "note_type",
        "memory_name",
        "state",
        "author",
        "api_key",
        "decided_by",
        "created_at",
    )
    details = ("decided_at", "reason", "source_text", "line_text", "text")
    list_display_links = ("id", "beginning")
    list_filter = (
        needs_attention(Proposal.State.OPEN),
        "state",
        *OfMemory.list_filter,
    )
    list_select_related = (*OfMemory.list_select_related, "author", "api_key", "decided_by")
    search_fields = ("line_text", "text")
    actions = (
        row_action("approve", _("Approve"), approve),
        row_action("reject", _("Reject"), reject),
    )
