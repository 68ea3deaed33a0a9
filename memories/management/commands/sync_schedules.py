"""Write the schedules into django-q2's table. A second run changes nothing."""

from typing import Any

from django.core.management.base import BaseCommand

from memories.management import arguments
from memories.tasks import TIMETABLE, sync_schedules


class Command(BaseCommand):
    help = (
        "Write the schedules of memories/tasks.py into the scheduler. A second run changes nothing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        with arguments.needs_database():
            sync_schedules()
        self.stdout.write(f"Scheduled: {', '.join(TIMETABLE)}.")
