"""Sign-in by password, with Slack or with single sign-on, and its audit events.

Audit events hold names, never passwords. A person in the team's list may sign in with Slack: as the
account that an operator or an earlier sign-in linked to them, else as a new account.

Single sign-on is any other OpenID Connect provider. It opens the account that signed in with it before
or links it from the settings, else a new account.
"""

from ipaddress import ip_address
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.account.forms import LoginForm as AccountLoginForm
from allauth.account.models import EmailAddress
from allauth.account.signals import password_changed, password_set
from allauth.core import ratelimit
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.core.internal.ratelimit import get_ip
from allauth.mfa.utils import is_mfa_enabled
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib import messages as toasts
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.devices import find_device, remember_device
from memories.models import ApiKey, AuditEvent, Digest, Person, User
from memories.models.access.users import find_by_username
from memories.models.ingest.people import BY_EMAIL, BY_SLACK
from memories.pipeline.access import linking, single_sign_on
from memories.pipeline.access.single_sign_on import SINGLE_SIGN_ON

SLACK = "slack"  # the provider of a login


@receiver(user_logged_in)
def record_login(user: User, **kwargs: Any) -> None:
    AuditEvent.objects.record("login", by=user)


@receiver(user_logged_out)
def record_logout(user: User | None, **kwargs: Any) -> None:
    if user is not None:
        AuditEvent.objects.record("logout", by=user)


@receiver(user_login_failed)
def record_failed_login(credentials: dict[str, Any], **kwargs: Any) -> None:
    """Record the user name only if it exists. Else it may be a password in the wrong field."""
    username = credentials.get(User.USERNAME_FIELD, "")
    user = find_by_username(username)
    AuditEvent.objects.record("login_failed", by=None, subject=user.get_username() if user else "")


@receiver([post_save, post_delete], sender=EmailAddress)
def update_links(instance: EmailAddress, **kwargs: Any) -> None:
    user = User.objects.filter(pk=instance.user_id).first()
    if user is not None:
        linking.link_user(user)


@receiver([password_changed, password_set])
def record_chosen_password(user: User, **kwargs: Any) -> None:
    """Record that the signed-in person chose their own password.

    Who knew a password that was set for them may hold API keys and feeds, and may have linked single
    sign-on since, so these end.
    """
    if user.password_set_at:
        _end_keys(user)
        logins = SocialAccount.objects.filter(date_joined__gte=user.password_set_at)
        single_sign_on.unlink(user, by=user, logins=logins)
    user.password_set_at = None
    user.save(update_fields=["password_set_at"])
    AuditEvent.objects.record("password_chosen", by=user, subject=user.get_username())


class LoginForm(AccountLoginForm):  # type: ignore[misc]
    """A sign-in form whose field is named "username", for browsers and password managers."""

    def add_prefix(self, field_name: str) -> str:
        return "username" if field_name == "login" else str(super().add_prefix(field_name))


SHOWN_MESSAGES = ("mfa/", "account/messages/password_")
TOO_MANY_ATTEMPTS = gettext_lazy("Too many attempts. Wait a few minutes, then try again.")


class Accounts(DefaultAccountAdapter):  # type: ignore[misc]
    """Accounts are created by operators, or when people of a known team sign in with Slack."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "incorrect_password": gettext_lazy("The password is not correct."),
        "enter_current_password": gettext_lazy("The current password is not correct."),
        "rate_limited": TOO_MANY_ATTEMPTS,
        "too_many_login_attempts": TOO_MANY_ATTEMPTS,
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return ::ffff:192.0.2.1 as the IPv4 address, else all of these would count as one /64."""
        address = ip_address(super().get_client_ip(request))
        return str(getattr(address, "ipv4_mapped", None) or address)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Limit attempts from unknown devices by IP address, then all attempts by their key."""
        if not _device_of(
            request, find_by_username(credentials["username"])
        ) and not ratelimit.consume(request, action="login_address"):
            raise self.validation_error("too_many_login_attempts")
        super().pre_authenticate(request, **credentials)

    def authenticate(self, request: HttpRequest, **credentials: Any) -> Any:
        """Check the password of the account with this name in any spelling, on SQLite too."""
        if user := find_by_username(credentials["username"]):
            credentials["username"] = user.get_username()
        return super().authenticate(request, **credentials)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """Return the key by which wrong passwords count. allauth's own key holds the Host header.

        A password alone opens no account with a second factor. Its wrong passwords count by IP
        address, so that strangers cannot lock out its person.
        """
        user = find_by_username(credentials["username"])
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
        """Redirect a user whose password an operator set to the form for a new one."""
        user = request.user
        if isinstance(user, User) and user.password_set_at and user.has_usable_password():
            return reverse("account_change_password")
        return str(super().get_login_redirect_url(request))

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("preferences-edit")

    def is_safe_url(self, url: str | None) -> bool:
        try:
            return bool(super().is_safe_url(url))
        except ValueError:  # an invalid URL, such as http://[
            return False

    def add_message(
        self,
        request: HttpRequest,
        level: int,
        message_template: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Show messages about passwords, second factors and refusals only."""
        if (message_template or "").startswith(SHOWN_MESSAGES) or kwargs.get("message"):
            super().add_message(request, level, message_template, *args, **kwargs)

    def send_mail(self, *args: Any, **kwargs: Any) -> None:
        """Send nothing: no page needs e-mail."""


