"""Indexes for lists that must not grow with a workspace: held lines, versions for few, replies by time."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memories", "0027_api_keys")]

    operations = [
        migrations.AddIndex(
            model_name="line",
            index=models.Index(
                condition=models.Q(("pinned", True), ("origin", "person"), _connector="OR"),
                fields=["version"],
                name="line_held",
            ),
        ),
        migrations.AddIndex(
            model_name="memoryversion",
            index=models.Index(
                condition=models.Q(("audience", "scope"), _negated=True),
                fields=["memory"],
                name="version_not_for_all",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("thread_ts", ""), _negated=True),
                fields=["channel", "-micros"],
                name="message_in_thread",
            ),
        ),
    ]
