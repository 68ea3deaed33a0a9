"""Who comes in: by password, or with Slack; and who came, went and was refused, on the record.

The record holds names only, never a password. With Slack comes in whom the team's list of people
names, as the account that an operator, or an earlier login, linked to them; else a new one is made.
"""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.forms import LoginForm as AccountLoginForm
from allauth.account.models import EmailAddress
from allauth.account.signals import password_changed, password_set
from allauth.account.utils import filter_users_by_username
from allauth.core import ratelimit
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.core.internal.ratelimit import get_ip
from allauth.mfa.utils import is_mfa_enabled
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount
from django.contrib import messages as toasts
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.devices import find_device, remember_device
from memories.models import ApiKey, AuditEvent, Person, User
from memories.models.ingest.people import BY_EMAIL, BY_SLACK
from memories.pipeline.access import linking


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


@receiver([password_changed, password_set])
def password_was_chosen(user: User, **kwargs: Any) -> None:
    """By its own person, who is signed in."""
    user.password_given_at = None
    user.save(update_fields=["password_given_at"])
    AuditEvent.objects.record("password_chosen", by=user, subject=user.get_username())


class LoginForm(AccountLoginForm):  # type: ignore[misc]
    """The name's field is called by its name, as browsers and people's password keepers know it."""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else str(super().add_prefix(field_name))


SHOWN_MESSAGES = ("mfa/", "account/messages/password_")


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    """Accounts are made by operators, or for people of a known team who come with Slack."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "incorrect_password": gettext_lazy("That is not the password."),
        "enter_current_password": gettext_lazy("That is not your current password."),
        "rate_limited": gettext_lazy("Too many tries. Wait a few minutes, then try again."),
        "too_many_login_attempts": gettext_lazy(
            "Too many tries. Wait a few minutes, then try again."
        ),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count an attempt from an unknown device by its address, then any as the key says."""
        if not _device_of(request, _account_of(credentials)) and not ratelimit.consume(
            request, action="login_address"
        ):
            raise self.validation_error("too_many_login_attempts")
        super().pre_authenticate(request, **credentials)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return what wrong passwords are counted by. allauth's own key holds the Host header.

        A password alone opens no account with a second factor. Its wrong passwords count by address,
        so those of strangers do not keep its person from being asked for the factor.
        """
        user = _account_of(credentials)
        if user is None:
            return f"name:{credentials['username'].lower()}"
        if device := _device_of(request, user):
            return f"device:{device}"
        if is_mfa_enabled(user):
            return f"account:{user.pk}:{get_ip(request)}"
        return f"account:{user.pk}"

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **kwargs)
        remember_device(response, user)
        return response

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Somebody whose password an operator set chooses their own first."""
        user = request.user
        if isinstance(user, User) and user.password_given_at and user.has_usable_password():
            return reverse("account_change_password")
        return str(super().get_login_redirect_url(request))

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("preferences-edit")

    def is_safe_url(self, url: str | None) -> bool:
        try:
            return bool(super().is_safe_url(url))
        except ValueError:  # no address at all, such as http://[
            return False

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Who signed in sees that; a change of second factors or of the password is told, and why one
        was not taken."""
        if (message_template or "").startswith(SHOWN_MESSAGES) or kwargs.get("message"):
            super().add_message(request, level, message_template, *args, **kwargs)

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        """There is nothing to tell by mail."""


def _account_of(credentials: dict[str, Any]) -> User | None:
    """Return the account of a name as allauth looks it up; every spelling of it counts together."""
    account: User | None = filter_users_by_username(credentials["username"]).order_by("pk").first()
    return account


def _device_of(request: HttpRequest, user: User | None) -> str:
    return find_device(request, user) if user is not None else ""


class SlackLogins(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Sign in with Slack."""

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Find whom Slack vouches for, and whose account that is. Refused is who is not in the
        list of people, and whoever would come into somebody else's account, or into one with rights
        over the installation that never came with Slack before: their password opens it first.

        From here on the link is proven. Where an operator named the account's person or set its
        password, somebody else may know that password and may hold keys: both end."""
        people = _people(sociallogin)
        if not people:
            raise _refused(request, "unknown")
        signed_in = request.user if isinstance(request.user, User) else None
        linked_user = sociallogin.user if sociallogin.is_existing else None
        # Slack's word for who somebody is ends an operator's word for it.
        owners = {
            p.user for p in people if p.user and (linked_user is None or p.opens_until is None)
        }
        accounts = (
            owners
            | ({linked_user} if linked_user else set())
            | ({signed_in} if signed_in else set())
        )
        if len(accounts) > 1:
            raise _refused(request, "another")
        account = next(iter(accounts), None)
        if account is None:
            _keep_good_address(sociallogin)
            return
        if not account.is_active:
            raise _refused(request, "another")
        if not linked_user:
            if account != signed_in and (account.is_staff or account.is_superuser):
                raise _refused(request, "password")
            if not _may_join(people, account, is_signed_in=account == signed_in):
                raise _refused(request, "another")
        with transaction.atomic():
            unproven = [p for p in people if p.user == account and p.opens_until]
            if account.password_given_at or unproven:
                ApiKey.objects.filter(user=account).revoke(by=account, now=timezone.now())
            if account.password_given_at or any(p.linked_by != BY_EMAIL for p in unproven):
                _end_password(request, account)
            if not linked_user:
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
    return _people_of(sociallogin.account.extra_data)


def _people_of(extra_data: dict[str, Any]) -> list[Person]:
    claims = linking.claims(extra_data)
    team, slack_id = claims.get(linking.TEAM), claims.get(linking.PERSON)
    if not (isinstance(team, str) and team and isinstance(slack_id, str) and slack_id):
        return []
    people = Person.objects.who_may_sign_in().filter(workspace__team_id=team, slack_id=slack_id)
    return list(people.select_related("workspace", "user"))


def _may_join(people: list[Person], account: User, *, is_signed_in: bool) -> bool:
    """Whether a login with Slack that is new here may open this account: nobody else reads by it whom
    an operator alone named. Else one who was named could let another in, and both would read as both.
    """
    others = Person.objects.filter(user=account).exclude(pk__in=[person.pk for person in people])
    if not is_signed_in and any(person.opens_until for person in people) and others.exists():
        return False
    if others.unproven().exists():
        return False
    logins = SocialAccount.objects.filter(user=account)
    return all(
        any(person.user == account for person in _people_of(login.extra_data)) for login in logins
    )


def _end_password(request: HttpRequest, account: User) -> None:
    """All other sessions end with it."""
    if not account.has_usable_password():
        return
    account.set_unusable_password()
    account.password_given_at = None
    account.save(update_fields=["password", "password_given_at"])
    AuditEvent.objects.record("password_ended", by=account, subject=account.get_username())
    if request.user == account:
        update_session_auth_hash(request, account)
    text = _("Somebody else may know your password, so it has ended. You can choose a new one.")
    toasts.warning(request, text)


def _link(people: list[Person], user: User) -> None:
    for person in people:
        person.link(user, BY_SLACK, was=person.user)


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
