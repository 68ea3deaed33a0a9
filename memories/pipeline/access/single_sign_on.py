"""Single sign-on: roles by the claims of the issuer, its verified addresses, and its logins."""

import logging
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.db import transaction

from memories.models import AuditEvent, RoleRefused, User, Workspace
from memories.pipeline.access import linking, operators
from memories.rules.access.claims import OPERATOR, roles_from_claims

logger = logging.getLogger(__name__)

SINGLE_SIGN_ON = "sso"  # the provider of a login


def has_role(extra_data: dict[str, Any]) -> bool:
    """Return whether a person with these claims may have an account."""
    rules = settings.MEMORYHUB_OIDC_ROLES
    return not rules or any(roles_from_claims(linking.claims(extra_data), rules))


def is_of_another_issuer(uid: str, extra_data: dict[str, Any]) -> bool:
    """Return whether the login with this id was stored for another issuer.

    Two issuers may use the same ids, and allauth looks up a login by its id alone.
    """
    # allauth's models can only be imported after all apps are loaded.
    from allauth.socialaccount.models import SocialAccount

    login = SocialAccount.objects.filter(provider=SINGLE_SIGN_ON, uid=uid).first()
    same_provider = ("", linking.issuer(extra_data), *settings.MEMORYHUB_OIDC_FORMER_ISSUERS)
    return login is not None and linking.issuer(login.extra_data) not in same_provider


def unlink(user: User, *, by: User | None, logins: Any = None) -> bool:
    """Delete the logins of an account, or those among ``logins``; return whether there were any."""
    from allauth.socialaccount.models import SocialAccount  # as above

    rows = SocialAccount.objects.all() if logins is None else logins
    is_deleted = bool(rows.filter(user=user, provider=SINGLE_SIGN_ON).delete()[0])
    if is_deleted:
        subject = user.get_username()
        AuditEvent.objects.record("account", by=by, subject=subject, single_sign_on=False)
    return is_deleted


@transaction.atomic
def update_roles(user: User, extra_data: dict[str, Any]) -> None:
    """Give the account the roles of its claims, in every workspace. Without rules change nothing.

    The last admin and the last operator keep their role. Only rules that name operators appoint and
    dismiss any.
    """
    rules = settings.MEMORYHUB_OIDC_ROLES
    if not rules:
        return
    role, is_operator = roles_from_claims(linking.claims(extra_data), rules)
    for workspace in Workspace.objects.all():
        try:
            workspace.give_role(user, role, by=None, source="single sign-on")
        except RoleRefused as refused:
            logger.warning("a role stays after single sign-on: %s", refused.why)
    if is_operator:
        operators.appoint(user, by=None)
    elif any(rule.role == OPERATOR for rule in rules):
        try:
            operators.dismiss(user, by=None)
        except RoleRefused as refused:
            logger.warning("an operator stays after single sign-on: %s", refused.why)


@transaction.atomic
def update_addresses(user: User, addresses: Collection[str]) -> None:
    """Replace the verified addresses of the account, which link it to people in Slack.

    If digests went to one that is no longer verified, they go to a new one.
    """
    # allauth's models can only be imported after all apps are loaded.
    from allauth.account.models import EmailAddress

    rows = EmailAddress.objects.filter(user=user)
    for row in rows.filter(verified=True).exclude(email__in=addresses):
        if row.email.lower() == user.email.lower():
            user.email = min(addresses, default="")
            user.save(update_fields=["email"])
        row.delete()
    for email in addresses:
        rows.update_or_create(user=user, email=email, defaults={"verified": True})
