"""Indexes for the counts of every page: private messages, failed jobs, and jobs that wait for a budget."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memories", "0019_link_proof_constraint")]

    operations = [
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(
                condition=models.Q(("state", "dead")),
                fields=["state", "memory"],
                name="generation_dead",
            ),
        ),
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(
                condition=models.Q(("fault", "over_cap"), ("state", "waiting")),
                fields=["not_before"],
                name="generation_over_cap",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("was_private", True)),
                fields=["channel"],
                name="message_private",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(("was_private", True)),
                fields=["segment"],
                name="message_private_in_segment",
            ),
        ),
        migrations.AddIndex(
            model_name="message",
            index=models.Index(
                condition=models.Q(
                    ("was_private", True), models.Q(("thread_ts", ""), _negated=True)
                ),
                fields=["channel", "thread_ts"],
                name="message_private_in_thread",
            ),
        ),
    ]
