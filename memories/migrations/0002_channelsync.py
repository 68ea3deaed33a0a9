"""Move the cursors of the sync from Channel to a table of their own, ChannelSync."""

import django.db.models.deletion
from django.db import migrations, models

# Column of Channel: field of ChannelSync.
FIELDS = {
    "synced_ts": "synced_ts",
    "walk_top_ts": "history_newest_ts",
    "walk_at_ts": "history_reached_ts",
    "walk_end_ts": "history_until_ts",
    "walked_at": "synced_at",
    "walk_began_at": "history_started_at",
    "swept_at": "resynced_at",
    "sweep_at_ts": "resync_reached_ts",
    "ring_at": "threads_resynced_to",
    "turn_at": "last_read_at",
    "sync_code": "error_code",
    "sync_text": "error_text",
    "sync_not_before": "retry_at",
}


def copy_to_channel_sync(apps, schema_editor):
    using = schema_editor.connection.alias
    Channel = apps.get_model("memories", "Channel")
    ChannelSync = apps.get_model("memories", "ChannelSync")
    # A channel that no sync has read needs no row.
    rows = Channel.objects.using(using).order_by("pk").values_list("pk", *FIELDS)
    ChannelSync.objects.using(using).bulk_create(
        ChannelSync(channel_id=pk, **dict(zip(FIELDS.values(), values, strict=True)))
        for pk, *values in rows
        if any(values)
    )


def copy_to_channel(apps, schema_editor):
    using = schema_editor.connection.alias
    Channel = apps.get_model("memories", "Channel")
    ChannelSync = apps.get_model("memories", "ChannelSync")
    rows = ChannelSync.objects.using(using).values_list("channel_id", *FIELDS.values())
    for pk, *values in rows:
        Channel.objects.using(using).filter(pk=pk).update(**dict(zip(FIELDS, values, strict=True)))


def _ts():
    return models.CharField(blank=True, max_length=20)


def _moment():
    return models.DateTimeField(blank=True, null=True)


class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ChannelSync",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("synced_ts", _ts()),
                ("synced_at", _moment()),
                ("history_newest_ts", _ts()),
                ("history_reached_ts", _ts()),
                ("history_until_ts", _ts()),
                ("history_started_at", _moment()),
                ("resynced_at", _moment()),
                ("resync_reached_ts", _ts()),
                ("threads_resynced_to", _moment()),
                ("last_read_at", _moment()),
                ("error_code", models.CharField(blank=True, max_length=60)),
                ("error_text", models.TextField(blank=True)),
                ("retry_at", _moment()),
                (
                    "channel",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="sync", to="memories.channel"
                    ),
                ),
            ],
        ),
        migrations.RunPython(copy_to_channel_sync, copy_to_channel),
        *(migrations.RemoveField(model_name="channel", name=name) for name in FIELDS),
    ]
