"""A link is proven, or it ends."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("memories", "0018_end_unproven_links")]

    operations = [
        migrations.AddConstraint(
            model_name="person",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("user__isnull", True),
                    ("linked_by__in", ("email", "slack", "demo")),
                    ("opens_until__isnull", False),
                    _connector="OR",
                ),
                name="person_link_proven_or_ends",
            ),
        ),
    ]
