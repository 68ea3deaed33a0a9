"""End the links that nobody proved.

An operator's earlier link opens no private channel until its person signs in with Slack. An address of
an account that never came with Slack is not verified any more. The people of the demo are made up.
"""

from django.db import migrations
from django.utils import timezone


def end_unproven_links(apps, schema_editor):
    addresses = apps.get_model("account", "EmailAddress").objects
    people = apps.get_model("memories", "Person").objects.filter(user__isnull=False)
    came_with_slack = apps.get_model("socialaccount", "SocialAccount").objects.values("user")
    addresses.exclude(user__in=came_with_slack).update(verified=False)
    people.filter(linked_by="email").exclude(user__in=came_with_slack).update(linked_by="")
    by_operator = people.filter(linked_by="")
    demo = {"workspace__slug": "demo", "workspace__connected_at": None}
    by_operator.filter(**demo).update(linked_by="demo")
    by_operator.update(opens_until=timezone.now())
    people.filter(linked_by="email", workspace__connected_at=None).update(
        opens_until=timezone.now()
    )


class Migration(migrations.Migration):
    dependencies = [
        ("memories", "0017_link_proof"),
        ("account", "0009_emailaddress_unique_primary_email"),
        ("socialaccount", "0006_alter_socialaccount_extra_data"),
    ]

    operations = [migrations.RunPython(end_unproven_links, migrations.RunPython.noop)]
