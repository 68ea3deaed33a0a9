"""Which accounts are which people in Slack, by e-mail addresses that were verified.

Nobody is linked by an address that somebody merely typed, nor is anybody from another team. Who an
operator linked, or who signed in with Slack, stays; a link by address ends with the address.

What links a person and what that opens: `Person.link`.
"""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Lower

from memories.models import Person, User, Workspace
from memories.models.ingest.people import BY_EMAIL

TEAM, PERSON = "https://slack.com/team_id", "https://slack.com/user_id"


def link_user(user: User) -> None:
    """The account's verified addresses have changed, perhaps."""
    accounts = _verified(user)
    _unlink(Person.objects.filter(user=user, linked_by=BY_EMAIL), accounts)
    _link(Person.objects.all(), accounts)


def link_people(workspace: Workspace) -> None:
    """The people's addresses have changed, perhaps."""
    accounts = _verified()
    _unlink(Person.objects.filter(workspace=workspace, linked_by=BY_EMAIL), accounts)
    _link(workspace.people.all(), accounts)


def claims(extra_data: dict[str, Any]) -> dict[str, Any]:
    """What Slack vouched for at a login with it, out of what is kept of that."""
    return {**(extra_data.get("id_token") or {}), **(extra_data.get("userinfo") or {})}


@transaction.atomic
def forget(person: Person) -> None:
    """What a login with Slack told of them, and their addresses, leave their accounts. An account
    itself, and its user name, are an operator's to remove. Call it while they are still linked."""
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
    linked_users = User.objects.filter(pk__in=users)
    for user in linked_users:
        if user.email.lower() in addresses:
            User.objects.filter(pk=user.pk).update(email="")
    for address in EmailAddress.objects.filter(user__in=linked_users):
        if address.email.lower() in addresses:
            address.delete()


def _verified(user: User | None = None) -> dict[str, User]:
    """Accounts by their verified addresses, in small letters; what two accounts have is nobody's."""
    from allauth.account.models import EmailAddress

    rows = EmailAddress.objects.filter(verified=True, user__is_active=True)
    owners: dict[str, set[int]] = {}
    if user is not None:
        addresses = (
            rows.filter(user=user).annotate(small=Lower("email")).values_list("small", flat=True)
        )
        rows = rows.annotate(small=Lower("email")).filter(small__in=list(addresses))
    for email, key in rows.values_list("email", "user_id"):
        owners.setdefault(email.lower(), set()).add(key)
    keys = {key for keys in owners.values() for key in keys}
    users = User.objects.in_bulk(list(keys))
    return {email: users[next(iter(keys))] for email, keys in owners.items() if len(keys) == 1}


def _link(people: "QuerySet[Person]", accounts: dict[str, User]) -> None:
    unlinked = Person.objects.who_may_sign_in().filter(pk__in=people, user=None).exclude(email="")
    matches = unlinked.annotate(small=Lower("email")).filter(small__in=list(accounts))
    for person in matches.select_related("workspace"):
        person.link(accounts[person.email.lower()], BY_EMAIL)


def _unlink(people: "QuerySet[Person]", accounts: dict[str, User]) -> None:
    """Those whose address is no longer a verified one of their account, or who may not sign in."""
    may = set(Person.objects.who_may_sign_in().filter(pk__in=people).values_list("pk", flat=True))
    for person in people.select_related("user", "workspace"):
        if person.pk not in may or accounts.get(person.email.lower()) != person.user:
            person.link(None, BY_EMAIL, was=person.user)
