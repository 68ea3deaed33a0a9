from django.db import migrations


def drop_a_trigger(apps, schema_editor):
    """Without this trigger `migrate` builds the search index again, now with stems."""
    on_table = " ON memories_message" if schema_editor.connection.vendor == "postgresql" else ""
    schema_editor.execute(f"DROP TRIGGER IF EXISTS memories_message_search_added{on_table}")


class Migration(migrations.Migration):

    dependencies = [
        ("memories", "0006_proposals"),
    ]

    operations = [
        migrations.RunPython(drop_a_trigger, drop_a_trigger),
    ]
