"""`manage.py createadmin`: the first operator, with a valid password."""

import getpass
import io
import sys
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command

from memories.models import AuditEvent, User
from tests.factories import PASSWORD, UserFactory

pytestmark = pytest.mark.django_db

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command with a password in the environment, at a terminal, or without one."""

    def run(*arguments: str, given: str = "", typed: tuple[str, ...] = ()) -> str:
        monkeypatch.setenv("MEMORYHUB_ADMIN_PASSWORD", given)
        terminal = io.StringIO()
        terminal.isatty = lambda: bool(typed)  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", terminal)
        responses = iter(typed)
        monkeypatch.setattr(getpass, "getpass", lambda prompt: next(responses))
        capsys.readouterr()
        call_command("createadmin", *arguments)
        output = capsys.readouterr()
        assert not given or given not in output.out + output.err
        return output.out

    return run


def test_the_first_operator_is_created_once(run: Run) -> None:
    assert run(given=PASSWORD) == "Created the operator admin.\n"
    user = User.objects.get()
    assert user.username == "admin" and user.is_operator and user.is_staff
    assert user.check_password(PASSWORD)
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.subject) == ("", "account", "admin")
    assert run(given="another good one 5") == "admin is an operator already.\n"
    assert User.objects.get().check_password(PASSWORD)
    assert AuditEvent.objects.count() == 1


def test_the_password_is_typed_twice(run: Run) -> None:
    assert "rika" in run("rika", "--email", "rika@example.com", typed=(PASSWORD, PASSWORD))
    assert User.objects.get().email == "rika@example.com"
    with pytest.raises(CommandError, match="The passwords differ"):
        run("mika", typed=(PASSWORD, PASSWORD + "x"))
    with pytest.raises(CommandError, match="MEMORYHUB_ADMIN_PASSWORD"):
        run("mika")
    assert User.objects.count() == 1


def test_a_member_becomes_an_operator_and_keeps_the_password(run: Run) -> None:
    UserFactory(username="mika")
    assert run("mika") == "mika is an operator now.\n"
    user = User.objects.get()
    assert user.is_operator and user.check_password(PASSWORD)


def test_a_name_in_another_spelling_is_the_same_account(run: Run) -> None:
    """A second account would lock both out, because sign-ins do not tell them apart."""
    UserFactory(username="mika")
    assert run("MIKA", given=PASSWORD) == "mika is an operator now.\n"
    assert User.objects.get().username == "mika"


def test_an_account_without_a_password_gets_a_password(run: Run) -> None:
    user = UserFactory(username="mika")
    user.set_unusable_password()
    user.save()
    with pytest.raises(CommandError, match="No password was given"):
        run("mika")
    assert not User.objects.get().is_superuser
    run("mika", given=PASSWORD)
    assert User.objects.get().is_operator and User.objects.get().check_password(PASSWORD)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ((), "password"),
        ((), "short"),
        ((), "1234567890"),
        (("mikamikamika",), "mikamikamika1"),
        (("not a name!",), PASSWORD),
        (("", "--email", "mika@example.com"), PASSWORD),
        (("mika", "--email", "nowhere"), PASSWORD),
    ],
)
def test_invalid_names_and_passwords_are_refused(
    run: Run, arguments: tuple[str, ...], given: str
) -> None:
    with pytest.raises(CommandError):
        run(*arguments, given=given)
    assert not User.objects.exists() and not AuditEvent.objects.exists()
