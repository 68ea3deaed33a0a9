"""House rules that are worth keeping, as tests."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memories.models import Workspace

ROOT = Path(__file__).resolve().parent.parent

SLACK = ("slack_sdk", "memories.slack")
MODELS_LLM = ("openai", "memories.llm")
JOINTS = (
    "memories.tasks",
    "memories.views",
    "memories.management",
    "memories.admin",
    "memories.forms",
    "memories.api_key_form",
    "memories.urls",
    "memories.demo",
)

# room → modules that it must not import. Imports point one way:
# rules ← models ← pipeline ← jobs, views, api, commands; edges import rules only.
FORBIDDEN = {
    "memories/rules": ("django", "os", "memoryhub", "memories.models", "memories.pipeline")
    + (SLACK + MODELS_LLM + JOINTS),
    "memories/models": ("memories.pipeline", *SLACK, *MODELS_LLM, *JOINTS),
    "memories/slack": ("memories.models", "memories.pipeline", *MODELS_LLM, *JOINTS),
    "memories/llm": ("memories.models", "memories.pipeline", *SLACK, *JOINTS),
    "memories/pipeline": ("slack_sdk", "openai", *JOINTS),
    "memories/api": (*SLACK, *MODELS_LLM, "memories.management", "memories.admin"),
    "memories/views": (*SLACK, *MODELS_LLM, "memories.management", "memories.admin"),
    "memories/management": ("slack_sdk", "openai", "memories.views", "memories.admin"),
    "memories/tasks.py": (*SLACK, *MODELS_LLM, "memories.views", "memories.management"),
    "memories/admin": (*SLACK, *MODELS_LLM, "memories.views", "memories.management"),
    "memories/forms.py": (*SLACK, *MODELS_LLM, "memories.views", "memories.management"),
    "memories/api_key_form.py": (*SLACK, *MODELS_LLM, "memories.views", "memories.management"),
}
CLOCKS = {"now", "utcnow", "today", "time", "monotonic", "perf_counter", "localtime"}
NAMELESS = {"utils", "helpers", "services", "core", "misc", "common"}

# Everyday words say nothing about the value they name, and private ones nothing to a newcomer.
EVERYDAY = set("asked found held mine much one other rest said taken told wanted".split())
PRIVATE = set(
    "buried bury cite deed expire gone heed hold ill ills known knot masking opening owe stretch"
    " telling till unsealable walk wish".split()
)


def python_files(*rooms: str) -> list[Path]:
    """All modules of these files and folders, without migrations."""
    files = []
    for room in rooms:
        path = ROOT / room
        files += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [path for path in files if "migrations" not in path.parts]


def tracked_files() -> list[Path]:
    """Return all files that are tracked or would be added to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def imported(tree: ast.AST, package: list[str]) -> Iterator[str]:
    """The full names of all that a module imports, wherever in it; `package` resolves dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{start}.{name.name}" for name in node.names)


def wrong_imports(path: Path, source: str, forbidden: tuple[str, ...]) -> list[str]:
    package = list(path.relative_to(ROOT).parent.parts)
    return [
        name
        for name in imported(ast.parse(source), package)
        if any(name == prefix or name.startswith(f"{prefix}.") for prefix in forbidden)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("room", FORBIDDEN)
def test_imports_point_one_way(room: str) -> None:
    files = python_files(room)
    assert files
    violations = {
        str(path.relative_to(ROOT)): names
        for path in files
        if (names := wrong_imports(path, path.read_text(), FORBIDDEN[room]))
    }
    assert not violations


@pytest.mark.parametrize(
    "source",
    [
        "import django.db",
        "from django.db import models",
        "from memories import models",
        "from ..models import Memory",
        "def f():\n    from memories.models.memory.memories import Memory",
    ],
)
def test_a_wrong_import_is_seen(source: str) -> None:
    path = ROOT / "memories" / "rules" / "planted.py"
    assert wrong_imports(path, source, FORBIDDEN["memories/rules"])


@pytest.mark.slow
@pytest.mark.parametrize("client", ["slack_sdk", "openai"])
def test_only_the_edges_know_the_clients(client: str) -> None:
    edge = ROOT / "memories" / {"slack_sdk": "slack", "openai": "llm"}[client]
    violations = [
        path.name
        for path in python_files("memories", "memoryhub")
        if edge not in path.parents and wrong_imports(path, path.read_text(), (client,))
    ]
    assert not violations


def test_rules_have_no_clock() -> None:
    """`now` is an argument of every rule. S0's create_memory alone may be called without one."""
    violations = [
        f"{path.name}:{function.name}"
        for path in python_files("memories/rules")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef) and reads_clock(function)
    ]
    assert violations == ["identity.py:create_memory"]


def reads_clock(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"datetime", "date", "time", "timezone"}
        for node in ast.walk(function)
    )


def test_templates_named_in_views_exist() -> None:
    named = {
        f"{path.name}:{node.lineno} {node.value}"
        for path in python_files("memories/views")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"[\w/.-]+\.(html|txt)", node.value)
    }
    assert named
    assert not [name for name in named if not (ROOT / "templates" / name.split()[1]).is_file()]


def test_nothing_is_sent_twice() -> None:
    """htmx would keep a second click and send it when the first is answered."""
    tags = re.compile(r"<\w+ (?:[^<>]|<[^>]*>)*?hx-post=[^>]*>")
    violations = [
        f"{path.name}: {tag[:80]}"
        for path in (ROOT / "templates").rglob("*.html")
        for tag in tags.findall(path.read_text())
        if "hx-disabled-elt" not in tag and 'hx-sync="this:drop"' not in tag
    ]
    assert violations == []


