"""Link Slack people to accounts by verified e-mail addresses.

An address that was only typed, or a person of another team, links nobody. A link by an operator or
by a sign-in with Slack stays. A link by address ends with the address, but not while Slack restricts
the person: the link is what restricts the account. See also `Person.link`.
"""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Lower
from django.utils import timezone

from memories.models import AuditEvent, Digest, Person, User, Workspace
from memories.models.ingest.people import BY_EMAIL

TEAM, PERSON = "https://slack.com/team_id", "https://slack.com/user_id"


def link_user(user: User) -> None:
    """Update the links of an account after its verified addresses may have changed."""
    accounts = _accounts_by_address(user)
    _unlink(Person.objects.filter(user=user, linked_by=BY_EMAIL), accounts)
    _link(Person.objects.all(), accounts)


def link_people(workspace: Workspace) -> None:
    """Update the links of a workspace's people after their addresses may have changed."""
    accounts = _accounts_by_address()
    _unlink(Person.objects.filter(workspace=workspace, linked_by=BY_EMAIL), accounts)
    _link(workspace.people.all(), accounts)


def claims(extra_data: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of a sign-in from a `SocialAccount.extra_data`."""
    return {**(extra_data.get("id_token") or {}), **(extra_data.get("userinfo") or {})}


def issuer(extra_data: dict[str, Any]) -> str:
    """Return the issuer of a sign-in without a slash at its end, "" if it is not known."""
    return str((extra_data.get("id_token") or {}).get("iss", "")).rstrip("/")


@transaction.atomic
def forget(person: Person, now: datetime, *, by: User | None) -> None:
    """Remove sign-ins with Slack, addresses and claims of a person from their accounts.

    Their roles and API keys in the workspace end, and their feeds. Without the link, Slack no longer
    restricts the accounts. Call it while the person is still linked. The account itself and its user
    name stay, for an operator to remove.
    """
    # allauth's models can only be imported after all apps are loaded.
    from allauth.account.models import EmailAddress
    from allauth.socialaccount.models import SocialAccount

    users = {person.user_id} if person.user_id is not None else set()
    addresses = {person.email.lower()}
    for login in SocialAccount.objects.all():
        login_claims = claims(login.extra_data)
        team = person.workspace.team_id
        if (login_claims.get(TEAM, team), login_claims.get(PERSON)) == (team, person.slack_id):
            users.add(login.user_id)
            addresses.add(str(login_claims.get("email", "")).lower())
            login.delete()
            User.objects.filter(pk=login.user_id).update(first_name="", last_name="")
    for login in SocialAccount.objects.filter(user__in=users):  # of single sign-on
        login.extra_data = {"id_token": {"iss": issuer(login.extra_data)}}
        login.save(update_fields=["extra_data"])
    linked_users = User.objects.filter(pk__in=users)
    for user in linked_users:
        if user.email.lower() in addresses:
            User.objects.filter(pk=user.pk).update(email="")
    for address in EmailAddress.objects.filter(user__in=linked_users):
        if address.email.lower() in addresses:
            address.delete()
    _end_access(linked_users, person.workspace, now, by=by)


def _end_access(
    users: QuerySet[User], workspace: Workspace, now: datetime, *, by: User | None
) -> None:
    """End the roles and keys of accounts in a workspace, also those of the last admin, and feeds."""
    for member in workspace.members.filter(user__in=users).select_related("user"):
        member.delete()
        AuditEvent.objects.record(
            "role",
            by=by,
            workspace=workspace,
            subject=member.user.get_username(),
            before=member.role,
            after=None,
            source="forget",
        )
    workspace.api_keys.filter(user__in=users).revoke(by=by, now=now)
    Digest.objects.filter(user__in=users).revoke_feeds()  # a feed covers all workspaces


def _accounts_by_address(user: User | None = None) -> dict[str, User]:
    """Return active accounts by verified address in lower case.

    An address of several accounts is left out.
    """
    from allauth.account.models import EmailAddress  # as in `forget`

    rows = EmailAddress.objects.filter(verified=True, user__is_active=True)
    rows = rows.annotate(lower=Lower("email"))
    if user is not None:
        rows = rows.filter(lower__in=list(rows.filter(user=user).values_list("lower", flat=True)))
    owners: dict[str, set[int]] = {}
    for email, key in rows.values_list("email", "user_id"):
        owners.setdefault(email.lower(), set()).add(key)
    users = User.objects.in_bulk({key for keys in owners.values() for key in keys})
    return {email: users[next(iter(keys))] for email, keys in owners.items() if len(keys) == 1}


def _link(people: "QuerySet[Person]", accounts: dict[str, User]) -> None:
    unlinked = Person.objects.who_may_sign_in().filter(pk__in=people, user=None).exclude(email="")
    matches = unlinked.annotate(lower=Lower("email")).filter(lower__in=list(accounts))
    for person in matches.select_related("workspace"):
        person.link(accounts[person.email.lower()], BY_EMAIL)


def _unlink(people: "QuerySet[Person]", accounts: dict[str, User]) -> None:
    """Unlink full members whose address is no longer verified for the account, and bots.

    Guests and deactivated, external or unlisted people stay linked. Else a role that somebody gave
    to the account would count again. Without the address such a link opens no private channel.
    """
    for person in people.select_related("user", "workspace"):
        has_address = accounts.get(person.email.lower()) == person.user
        if person.is_bot or (person.role == "member" and not has_address):
            person.link(None, BY_EMAIL, was=person.user)
        elif not has_address and not person.is_deleted:  # a deactivated person reads nothing
            open_links = Person.objects.filter(pk=person.pk, link_valid_until=None)
            open_links.update(link_valid_until=timezone.now())
