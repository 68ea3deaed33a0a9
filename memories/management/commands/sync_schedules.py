"""Write the timetable into django-q2's table; running it again changes nothing."""

from typing import Any

from django.core.management.base import BaseCommand

from memories.tasks import TIMETABLE, sync_schedules


class Command(BaseCommand):
    help = "Write the timetable of memories/tasks.py into the scheduler. Safe to repeat."

    def handle(self, *args: Any, **options: Any) -> None:
        sync_schedules()
        self.stdout.write(f"Scheduled: {', '.join(TIMETABLE)}.")
