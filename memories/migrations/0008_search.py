"""Tables of the search. Its triggers are made after the migrations, and then every text that is
there waits for the worker, which puts them into the index a few hundred at a time, newest first."""

from django.db import migrations, models

from memories.models import search_triggers


def without_triggers(apps, schema_editor):
    search_triggers.remove(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("memories", "0007_seen")]

    operations = [
        migrations.CreateModel(
            name="SearchDocument",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("message", models.BigIntegerField(null=True, unique=True)),
                ("version", models.BigIntegerField(null=True, unique=True)),
                ("note", models.BigIntegerField(null=True, unique=True)),
                ("tokens", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="SearchPending",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=8)),
                ("text_id", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("kind", "text_id"), name="search_pending_once")
                ],
            },
        ),
        migrations.RunPython(migrations.RunPython.noop, without_triggers),
    ]
