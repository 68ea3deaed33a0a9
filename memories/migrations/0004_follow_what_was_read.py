"""Channels that a sync has read so far go on being read: from now on only chosen ones are."""

from django.db import migrations


def follow(apps, schema_editor):
    channels = apps.get_model("memories", "Channel").objects
    channels.exclude(synced_ts="").update(is_followed=True, bot_is_in=True)


class Migration(migrations.Migration):
    dependencies = [("memories", "0003_live_slack")]

    operations = [migrations.RunPython(follow, migrations.RunPython.noop)]
