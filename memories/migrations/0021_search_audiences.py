"""Each token of the index begins with the key of its audience. The table is made anew, because all
texts are read again: the triggers go first, and come again after the migrations."""

from django.db import migrations, models

from memories.models import search_triggers


def without_triggers(apps, schema_editor):
    search_triggers.remove(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("memories", "0020_message_and_job_indexes")]

    operations = [
        migrations.RunPython(without_triggers, migrations.RunPython.noop),
        migrations.DeleteModel(name="SearchDocument"),
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message", models.BigIntegerField(null=True, unique=True)),
                ("version", models.BigIntegerField(null=True, unique=True)),
                ("note", models.BigIntegerField(null=True, unique=True)),
                ("workspace_key", models.CharField(default="", max_length=8)),
                ("channel_key", models.CharField(default="", max_length=8)),
                ("tokens", models.TextField()),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("workspace_key", "")),
                        fields=["channel_key"],
                        name="search_for_members",
                    )
                ],
            },
        ),
        migrations.RunPython(migrations.RunPython.noop, without_triggers),
    ]
