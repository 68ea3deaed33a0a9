"""How far the sync has read each channel, and the error that stopped it."""

from datetime import datetime

from django.db import models

from memories.models.ingest.channels import Channel


class ChannelSyncQuerySet(models.QuerySet["ChannelSync"]):
    def of(self, channel: Channel) -> "ChannelSync":
        """Return the channel's row. Create it if the channel has none."""
        sync, _created = self.get_or_create(channel=channel)
        sync.channel = channel
        return sync


class ChannelSync(models.Model):
    """Cursors and result of the sync of one channel. Only the sync writes them.

    A channel without a row was never synced. Each ``_ts`` is a Slack ts, or "" for none.
    ``history_*`` describe a read of the history, which goes from the newest message to older ones
    and may take many runs. Between two reads they are empty.
    """

    channel = models.OneToOneField(Channel, on_delete=models.CASCADE, related_name="sync")
    # One complete read covered everything up to this ts.
    synced_ts = models.CharField(max_length=20, blank=True)
    # When the last read started whose history and threads are complete.
    synced_at = models.DateTimeField(null=True, blank=True)
    # The read in progress: its first message, the oldest one so far, and where it ends.
    history_newest_ts = models.CharField(max_length=20, blank=True)
    history_reached_ts = models.CharField(max_length=20, blank=True)
    history_until_ts = models.CharField(max_length=20, blank=True)
    # Kept after the read until its threads are read too.
    history_started_at = models.DateTimeField(null=True, blank=True)
    # When all messages, however old, were last compared with Slack's.
    resynced_at = models.DateTimeField(null=True, blank=True)
    # The oldest message so far of a resync that continues below the reads of new messages.
    resync_reached_ts = models.CharField(max_length=20, blank=True)
    # Threads are due from this moment on (rules/sync/resync_schedule.py).
    threads_resynced_to = models.DateTimeField(null=True, blank=True)
    # When a page was last read: a sync starts with the channel that waits longest.
    last_read_at = models.DateTimeField(null=True, blank=True)
    # Why the last sync is incomplete: Slack's error code, a sentence, and when to retry.
    error_code = models.CharField(max_length=60, blank=True)
    error_text = models.TextField(blank=True)
    retry_at = models.DateTimeField(null=True, blank=True)

    objects = ChannelSyncQuerySet.as_manager()

    def __str__(self) -> str:
        return f"sync of channel {self.channel_id}"

    @property
    def is_reading_history(self) -> bool:
        return bool(self.history_newest_ts)

    @property
    def history_complete_as_of(self) -> datetime | None:
        """Return when the last complete read of the history started, its threads aside."""
        started_at = None if self.is_reading_history else self.history_started_at
        return started_at or self.synced_at

    def save_history_progress(
        self, *, newest_ts: str, reached_ts: str, until_ts: str, started_at: datetime | None
    ) -> None:
        """Record that everything from ``newest_ts`` down to ``reached_ts`` is stored."""
        self._set(
            history_newest_ts=newest_ts,
            history_reached_ts=reached_ts,
            history_until_ts=until_ts,
            history_started_at=started_at,
        )

    def finish_history(self, newest_ts: str, started_at: datetime | None) -> None:
        """Record a complete read of the history: the channel is synced up to ``newest_ts``."""
        self._set(synced_ts=max(self.synced_ts, newest_ts))
        self.save_history_progress(newest_ts="", reached_ts="", until_ts="", started_at=started_at)

    def finish_threads(self) -> None:
        """Record that the threads of the last complete read are read too."""
        if self.history_started_at is not None and not self.is_reading_history:
            self._set(synced_at=self.history_started_at, history_started_at=None)

    def save_resync_progress(self, reached_ts: str) -> None:
        self._set(resync_reached_ts=reached_ts)

    def finish_resync(self, now: datetime) -> None:
        self._set(resynced_at=now, resync_reached_ts="")

    def set_threads_resynced_to(self, at: datetime) -> None:
        self._set(threads_resynced_to=at)

    def request_full_resync(self, threads_resynced_to: datetime) -> None:
        """Make the next sync compare every message and read every thread."""
        self._set(resynced_at=None, resync_reached_ts="", threads_resynced_to=threads_resynced_to)

    def set_last_read(self, now: datetime) -> None:
        self._set(last_read_at=now)

    def record_result(self, code: str, text: str, retry_at: datetime | None) -> None:
        """Record why the sync is incomplete ("" if it is complete) and when to retry."""
        result = (code[:60], text, retry_at)
        if result != (self.error_code, self.error_text, self.retry_at):
            self._set(error_code=code[:60], error_text=text, retry_at=retry_at)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            setattr(self, name, value)
        self.save(update_fields=list(values))


def sync_of(channel: Channel) -> ChannelSync:
    """Return the channel's sync state, or an empty unsaved one. No query after select_related."""
    sync: ChannelSync | None = getattr(channel, "sync", None)
    return sync or ChannelSync()
