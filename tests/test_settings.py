"""Every variable that the code reads is in docs/settings.md and .env.example, and the reverse."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from memoryhub import env

ROOT = Path(__file__).resolve().parent.parent
NO_VALUE = object()  # a default that is worked out, not written down


def variables_read(source: str) -> dict[str, object]:
    """Variable → its default, for each `env.kind("NAME", default=…)` and each use of os.environ."""
    variables: dict[str, object] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and _is_environ(node.value):
            name = node.slice
            default: object = NO_VALUE
        elif isinstance(node, ast.Call) and node.args and _reads_environment(node.func):
            name = node.args[0]
            defaults = [word.value for word in node.keywords if word.arg == "default"]
            default = (
                defaults[0].value
                if defaults and isinstance(defaults[0], ast.Constant)
                else NO_VALUE
            )
        else:
            continue
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            variables[name.value] = default
    return variables


def _is_environ(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"


def _reads_environment(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id in ("env", "getenv")
    if not isinstance(node, ast.Attribute):
        return False
    by_env = isinstance(node.value, ast.Name) and node.value.id == "env"
    return by_env or node.attr == "getenv" or (node.attr == "get" and _is_environ(node.value))


@pytest.fixture(scope="module")
def in_code() -> dict[str, object]:
    variables: dict[str, object] = {}
    for room in ("memoryhub", "memories"):
        for path in (ROOT / room).rglob("*.py"):
            variables |= variables_read(path.read_text())
    return variables


@pytest.fixture(scope="module")
def in_table() -> dict[str, str]:
    text = (ROOT / "docs" / "settings.md").read_text()
    return dict(re.findall(r"^\| `([A-Z_]+)` \| (.+?) \|", text, re.MULTILINE))


@pytest.fixture(scope="module")
def in_example() -> dict[str, str]:
    text = (ROOT / ".env.example").read_text()
    return dict(re.findall(r"^# ([A-Z_]+)=(.*)$", text, re.MULTILINE))


@pytest.mark.slow
def test_the_table_is_complete(in_code: dict[str, object], in_table: dict[str, str]) -> None:
    assert set(in_table) == set(in_code)


@pytest.mark.slow
def test_the_example_is_complete(in_code: dict[str, object], in_example: dict[str, str]) -> None:
    assert set(in_example) == set(in_code)


@pytest.mark.slow
def test_defaults_are_as_written(
    in_code: dict[str, object], in_table: dict[str, str], in_example: dict[str, str]
) -> None:
    for name, default in in_code.items():
        if default in ("", NO_VALUE):
            continue
        written = str(default).lower() if isinstance(default, bool) else str(default)
        assert in_table[name] == f"`{written}`", name
        assert in_example[name] == written, name


@pytest.mark.parametrize(
    "source",
    [
        'env("NEW")',
        'env.int("NEW", default=3)',
        'os.environ["NEW"]',
        'os.environ.get("NEW")',
        'os.getenv("NEW")',
    ],
)
def test_a_new_variable_is_seen(source: str) -> None:
    assert "NEW" in variables_read(source)


def shown(expression: str, **variables: str) -> str:
    """Return the settings of a fresh process under these variables."""
    done = subprocess.run(
        [sys.executable, "-c", f"import memoryhub.settings as s; print({expression})"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("xoxb-1\n")
    variables = {"SLACK_BOT_TOKEN_FILE": str(tmp_path / "token"), "MEMORYHUB_VAR": str(tmp_path)}
    assert shown("repr(s.SLACK_BOT_TOKEN)", **variables) == "'xoxb-1'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "expression", "expected"),
    [
        ({}, "s.CSRF_TRUSTED_ORIGINS", "['http://localhost:8000']"),
        ({"PORT": "9001"}, "s.CSRF_TRUSTED_ORIGINS", "['http://localhost:9001']"),
        ({"MEMORYHUB_URL": "https://m.example.com"}, "s.ALLOWED_HOSTS[0]", "m.example.com"),
        ({"MEMORYHUB_URL": "https://m.example.com/"}, "s.SESSION_COOKIE_SECURE", "True"),
        ({}, "s.DATABASES['default']['OPTIONS']['transaction_mode']", "IMMEDIATE"),
        ({"DATABASE_URL": "postgres://u:p@h/n"}, "'pool' in s._database['OPTIONS']", "False"),
        ({"MEMORYHUB_LLM_TIMEOUT": "600"}, "s.Q_CLUSTER['timeout']", "10380"),
        ({"MEMORYHUB_HEARTBEAT": "2"}, "s.MEMORYHUB_HEARTBEAT_MAX", "10.0"),
        ({"MEMORYHUB_HEARTBEAT": "2"}, "s.Q_CLUSTER['poll']", "0.5"),
        ({"MEMORYHUB_POLL": "0.1"}, "s.Q_CLUSTER['poll']", "0.1"),
        ({"MEMORYHUB_WORKERS": "5"}, "s.Q_CLUSTER['workers']", "5"),
        ({"SECRET_KEY": "$PATH"}, "s.SECRET_KEY", "$PATH"),
        ({"SECRET_KEY": r"$\$a\\$b$$"}, "s.SECRET_KEY", r"$\$a\\$b$$"),
        (
            {"DATABASE_URL": "postgres://u:$p$@h/n"},
            "s.DATABASES['default']['PASSWORD']",
            "$p$",
        ),
        ({}, "len(s.MEMORYHUB_KEYS)", "1"),
        ({"MEMORYHUB_KEYS": "A" * 43 + "=," + "B" * 43 + "="}, "len(s.MEMORYHUB_KEYS)", "2"),
        ({"MEMORYHUB_BROKER": "redis://h:1/2"}, "s.Q_CLUSTER['redis']", "redis://h:1/2"),
        (
            {
                "MEMORYHUB_OIDC_ISSUER": "https://login.example.com",
                "MEMORYHUB_OIDC_CLIENT_ID": "hub",
                "MEMORYHUB_OIDC_SCOPES": "openid groups",
            },
            "s.SOCIALACCOUNT_PROVIDERS['openid_connect']['APPS'][0]['settings']['scope']",
            "['openid', 'groups']",
        ),
    ],
)
def test_settings_follow_the_environment(
    variables: dict[str, str], expression: str, expected: str, tmp_path: Path
) -> None:
    assert shown(expression, MEMORYHUB_VAR=str(tmp_path), **variables) == expected


@pytest.mark.parametrize("name", ["llm", "memoryhub"])
def test_a_named_cluster_does_not_break_the_settings(name: str, tmp_path: Path) -> None:
    """django-q2 reads ALT_CLUSTERS at import and dies without it."""
    variables = {"Q_CLUSTER_NAME": name, "MEMORYHUB_VAR": str(tmp_path)}
    variables["DJANGO_SETTINGS_MODULE"] = "memoryhub.settings"
    assert shown("__import__('django_q.conf').conf.Conf.PREFIX", **variables) == "memoryhub"


@pytest.mark.slow
@pytest.mark.parametrize(
    "variable",
    [
        "PORT=abc",
        "MEMORYHUB_LLM_TIMEOUT=soon",
        "MEMORYHUB_LOG_FORMAT=xml",
        f"MEMORYHUB_MODEL={'m' * 101}",
        "DATABASE_URL=nonsense",
        "DATABASE_URL=postgres://u:hunter/2@h:5432/n",
        "MEMORYHUB_BROKER=amqp://h",
        "MEMORYHUB_KEYS=hunter2",
    ],
)
def test_an_invalid_value_is_reported_with_its_variable(variable: str, tmp_path: Path) -> None:
    name, value = variable.split("=")
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "MEMORYHUB_VAR": str(tmp_path), name: value},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Wrong setting: {name} ") and done.stderr.count("\n") == 1
    assert "hunter" not in done.stderr


def test_an_unreadable_file_of_variables_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_bytes(b"PORT=\xff\xfe")
    monkeypatch.setattr(env, "HOME_DIR", tmp_path)
    with pytest.raises(ImproperlyConfigured, match=r"\.env cannot be read"):
        env.read_env_file()


@pytest.mark.slow
def test_blank_is_unset_and_relative_paths_belong_to_the_checkout() -> None:
    assert shown("s.MEMORYHUB_VAR", MEMORYHUB_VAR="") == str(ROOT / "var")
    assert shown("s._database['NAME']", DATABASE_URL="") == str(ROOT / "var" / "memoryhub.sqlite3")
    name = shown("s._database['NAME']", DATABASE_URL="sqlite:///var/other.sqlite3")
    assert name == str(ROOT / "var" / "other.sqlite3")
