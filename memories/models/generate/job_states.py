"""The states of a job (docs/rules.md, Jobs)."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class JobState(models.TextChoices):
    WAITING = "waiting", _("waiting")
    CLAIMED = "claimed", _("running")
    REPLIED = "replied", _("answered, not yet saved")
    DONE = "done", _("done")
    SUPERSEDED = "superseded", _("made again from a newer text")
    PROPOSED = "proposed", _("waits for a person's word")
    REJECTED = "rejected", _("rejected by a person")
    CANCELLED = "cancelled", _("cancelled")
    DEAD = "dead", _("given up")


UNFINISHED = (JobState.WAITING, JobState.CLAIMED, JobState.REPLIED)
OPEN = (*UNFINISHED, JobState.PROPOSED)
