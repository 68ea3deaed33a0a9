"""Verbose names of fields that have none in their model."""

from django.apps import apps
from django.utils.translation import gettext_lazy as _

from memories.models import Heartbeat

VERBOSE_NAMES = {
    "api_key": _("API key"),
    "at": _("last heartbeat"),
    "author": _("author"),
    "backfill": _("backfill"),
    "base": _("based on version"),
    "channel": _("channel"),
    "created_by": _("created by"),
    "decided_at": _("decided"),
    "decided_by": _("decided by"),
    "fence": _("claim"),
    "job": _("job"),
    "input_key": _("input hash"),
    "lease_until": _("lease until"),
    "memory": _("memory"),
    "name": _("name"),
    "times_opened": _("pauses in a row"),
    "pause_reason": _("pause reason"),
    "person": _("person"),
    "rate_limits": _("rate limits in a row"),
    "restored_from": _("restored from"),
    "revision": _("times rewritten"),
    "segment": _("segment"),
    "strategy": _("request strategy"),
    "text": _("text"),
    "thread_segment": _("segment of the thread"),
    "user": _("account"),
    "workspace": _("workspace"),
}


def set_verbose_names() -> None:
    """Set the names at run time. In the models they would need migrations."""
    for model in apps.get_app_config("memories").get_models():
        for field in model._meta.local_fields:
            own_name = getattr(field, "_verbose_name", None)  # from the model
            if own_name is None and field.name in VERBOSE_NAMES:
                field.verbose_name = VERBOSE_NAMES[field.name]
    Heartbeat._meta.verbose_name = _("heartbeat")
    Heartbeat._meta.verbose_name_plural = _("heartbeats")
