"""An index for the lists and counts of jobs by state, in place of the one of failed jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memories", "0021_search_audiences")]

    operations = [
        migrations.RemoveIndex(model_name="generation", name="generation_dead"),
        migrations.AddIndex(
            model_name="generation",
            index=models.Index(fields=["state", "-id"], name="generation_state"),
        ),
    ]
