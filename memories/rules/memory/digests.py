"""The periods of digests. A period ends at seven in the morning, a weekly one on Monday."""

from datetime import date, datetime, time, timedelta, tzinfo

DIGEST_HOUR = 7
DAYS = {"daily": 1, "weekly": 7}
REMEMBERED_WITHIN = timedelta(days=1)  # how late a message of the last period is still news
RETRY_AFTER = timedelta(minutes=30)  # longer than an e-mail or a call to Slack takes
MAX_TRIES = 3  # of an e-mail


def last_period(frequency: str, now: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Return the start and the end of the newest period that is over."""
    local = now.astimezone(zone)
    day = local.date() - timedelta(days=local.hour < DIGEST_HOUR)
    if frequency == "weekly":
        day -= timedelta(days=day.weekday())
    return period_start(frequency, day, zone), datetime.combine(day, time(DIGEST_HOUR), zone)


def period_start(frequency: str, last_day: date, zone: tzinfo) -> datetime:
    """Return the start of the period that ends on this day."""
    return datetime.combine(last_day - timedelta(days=DAYS[frequency]), time(DIGEST_HOUR), zone)


def next_end(frequency: str, now: datetime, zone: tzinfo) -> datetime:
    """Return the end of the current period."""
    _start, end = last_period(frequency, now, zone)
    day = end.date() + timedelta(days=DAYS[frequency])
    return datetime.combine(day, time(DIGEST_HOUR), zone)


def next_try(tries: int, now: datetime) -> datetime | None:
    """Return the time of the next try after so many, None after the last."""
    return now + RETRY_AFTER if tries < MAX_TRIES else None
