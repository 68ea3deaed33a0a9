"""Whether a link between a person and an account was proven, or when it ends."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memories", "0016_search_keys")]

    operations = [
        migrations.AddField(
            model_name="user",
            name="password_given_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="person",
            name="opens_until",
            field=models.DateTimeField(
                blank=True, editable=False, null=True, verbose_name="opens private channels until"
            ),
        ),
    ]
