"""Every form and action of the admin, and every form of the pages, filled in as an attacker would.

What a form holds is read from its page, as an operator sees it who is in every channel. Each field of
the model is sent beside that, whether the form shows it or not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

from django.contrib import admin
from django.db import models, transaction
from django.test import Client
from django.urls import URLPattern, reverse

from memories.models import Channel, Note, Person, User, Workspace
from tests.leaks.attacked import FOREIGN, NEVER, PRIVATE, PUBLIC, ROOT, AttackedTeam
from tests.leaks.probes import MATRIX

ATTACKER = "the attacker's account"
KNOWN_PASSWORD = "the attacker knows 7"
WORDS = "words of the attacker"
ACTION = "_selected_action"
NO_PLACE = 3  # rows of a model that belongs to no channel
STRAY = "stray@example.com"  # of a person in the private channel, whom no account is linked to
CHOSEN: dict[str, Any] = {  # by the field's name
    "note_types": "",
    "address": STRAY,
    "args": "('canary',)",
    "at": "2026-01-05 09:00:00",
    "channels": "",  # of a key: all channels
    "date": "2026-01-05",
    "domain": "leaks",
    "email": STRAY,
    "func": FOREIGN,
    "hook": FOREIGN,
    "is_external": "",
    "is_guest": "",
    "key": "memoryhub",
    "kind": "public",
    "linked_by": "slack",
    "name": "the attacker",
    "next_run": "2020-01-01 00:00:00",
    "oldpassword": KNOWN_PASSWORD,
    "link_valid_until": "2100-01-01 00:00:00",
    "new_token": "xoxb-1111111111-2222222222-attacker",
    "period": "month",
    "repeats": "-1",
    "review_on": "2026-01-05",
    "role": "admin",
    "schedule_type": "O",
    "slug": "leaks-2",
    "success": "",
    "team_id": "T1",
    "time_zone": "UTC",
    "until": "2100-01-01 00:00:00",
    "usable_password": "true",
    "username": "the-attacker",
    "verified": "on",
}


@dataclass(frozen=True)
class Post:
    """What is sent where. ``form`` names it in reports; ``is_whole``: it is what a browser sends."""

    form: str
    path: str
    data: dict[str, Any] = field(hash=False)
    is_whole: bool = False

    def sent_by(self, user: User | None) -> dict[str, Any]:
        key = user.pk if user else 1
        return {name: key if value == ATTACKER else value for name, value in self.data.items()}


class Fields(HTMLParser):
    """The forms of a page: where each goes, its fields with what they hold, and its buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, list[tuple[str, str]]], list[tuple[str, str]]]] = []
        self._select, self._area = "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            is_post = given.get("method", "").lower() == "post" or "hx-post" in given
            action = given.get("hx-post") or given.get("action", "") if is_post else "GET"
            self.forms.append((action, {}, []))
        elif self.forms:
            self._read(tag, given)

    def _read(self, tag: str, given: dict[str, str]) -> None:
        _, fields, buttons = self.forms[-1]
        name, kind = given.get("name", ""), given.get("type", "text")
        value = given.get("value", "on" if kind in ("checkbox", "radio") else "")
        if tag == "option" and self._select:
            kind = "selected" if "selected" in given else "option"
            fields[self._select].append((kind, given.get("value", "")))
        if not name or name == "csrfmiddlewaretoken" or "disabled" in given:
            return
        if tag == "button" or kind == "submit":
            buttons.append((name, value))
        elif tag in ("input", "textarea", "select"):
            fields.setdefault(name, [])
            self._select = name if tag == "select" else ""
            if tag != "select":
                fields[name].append((tag if tag == "textarea" else kind, value))