def _device_of(request: HttpRequest, user: User | None) -> str:
    return find_device(request, user) if user is not None else ""


class SocialLogins(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Sign in with Slack or with single sign-on."""

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: Any) -> Any:
        """Refuse a login of another issuer before allauth looks up its account and updates it."""
        login = sociallogin.account
        if login.provider == SINGLE_SIGN_ON and single_sign_on.is_of_another_issuer(
            login.uid, login.extra_data
        ):
            raise _refused(request, "issuer", sociallogin)
        return super().populate_user(request, sociallogin, data)

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        if sociallogin.account.provider == SLACK:
            self._find_slack_account(request, sociallogin)
        else:
            self._find_account(request, sociallogin)

    def _find_account(self, request: HttpRequest, sociallogin: Any) -> None:
        """Update or link the account of single sign-on, or refuse.

        A person without a role is refused if claims give roles. So is one who would enter another
        account.
        """
        signed_in = request.user if isinstance(request.user, User) else None
        account = sociallogin.user if sociallogin.is_existing else signed_in
        if account is None:
            if not single_sign_on.has_role(sociallogin.account.extra_data):
                raise _refused(request, "role", sociallogin)
            if settings.MEMORYHUB_OIDC_TRUST_EMAIL:
                _keep_verified_addresses(sociallogin)
            else:
                sociallogin.email_addresses, sociallogin.user.email = [], ""
            return
        logins = SocialAccount.objects.filter(user=account, provider=SINGLE_SIGN_ON)
        is_second = not sociallogin.is_existing and logins.exists()
        if not account.is_active or (signed_in and signed_in != account) or is_second:
            raise _refused(request, "another", sociallogin)
        with transaction.atomic():
            if not sociallogin.is_existing:
                sociallogin.connect(request, account)
                AuditEvent.objects.record(
                    "login_linked", by=account, subject=account.get_username()
                )
            _update_from_claims(account, sociallogin)

    def _find_slack_account(self, request: HttpRequest, sociallogin: Any) -> None:
        """Find the person of the sign-in and their account, and link them, or refuse.

        A person who is not in the team's list is refused, and so is one who would enter another
        account. An account with rights over the installation must first be linked by a user who
        signed in to it by password.

        From then on the link is proven. If an operator named the account's person or set its
        password, others may have left ways into the account, so these end: the password, sessions,
        API keys, feeds, and single sign-on unless it opened this session.
        """
        people = _people_of(sociallogin.account)
        if not people:
            raise _refused(request, "unknown", sociallogin)
        signed_in = request.user if isinstance(request.user, User) else None
        linked_user = sociallogin.user if sociallogin.is_existing else None
        # A proof by Slack replaces an operator's link.
        owners = {
            p.user for p in people if p.user and (linked_user is None or p.link_valid_until is None)
        }
        accounts = (
            owners
            | ({linked_user} if linked_user else set())
            | ({signed_in} if signed_in else set())
        )
        if len(accounts) > 1:
            raise _refused(request, "another", sociallogin)
        # allauth signs in `linked_user`, so a new password must be set on this object.
        account = linked_user or next(iter(accounts), None)
        if account is None:
            _keep_verified_addresses(sociallogin)
            return
        if not account.is_active:
            raise _refused(request, "another", sociallogin)
        if not linked_user:
            if account != signed_in and (account.is_staff or account.is_superuser):
                raise _refused(request, "password", sociallogin)
            if not _may_join(people, account, is_signed_in=account == signed_in):
                raise _refused(request, "another", sociallogin)
        with transaction.atomic():
            unproven = [p for p in people if p.user == account and p.link_valid_until]
            if account.password_set_at or unproven:
                _end_keys(account)
            if account.password_set_at or any(p.linked_by != BY_EMAIL for p in unproven):
                single_sign_on.unlink(account, by=account, logins=_unused_logins(request))
                _end_password(request, account)
            if not linked_user:
                sociallogin.connect(request, account)
            _link(people, account)

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return sociallogin.account.provider != SLACK or bool(_people_of(sociallogin.account))

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        with transaction.atomic():
            user = super().save_user(request, sociallogin, form)
            AuditEvent.objects.record("account_made", by=user, subject=user.get_username())
            if sociallogin.account.provider == SLACK:
                _link(_people_of(sociallogin.account), user)
            else:
                single_sign_on.update_roles(user, sociallogin.account.extra_data)
        return user


def _people_of(account: SocialAccount) -> list[Person]:
    """Return the people of a sign-in. A team with two workspaces here has one in each."""
    claims = linking.claims(account.extra_data)
    team, slack_id = claims.get(linking.TEAM), claims.get(linking.PERSON)
    if not (isinstance(team, str) and team and isinstance(slack_id, str) and slack_id):
        return []
    people = Person.objects.who_may_sign_in().filter(workspace__team_id=team, slack_id=slack_id)
    return list(people.select_related("workspace", "user"))


def _may_join(people: list[Person], account: User, *, is_signed_in: bool) -> bool:
    """Return whether a new sign-in with Slack may open this account.

    No other person may be linked to it by an operator alone. Else a named person could let another
    one in, and each would read as both.
    """
    others = Person.objects.filter(user=account).exclude(pk__in=[person.pk for person in people])
    if not is_signed_in and any(person.link_valid_until for person in people) and others.exists():
        return False
    if others.unproven().exists():
        return False
    logins = SocialAccount.objects.filter(user=account, provider=SLACK)
    return all(any(person.user == account for person in _people_of(login)) for login in logins)


def _end_keys(account: User) -> None:
    """End the API keys and the feed of an account."""
    ApiKey.objects.filter(user=account).revoke(by=account, now=timezone.now())
    Digest.objects.filter(user=account).revoke_feeds()


def _unused_logins(request: HttpRequest) -> "QuerySet[SocialAccount]":
    """Return the logins that did not open this session."""
    records = get_authentication_records(request, request.user)
    used = [record["uid"] for record in records if "uid" in record]
    logins: QuerySet[SocialAccount] = SocialAccount.objects.exclude(uid__in=used)
    return logins


def _end_password(request: HttpRequest, account: User) -> None:
    """Make the password unusable, which ends all other sessions, also without a usable password."""
    was_usable = account.has_usable_password()
    account.set_unusable_password()
    account.password_set_at = None
    account.save(update_fields=["password", "password_set_at"])
    if request.user == account:
        update_session_auth_hash(request, account)
    if not was_usable:
        return
    AuditEvent.objects.record("password_ended", by=account, subject=account.get_username())
    text = _(
        "Your password was removed because somebody else may know it. You can choose a new one."
    )
    toasts.warning(request, text)


def _update_from_claims(account: User, sociallogin: Any) -> None:
    """Update the roles and, if the issuer is trusted with them, the addresses of an account.

    The addresses of an account that signs in with Slack come from Slack.
    """
    single_sign_on.update_roles(account, sociallogin.account.extra_data)
    has_slack = SocialAccount.objects.filter(user=account, provider=SLACK).exists()
    if settings.MEMORYHUB_OIDC_TRUST_EMAIL and not has_slack:
        addresses = {
            address.email.lower()
            for address in sociallogin.email_addresses
            if address.verified is True and not _is_in_use(address.email, except_by=account)
        }
        single_sign_on.update_addresses(account, addresses)


def _link(people: list[Person], user: User) -> None:
    for person in people:
        person.link(user, BY_SLACK, was=person.user)


def _keep_verified_addresses(sociallogin: Any) -> None:
    """Drop addresses that the provider did not verify, or that another account has."""
    sociallogin.email_addresses = [
        address
        for address in sociallogin.email_addresses
        if address.verified is True and not _is_in_use(address.email)
    ]
    sociallogin.user.email = next((a.email for a in sociallogin.email_addresses), "")


def _is_in_use(email: str, except_by: User | None = None) -> bool:
    addresses = EmailAddress.objects.filter(email__iexact=email).exclude(user=except_by)
    users = User.objects.filter(email__iexact=email)
    if except_by is not None:
        users = users.exclude(pk=except_by.pk)
    return addresses.exists() or users.exists()


def _refused(request: HttpRequest, why: str, sociallogin: Any) -> ImmediateHttpResponse:
    name = sociallogin.provider.name
    AuditEvent.objects.record("login_refused", by=None, why=why, provider=name)
    page = render(request, "socialaccount/refused.html", {"why": why, "name": name}, status=403)
    return ImmediateHttpResponse(page)
