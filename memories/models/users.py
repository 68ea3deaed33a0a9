"""Who signs in."""

from django.contrib.auth.models import AbstractUser


class User(AbstractUser):
    """An account of this installation. What it may read follows from its people and memberships."""
