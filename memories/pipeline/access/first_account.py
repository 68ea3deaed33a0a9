"""The first account of an installation, which runs it."""

from django.conf import settings
from django.db import transaction
from django.utils.crypto import salted_hmac

from memories.models import AuditEvent, Person, User
from memories.pipeline.access import operators


def is_new_installation() -> bool:
    """Return whether nobody can sign in, by password or with Slack.

    Accounts that an import created are inactive.
    """
    if User.objects.filter(is_active=True).exists():
        return False
    with_slack = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
    return not (with_slack and Person.objects.who_may_sign_in().exists())


def setup_token() -> str:
    """Return the token of the link that `manage.py serve` prints while there is no account.

    It depends on SECRET_KEY, so that all processes accept it. After the first account it opens
    nothing.
    """
    token = salted_hmac("memories.setup", "first account", algorithm="sha256").hexdigest()
    return token[:32]


@transaction.atomic
def create_operator(user: User) -> bool:
    """Save the first account as an operator. Return False if another one was first."""
    if not is_new_installation():
        return False
    user.save()
    AuditEvent.objects.record("account_first", by=user, subject=user.get_username())
    return operators.appoint(user, by=None)