class Learner:
    """Makes the posts of a world, for any attacker: `Post.sent_by` names their account in them.
    If not ``is_full``, each form and action is there once: for a row of the private channel, with every
    column beside its fields, and confirmed where a page asks first."""

    def __init__(self, world: AttackedTeam, *, is_full: bool) -> None:
        self.world, self.is_full = world, is_full
        self.client = Client(SERVER_NAME="localhost")
        self.client.force_login(world.users[ROOT])

    # -- values

    def related(self, model: Any) -> Any:
        """The row of a related model that serves an attacker."""
        if model is User:
            return ATTACKER
        if model is Channel:
            return self.world.channels[PRIVATE].pk
        if model is Workspace:
            return self.world.team.pk
        if model is Person:
            return self.world.people["victim"].pk
        return model._base_manager.order_by("pk").values_list("pk", flat=True).first()

    def value(self, name: str, of_field: Any = None) -> Any:
        """A plausible value for a field that no page shows, or None where its form's own will do."""
        if "password" in name and name != "usable_password":
            return KNOWN_PASSWORD
        if of_field is Note._meta.get_field("kind"):
            return "pattern"
        if name in CHOSEN:
            return CHOSEN[name]
        if of_field is not None and of_field.is_relation and of_field.related_model:
            if of_field.many_to_many:
                return list(of_field.related_model._base_manager.values_list("pk", flat=True)[:3])
            return self.related(of_field.related_model)
        return None

    def fallback(self, model: Any) -> dict[str, Any]:
        """Every column of a model, and a row of each model that refers to it, as inlines are sent."""
        data: dict[str, Any] = {}
        for model_field in model._meta.get_fields():
            if model_field.auto_created and not model_field.concrete:
                if model_field.one_to_many:
                    self._inline(data, model_field)
            else:
                data.update(self._column(model_field))
        return data

    def _column(self, model_field: Any) -> dict[str, Any]:
        value = self.value(model_field.name, model_field)
        if value is None:
            kinds = ((models.BooleanField, "on"), (models.JSONField, "{}"), (models.DateField, ""))
            numbers = ((models.IntegerField, "1"), (models.DecimalField, "1"))
            value = next(
                (v for kind, v in (*kinds, *numbers) if isinstance(model_field, kind)), WORDS
            )
        date, _, clock = str(value).partition(" ")
        return {
            model_field.name: value,
            f"{model_field.name}_0": date,
            f"{model_field.name}_1": clock,
        }

    def _inline(self, data: dict[str, Any], relation: Any) -> None:
        prefix = relation.get_accessor_name()
        data |= {f"{prefix}-TOTAL_FORMS": "1", f"{prefix}-INITIAL_FORMS": "0"}
        for column in relation.related_model._meta.concrete_fields:
            if not column.primary_key and column is not relation.field:
                for name, value in self._column(column).items():
                    data[f"{prefix}-0-{name}"] = value

    def filled(self, fields: dict[str, list[tuple[str, str]]], model: Any = None) -> dict[str, Any]:
        """A form as a browser sends it: with the attacker's values, else what it offers."""
        columns = (
            {model_field.name: model_field for model_field in model._meta.get_fields()}
            if model
            else {}
        )
        data: dict[str, Any] = {}
        for name, options in fields.items():
            kinds = {kind for kind, _ in options}
            words = {"number": "1", "date": "2026-01-05"}
            offered = [value for kind, value in options if value]
            column, _, part = name.rpartition("-")[2].rpartition("_")
            chosen = self.value(name.rpartition("-")[2], columns.get(name))
            if part in ("0", "1"):  # a date, and a time of day
                chosen = str(CHOSEN.get(column, CHOSEN["at"])).split()[int(part)]
            if kinds == {"hidden"}:
                data[name] = options[-1][1]
            elif kinds <= {"option", "selected"} and options:
                others = [value for kind, value in options if kind == "option" and value]
                is_offered = chosen == ATTACKER or str(chosen) in offered
                data[name] = (
                    chosen
                    if is_offered or isinstance(chosen, list)
                    else (others or offered or [""])[0]
                )
            elif chosen is not None:
                data[name] = chosen
            elif kinds & {"checkbox", "radio"}:
                data[name] = offered
            elif "file" not in kinds:
                data[name] = (
                    offered[0] if "number" in kinds and offered else words.get(options[0][0], WORDS)
                )
        return data

    def forms(
        self, path: str, model: Any = None, page: Any = None
    ) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """The forms of a page that post: where to, what is filled in, and what its button sends."""
        response = page or self.client.get(path)
        if response.status_code != 200 or response.streaming:
            return
        parser = Fields()
        parser.feed(response.content.decode(errors="replace"))
        for action, fields, buttons in parser.forms:
            if action == "GET":
                continue
            for button in buttons or [("", "")]:
                yield urljoin(path, action), self.filled(fields, model), dict([button])

    # -- the admin

    def admin_posts(self) -> Iterator[Post]:
        yield from self._site_posts()
        for model in admin.site._registry:
            yield from self.posts_of(model)

    def posts_of(self, model: Any) -> Iterator[Post]:
        """The forms and actions of one model. One without a row could not be tried at all."""
        rows = self.rows(model)[: None if self.is_full else 1]
        if not rows:
            raise LookupError(f"{model._meta.label} has no row: plant one in AttackedTeam")
        for pattern in admin.site._registry[model].get_urls():
            yield from self._posts_of(pattern, model, rows)
        yield from self._actions(model, rows)

    def _site_posts(self) -> Iterator[Post]:
        """The pages of the admin itself. One that is new is added to `SITE`."""
        for pattern in admin.site.get_urls():
            name = getattr(pattern, "name", None)
            if name is None or name == "logout":  # an app's pages, and all that is left
                continue
            path = reverse(f"admin:{name}", kwargs=SITE[name](self.world))
            yield Post(
                f"admin:{name}", path, self.fallback(User) | {"new_password1": KNOWN_PASSWORD}
            )

    def rows(self, model: Any) -> list[Any]:
        """A row of the private channel and one of the public one, or a few that are of neither."""
        rows = model._base_manager.order_by("pk")
        if model is User:
            return [self.world.users[role].pk for role in ("victim", "operator", "clerk")]
        if model is Person:
            return [self.world.people[role].pk for role in ("victim", "stray")]
        if path := _path_to_channel(model):
            keys = [
                rows.filter(**{path: self.world.channels[place].pk})
                .values_list("pk", flat=True)
                .first()
                for place in (PRIVATE, PUBLIC)
            ]
            return [key for key in keys if key is not None]
        return list(rows.values_list("pk", flat=True)[:NO_PLACE])

    def _posts_of(self, pattern: URLPattern, model: Any, rows: list[Any]) -> Iterator[Post]:
        parameters = set(pattern.pattern.regex.groupindex)
        if pattern.name is None or pattern.name.endswith("_history"):  # no forms
            return
        if not parameters:
            paths = [reverse(f"admin:{pattern.name}")]
        elif len(parameters) == 1:
            paths = [reverse(f"admin:{pattern.name}", args=[key]) for key in rows]
        else:
            raise LookupError(f"how {pattern.name} is asked for is not known")
        is_list = pattern.name.endswith("_changelist")
        for path in paths:
            learned = [] if is_list else [to for to in self.forms(path, model) if to[0] == path]
            for _, data, button in learned:
                if not button.keys() & {"_addanother", "_continue", "_saveasnew"}:
                    yield from self._posts_with(pattern.name, path, model, data | button)
            if not learned and (self.is_full or not is_list):
                sent = {"post": "yes", "_save": "Save", "form-TOTAL_FORMS": "1"}
                data = self.fallback(model) | sent | {"form-INITIAL_FORMS": "0"}
                yield Post(pattern.name, path, data)

    def _posts_with(self, name: str, path: str, model: Any, data: dict[str, Any]) -> Iterator[Post]:
        """The form as a browser sends it, with every column beside it, and without its reason."""
        yield Post(name, path, data, "_save" in data)
        yield Post(f"{name} with every column", path, self.fallback(model) | data)
        if "reason" in data:
            yield Post(f"{name} without a reason", path, data | {"reason": ""})

    def _actions(self, model: Any, rows: list[Any]) -> Iterator[Post]:
        """Each action on a row of each kind, django-q2's own among them. Where a page asks first, what
        that page sends."""
        name = model._meta.label_lower
        listed = reverse(f"admin:{name.replace('.', '_')}_changelist")
        request = self.client.get(listed).wsgi_request
        own = admin.site._registry[model].get_actions(request).keys() - {"delete_selected"}
        ours = {"resubmit_task"} if self.is_full or name.startswith("django_q.") else set()
        for action in sorted(own | ours | {"delete_selected"}):
            for key in rows:
                data = {"action": action, ACTION: [key], "rendered_at": NEVER.isoformat()}
                posts = (
                    [data | {"post": "yes"}]
                    if action not in own
                    else self._confirmations(listed, data)
                )
                if self.is_full or not posts:
                    yield Post(f"{name} {action}", listed, data)
                for confirmed in posts:
                    yield Post(f"{name} {action} confirmed", listed, confirmed)

    def _confirmations(self, listed: str, data: dict[str, Any]) -> list[dict[str, Any]]:
        """What the page of an action sends that asks first."""
        with transaction.atomic():
            page = self.client.post(listed, data)
            transaction.set_rollback(True)
        forms = self.forms(listed, page=page)
        return [form | button for to, form, button in forms if to == listed and ACTION in form]

    # -- the pages

    def page_posts(self) -> Iterator[Post]:
        """What the matrix posts, and each form of each page, by each of its buttons. One that stands on
        many pages, as those of the frame, is posted once."""
        seen: set[Any] = set()
        for name, asks in MATRIX.items():
            for path, data in asks(self.world):
                if data is not None:
                    posts = [Post(name, path, data)]
                elif path in seen:
                    continue
                else:
                    seen.add(path)
                    forms = self.forms(path)
                    posts = [Post(name, action, form | button) for action, form, button in forms]
                for post in posts:
                    # `next` says only where the answer leads.
                    sent = {name: value for name, value in post.data.items() if name != "next"}
                    key = (post.path, repr(sorted(sent.items())))
                    if key not in seen:
                        seen.add(key)
                        yield post


SITE: dict[str, Callable[[AttackedTeam], dict[str, Any]]] = {
    **dict.fromkeys(
        ("index", "login", "password_change", "password_change_done"), lambda world: {}
    ),
    **dict.fromkeys(("autocomplete", "jsi18n"), lambda world: {}),
    "view_on_site": lambda world: {"content_type_id": 1, "object_id": 1},
    "app_list": lambda world: {"app_label": "memories"},
}


def _path_to_channel(model: Any, depth: int = 3) -> str:
    """The look-up that leads from a model to the channel that its row belongs to, or ""."""
    if model is Channel:
        return "pk"
    relations = [
        model_field
        for model_field in model._meta.concrete_fields
        if model_field.many_to_one or model_field.one_to_one
    ]
    for model_field in relations:
        if model_field.related_model is Channel:
            return str(model_field.name)
    for model_field in relations if depth else ():
        if model_field.related_model not in (model, User) and (
            path := _path_to_channel(model_field.related_model, depth - 1)
        ):
            return f"{model_field.name}__{path}"
    return ""
