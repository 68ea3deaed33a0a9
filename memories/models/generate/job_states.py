"""The states of a job (docs/rules.md, Jobs)."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobState(models.TextChoices):
    WAITING = "waiting", _("waiting")
    CLAIMED = "claimed", _("running")
    REPLIED = "replied", _("replied, not yet saved")
    DONE = "done", _("done")
    SUPERSEDED = "superseded", _("replaced by a newer job")
    PROPOSED = "proposed", _("waiting for approval")
    REJECTED = "rejected", _("rejected")
    CANCELLED = "cancelled", _("cancelled")
    DEAD = "dead", _("failed")


UNFINISHED = (JobState.WAITING, JobState.CLAIMED, JobState.REPLIED)
OPEN = (*UNFINISHED, JobState.PROPOSED)
