"""The key of a searched text becomes the very key of its row on SQLite, which so finds it in one step
less; PostgreSQL learns more of how common words are. The triggers go first, for SQLite makes the table
anew; they come again with what PostgreSQL learns, and all texts are read again, newest first."""

from django.db import migrations, models

from memories.models import search_triggers


def without_triggers(apps, schema_editor):
    search_triggers.remove(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("memories", "0015_paused_uploads")]

    operations = [
        migrations.RunPython(without_triggers, migrations.RunPython.noop),
        migrations.AlterField(
            model_name="searchdocument",
            name="id",
            field=models.BigAutoField(primary_key=True, serialize=False),
        ),
        migrations.RunPython(migrations.RunPython.noop, without_triggers),
    ]
