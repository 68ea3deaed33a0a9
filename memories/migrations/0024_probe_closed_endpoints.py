"""Endpoints that waited for a person are probed again: the breaker half-opens by itself."""

from django.db import migrations
from django.utils import timezone


def probe_now(apps, schema_editor):
    endpoints = apps.get_model("memories", "Endpoint").objects.filter(needs_person=True)
    endpoints.filter(open_until=None).update(open_until=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("memories", "0023_endpoint_probe")]

    operations = [migrations.RunPython(probe_now, migrations.RunPython.noop)]
