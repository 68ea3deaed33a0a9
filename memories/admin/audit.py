"""The record of who did what: to be read, by operators and by workspace admins."""

from django.contrib import admin

from memories.admin.audience import AudienceAdmin, ReadOnly
from memories.models import AuditEvent


@admin.register(AuditEvent)
class AuditAdmin(ReadOnly, AudienceAdmin):
    """Nobody adds, changes or deletes anything here, superusers neither: the rows refuse it too."""

    list_display = ("at", "actor", "action", "workspace", "subject", "details")
    list_filter = ("action",)
    search_fields = ("actor", "action", "workspace", "subject")
    date_hierarchy = "at"
    ordering = ("-pk",)
    fields = ("at", "actor", "action", "workspace", "subject", "details")
