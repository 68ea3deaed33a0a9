"""Who comes in: by password, or with Slack; and who came, went and was refused, on the record.

The record holds names only, never a password. With Slack comes in whom the team's list of people
names, as the account that an operator, or an earlier login, linked to them; else a new one is made.
"""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import LoginForm as AccountLoginForm
from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest
from django.shortcuts import render
from django.utils.translation import gettext_lazy

from memories.models import AuditEvent, Person, User
from memories.pipeline import linking


@receiver(user_logged_in)
def came(user: User, **kwargs: Any) -> None:
    AuditEvent.objects.record("login", by=user)


@receiver(user_logged_out)
def went(user: User | None, **kwargs: Any) -> None:
    if user is not None:
        AuditEvent.objects.record("logout", by=user)


@receiver(user_login_failed)
def was_refused(credentials: dict[str, Any], **kwargs: Any) -> None:
    """What is no name of an account may be a password typed into the wrong field: left out."""
    given = credentials.get(User.USERNAME_FIELD, "")
    user = User.objects.filter(username=given).first()
    AuditEvent.objects.record("login_failed", by=None, subject=user.get_username() if user else "")


@receiver([post_save, post_delete], sender=EmailAddress)
def address_changed(instance: EmailAddress, **kwargs: Any) -> None:
    user = User.objects.filter(pk=instance.user_id).first()
    if user is not None:
        linking.link_user(user)


class LoginForm(AccountLoginForm):  # type: ignore[misc]
    """The name's field is called by its name, as browsers and people's password keepers know it."""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else str(super().add_prefix(field_name))


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    """Accounts are made by operators, or for people of a known team who come with Slack."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "incorrect_password": gettext_lazy("That is not the password."),
        "rate_limited": gettext_lazy("Too many tries. Wait a few minutes, then try again."),
        "too_many_login_attempts": gettext_lazy(
            "Too many tries. Wait a few minutes, then try again."
        ),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Who signed in sees that; a change of second factors is told, and why one was not taken."""
        if (message_template or "").startswith("mfa/") or kwargs.get("message"):
            super().add_message(request, level, message_template, *args, **kwargs)

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to tell by mail."""


class SlackLogins(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Sign in with Slack."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Find whom Slack vouches for, and whose account that is. Refused is who is not in the
        list of people, and whoever would come into somebody else's account, or into one with rights
        over the installation that never came with Slack before: their password opens it first."""
        people = _people(sociallogin)
        if not people:
            raise _refused(request, "unknown")
        mine = request.user if isinstance(request.user, User) else None
        owners = {person.user for person in people if person.user is not None}
        known = sociallogin.user if sociallogin.is_existing else None
        accounts = owners | ({known} if known else set()) | ({mine} if mine else set())
        if len(accounts) > 1:
            raise _refused(request, "another")
        account = next(iter(accounts), None)
        if account is None:
            _keep_good_address(sociallogin)
            return
        if not account.is_active:
            raise _refused(request, "another")
        if not known:
            if account != mine and (account.is_staff or account.is_superuser):
                raise _refused(request, "password")
            sociallogin.connect(request, account)
        _link(people, account)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return bool(_people(sociallogin))

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        with transaction.atomic():
            user = super().save_user(request, sociallogin, form)
            AuditEvent.objects.record("account_made", by=user, subject=user.get_username())
            _link(_people(sociallogin), user)
        return user


def _people(sociallogin: Any) -> list[Person]:
    """Those whom Slack says they are: the same one, should a team have two workspaces here."""
    told = linking.claims(sociallogin.account.extra_data)
    team, slack_id = told.get(linking.TEAM), told.get(linking.PERSON)
    if not (isinstance(team, str) and team and isinstance(slack_id, str) and slack_id):
        return []
    found = Person.objects.who_may_sign_in().filter(workspace__team_id=team, slack_id=slack_id)
    return list(found.select_related("workspace", "user"))


def _link(people: list[Person], user: User) -> None:
    for person in people:
        person.link(user, linking.SLACK, was=person.user)


def _keep_good_address(sociallogin: Any) -> None:
    """Only what Slack verified, and what is no other account's."""
    sociallogin.email_addresses = [
        address
        for address in sociallogin.email_addresses
        if address.verified is True and not _is_taken(address.email)
    ]
    sociallogin.user.email = next((a.email for a in sociallogin.email_addresses), "")


def _is_taken(email: str) -> bool:
    return (
        EmailAddress.objects.filter(email__iexact=email).exists()
        or User.objects.filter(email__iexact=email).exists()
    )


def _refused(request: HttpRequest, why: str) -> ImmediateHttpResponse:
    AuditEvent.objects.record("login_refused", by=None, why=why)
    page = render(request, "socialaccount/refused.html", {"why": why}, status=403)
    return ImmediateHttpResponse(page)
