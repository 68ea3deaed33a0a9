"""The roles of a workspace's accounts: a page for admins."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages as toasts
from django.contrib.auth.decorators import login_required
from django.core.paginator import Page, Paginator
from django.db.models import Prefetch, Q, QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memories.models import Member, Person, Reader, RoleRefused, User
from memories.models.access.users import find_by_username
from memories.pipeline.access import operators
from memories.rules.access.roles import LAST_ADMIN, LAST_OPERATOR, SELF, effective_role
from memories.views.access.access import (
    UserRequest,
    WorkspaceAccess,
    must_administer,
    number_or_none,
    open_workspace,
)
from memories.views.pages import back_to, render_page

PAGE_SIZE = 50
REFUSAL_TEXTS: dict[str, Promise] = {
    SELF: gettext_lazy("You cannot raise your own role. Another admin can do it."),
    LAST_ADMIN: gettext_lazy(
        "This is the last admin of the workspace. Make another account an admin first."
    ),
    LAST_OPERATOR: gettext_lazy(
        "This is the last operator. Give the operator role to another account first."
    ),
}


@dataclass(frozen=True)
class Row:
    """An account, its Slack people, its given role, and its effective role."""

    user: User
    people: list[Person]
    given: str
    role: str

    @property
    def role_name(self) -> str:
        return str(Member.Role(self.role).label) if self.role else _("no access")


@login_required
def index(request: UserRequest, slug: str) -> HttpResponse:
    """List the accounts, or change one (``user`` is a listed one, ``name`` any account).

    ``do`` is "role", or for operators "appoint" or "dismiss". Users who would lose access to this
    page have to confirm that (``sure``); until then the status is 422.
    """
    access = open_workspace(request, slug)
    must_administer(access)
    if request.method != "POST":
        return _page(request, access)
    do, role = _action_and_role(request, access)
    user = _chosen_user(request, access)
    if user is None:
        return _page(request, access, wrong=_("No account has this name."), status=422)
    lowers = do == "role" and role != Member.Role.ADMIN and not user.is_operator
    is_lost = user == request.user and (do == "dismiss" or lowers)
    if is_lost and "sure" not in request.POST:
        return _page(request, access, gives_up=do, status=422)
    wrong = _change(request, access, user, do, role)
    if wrong:
        return _page(request, access, wrong=wrong, status=422)
    request.user.refresh_from_db()  # it may be the changed account
    if access.workspace.role_of(Reader.of(request.user)) != Member.Role.ADMIN:
        return redirect("workspaces-index")
    return redirect(back_to(request, reverse("people-index", args=[slug])))


def _action_and_role(request: UserRequest, access: WorkspaceAccess) -> tuple[str, str]:
    """Return the requested action and role. Raises Http404 if the page does not offer them."""
    do, role = request.POST.get("do", "role"), request.POST.get("role", "")
    if do not in ("role", "appoint", "dismiss") or role not in ("", *Member.Role.values):
        raise Http404
    if do != "role" and not access.reader.is_operator:
        raise Http404
    return do, role


def _change(request: UserRequest, access: WorkspaceAccess, user: User, do: str, role: str) -> str:
    """Change the account. Returns the reason for a refusal, or ""."""
    if do == "appoint" and not user.is_active:
        raise Http404
    name = user.get_username()
    try:
        if do == "role":
            changed = access.workspace.give_role(user, role, by=request.user)
        elif do == "appoint":
            changed = operators.appoint(user, by=request.user)
        else:
            changed = operators.dismiss(user, by=request.user)
    except RoleRefused as refused:
        return str(REFUSAL_TEXTS[refused.why])
    news = _("Saved: %(name)s.") % {"name": name} if changed else _("Nothing changed.")
    toasts.success(request, news)
    return ""


def _chosen_user(request: UserRequest, access: WorkspaceAccess) -> User | None:
    """Return a listed account by key (or raise Http404), or any account by its name."""
    if "name" in request.POST:
        return find_by_username(request.POST["name"].strip())
    key = number_or_none(request.POST.get("user", ""))
    user = _accounts(access).filter(pk=key).first() if key is not None else None
    if user is None:
        raise Http404
    return user


def _page(
    request: UserRequest,
    access: WorkspaceAccess,
    *,
    wrong: str = "",
    gives_up: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the page. ``gives_up`` is an action that the user has to confirm."""
    parameters = request.POST if request.method == "POST" else request.GET
    query = parameters.get("q", "").strip()
    accounts = _accounts(access)
    if query:
        people = access.workspace.people.filter(name__icontains=query).values("user")
        accounts = accounts.filter(Q(username__icontains=query) | Q(pk__in=people))
    page: Page[User] = Paginator(_with_roles(accounts, access), PAGE_SIZE).get_page(
        parameters.get("page")
    )
    context: dict[str, Any] = {
        "access": access,
        "page": page,
        "rows": [_row(user) for user in page],
        "roles": Member.Role.choices,
        "query": query,
        "wrong": wrong,
        "gives_up": gives_up,
        "name": parameters.get("name", "") if wrong else "",
        "role": parameters.get("role", Member.Role.MEMBER),
    }
    return render_page(request, "access/people/index.html", context, status=status)


def _accounts(access: WorkspaceAccess) -> QuerySet[User]:
    """Return the accounts with a role or person here, and for operators all operators."""
    members = access.workspace.members.values("user")
    people = access.workspace.people.exclude(user=None).values("user")
    belongs_here = Q(pk__in=members) | Q(pk__in=people)
    if access.reader.is_operator:
        belongs_here |= Q(is_superuser=True)
    return User.objects.filter(belongs_here).order_by("username")


def _with_roles(users: QuerySet[User], access: WorkspaceAccess) -> QuerySet[User]:
    here = access.workspace
    return users.prefetch_related(
        Prefetch("memberships", Member.objects.filter(workspace=here), to_attr="roles_here"),
        Prefetch("people", Person.objects.filter(workspace=here), to_attr="people_here"),
    )


def _row(user: Any) -> Row:
    """Return the row from prefetched roles, as `Workspace.role_of` without operators' rights."""
    given = next((member.role for member in user.roles_here), "")
    slack_roles = [person.role for person in user.people_here]
    return Row(user, user.people_here, given, effective_role(given, slack_roles))
