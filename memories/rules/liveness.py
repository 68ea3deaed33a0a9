"""When a cluster of workers hangs: it lives, was asked, and nobody in it has moved since."""

from datetime import datetime, timedelta

START_TIME = timedelta(seconds=30)
"""A cluster may need so long from its start to its first sign of life."""


def is_hung(
    now: datetime,
    *,
    born: datetime,
    last_sign: datetime | None,
    asked_at: datetime | None,
    heartbeat: timedelta,
) -> bool:
    """Whether it gave no sign for one and a half heartbeats, though a question has been open for half
    of one: so it is started again before two are over.

    ``asked_at``: the oldest question that is not answered, None when all are. Without an open
    question silence says nothing: nobody was asked while the machine slept.
    """
    if asked_at is None or now - asked_at <= heartbeat / 2:
        return False
    if last_sign is None or last_sign < born:
        return now - born > max(START_TIME, 2 * heartbeat)
    return now - last_sign > 1.5 * heartbeat