def test_templates_included_in_templates_exist() -> None:
    ours = {str(path.relative_to(ROOT / "templates")) for path in (ROOT / "templates").rglob("*")}
    rooms = {name.split("/")[0] for name in ours}
    missing = [
        f"{path.name}: {name}"
        for path in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r"{% (?:include|extends) [\"']([^\"']+)[\"']", path.read_text())
        if name.split("/")[0] in rooms and name not in ours
        # The admin's own templates come with Django.
        if not name.startswith("admin/")
    ]
    assert not missing


def test_a_file_is_named_by_its_subject() -> None:
    violations = [path for path in python_files("memories", "memoryhub") if path.stem in NAMELESS]
    assert not violations


def test_no_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in python_files("memories", "memoryhub")
        if (lines := len(path.read_text().splitlines())) > 501
    }
    assert not long


def test_the_repository_names_no_machine_and_no_registry() -> None:
    # Written in two parts, or this file would find itself.
    signs = ["/ho" + "me/", "/Us" + "ers/", "/wo" + "rk/", "/ro" + "ot/", "index" + "-url"]
    signs += ["pypi" + ".org/simple", "pythonhosted" + ".org", "registry" + ".npmjs"]
    allowed = {"--no-emit-" + signs[4]}
    violations = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for word in allowed:
            text = text.replace(word, "")
        violations += [f"{path.relative_to(ROOT)}: {sign}" for sign in signs if sign in text]
    assert not violations


@pytest.mark.parametrize("folder", ["memories", "memoryhub"])
def test_nothing_is_left_for_later(folder: str) -> None:
    signs = re.compile(r"#\s*(TODO|FIXME|XXX)|raise NotImplementedError")
    assert not [path.name for path in python_files(folder) if signs.search(path.read_text())]


REFUSED = EVERYDAY | PRIVATE


def refused_names(source: str) -> list[str]:
    """The names that a module gives to things and that say nothing, with their lines."""
    tree = ast.parse(source)
    exempt = {node for part in ast.walk(tree) for node in named_elsewhere(part)}
    return [
        f"{node.lineno} {name}"  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if node not in exempt and (name := given_name(node)).lower().strip("_") in REFUSED
    ]


def template_names(source: str) -> set[str]:
    """Return the names that the tags of a template give to values."""
    names: set[str] = set()
    for tag in re.findall(r"\{%.*?%\}", source):
        if loop := re.match(r"\{% for ([\w, ]+) in ", tag):
            names |= set(re.split(", ?", loop[1]))
        if re.match(r"\{% (include|with|blocktranslate)\b", tag):
            names |= set(re.findall(r"\b(\w+)=", tag))
        names |= set(re.findall(r" as(?:var)? (\w+)", tag))
    return names


@pytest.mark.parametrize(
    "source",
    [
        "{% for line, rest in rows %}",
        '{% include "a.html" with one=row %}',
        "{% url 'x' as found %}",
    ],
)
def test_a_vague_name_in_a_template_is_refused(source: str) -> None:
    assert template_names(source) & REFUSED


def test_templates_have_no_vague_names() -> None:
    names = {
        str(path.relative_to(ROOT)): template_names(path.read_text()) & REFUSED
        for path in sorted((ROOT / "templates").rglob("*.html"))
    }
    assert not {path: vague for path, vague in names.items() if vague}


def given_name(node: ast.AST) -> str:
    """The name that a node binds, "" when it binds none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.arg(arg=name) | ast.alias(asname=str(name)):
            return name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return name
    return ""


def named_elsewhere(node: ast.AST) -> list[ast.AST]:
    """Columns, which databases hold by name, and the operands of Python's own operators."""
    if isinstance(node, ast.ClassDef):
        return [
            target
            for line in node.body
            if isinstance(line, ast.Assign) and ast.unparse(line.value).startswith("models.")
            for target in line.targets
        ]
    if isinstance(node, ast.FunctionDef) and re.fullmatch(r"__\w+__", node.name):
        return list(node.args.args)
    return []


def refused_in(path: Path) -> list[str]:
    module = [f"module {path.stem}"] if path.stem in EVERYDAY | PRIVATE else []
    return module + refused_names(path.read_text())


def meaningless_names() -> dict[str, list[str]]:
    return {
        str(path.relative_to(ROOT)): names
        for path in python_files("memories", "memoryhub", "tests")
        if (names := refused_in(path))
    }


@pytest.mark.slow
def test_names_are_meaningful() -> None:
    assert not meaningless_names()


@pytest.mark.parametrize("room", ["memories", "memoryhub", "tests"])
def test_a_planted_name_is_reported(
    room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / room).mkdir()
    (tmp_path / room / "planted.py").write_text("def test_it():\n    told = 1\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert meaningless_names() == {f"{room}/planted.py": ["2 told"]}


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "def f(told): pass",
        "def owe(): pass",
        "class Taken: pass",
        "self._known = 1",
        "try: pass\nexcept ValueError as other: pass",
        "match row:\n    case [1, *rest]: pass",
        "match row:\n    case {1: 2, **rest}: pass",
        "match row:\n    case str() as said: pass",
        "from memories import models as gone",
    ],
)
def test_a_meaningless_name_is_refused(source: str) -> None:
    assert len(refused_names(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "matches = found(1)",
        "is_known, found_at = wanted.known, 1",
        "class Upload(models.Model):\n    found = models.JSONField()",
        "class Sums:\n    def __add__(self, other): pass",
        "keep(found=matches)",
    ],
)
def test_a_plain_name_is_not_refused(source: str) -> None:
    assert refused_names(source) == []


def test_a_test_without_a_mark_has_no_database(django_db_setup: None) -> None:
    with pytest.raises(RuntimeError, match="Database access not allowed"):
        Workspace.objects.exists()
