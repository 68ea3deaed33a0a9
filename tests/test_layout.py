"""The layout of the code: layers, subjects, cycles and sizes (CONTRIBUTING.md)."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Layer → subject → the subjects of the same layer that it may import.
# A module in the layer's own folder serves all subjects.
ARROWS: dict[str, dict[str, str]] = {
    "rules": {
        "ask": "generate memory",
        "context": "generate ingest memory notes safety",
        "costs": "generate",
        "generate": "ingest memory safety",
        "memory": "ingest redaction search",
        "notes": "generate ingest",
        "safety": "ingest",
        "search": "ingest redaction",
        "slack_app": "ingest sync",
        "sync": "ingest",
        "transfer": "ingest memory",
    },
    "models": {
        "access": "context costs generate ingest memory notes safety sync",
        "context": "access search",
        "costs": "access generate",
        "generate": "access ingest memory",
        "ingest": "access generate search",
        "memory": "access generate ingest notes search",
        "notes": "access ingest search",
        "safety": "access generate ingest memory",
        "search": "access",
        "sync": "access ingest",
    },
    "pipeline": {
        "ask": "costs search",
        "context": "search",
        "generate": "costs safety",
        "ingest": "access redaction",
        "memory": "generate safety",
        "redaction": "access",
        "safety": "generate redaction",
        "slack_app": "ingest sync",
        "sync": "access ingest",
        "transfer": "generate",
    },
    "views": {
        "access": "generate memory",
        "context": "access",
        "costs": "access",
        "generate": "access memory",
        "ingest": "access memory",
        "memory": "access generate ingest sync",
        "notes": "access",
        "safety": "access",
        "search": "access ingest memory",
        "sync": "access",
    },
}

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_SENTENCE_WORDS = 30


@cache
def modules() -> dict[str, Path]:
    """The modules of the app by their dotted names, without migrations."""
    named = {}
    for path in sorted((ROOT / "memories").rglob("*.py")):
        if "migrations" not in path.parts:
            parts = path.relative_to(ROOT).with_suffix("").parts
            named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports_of(tree: ast.AST, module_names: Iterable[str]) -> set[str]:
    """The known modules that a module imports anywhere, but for type checkers alone."""
    names = set()
    for node in without_type_checking(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in module_names else node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names & set(module_names)


def without_type_checking(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            continue
        yield node
        yield from without_type_checking(node)


@cache
def graph() -> dict[str, set[str]]:
    paths = modules()
    return {name: imports_of(tree_of(path), paths) - {name} for name, path in paths.items()}


def find_cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Names that import each other in a circle, [] when there are none."""
    finished: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name in finished:
            return []
        for imported in sorted(imports.get(name, ())):
            if cycle := visit(imported, [*path, name]):
                return cycle
        finished.add(name)
        return []

    return next((cycle for name in sorted(imports) if (cycle := visit(name, []))), [])


def subject_of(name: str) -> tuple[str, str]:
    """The layer and the subject of a module; "" for a module of the layer's own folder."""
    parts = name.split(".")
    layer = parts[1] if len(parts) > 1 else ""
    return layer, parts[2] if len(parts) > 3 or (len(parts) == 3 and modules_below(name)) else ""


def modules_below(name: str) -> bool:
    return any(module.startswith(f"{name}.") for module in modules())


def wrong_arrow(importer: str, imported: str) -> str:
    """The sentence about an import between subjects that is not allowed, else ""."""
    layer, subject = subject_of(importer)
    imported_layer, imported_subject = subject_of(imported)
    if layer not in ARROWS or layer != imported_layer:
        return ""
    if not subject or not imported_subject or subject == imported_subject:
        return ""
    allowed = ARROWS[layer].get(subject, "").split()
    if imported_subject in allowed:
        return ""
    return (
        f"{importer} imports {imported}: {layer}/{subject} may import"
        f" {', '.join(allowed) or 'no other subject'} of its layer."
    )


def test_subjects_import_along_the_arrows() -> None:
    sentences = [
        sentence
        for name, imported in graph().items()
        for module in sorted(imported)
        if (sentence := wrong_arrow(name, module))
    ]
    assert not sentences, "\n".join(sentences)


def test_there_are_no_import_cycles() -> None:
    assert find_cycle(graph()) == []


def function_imports(source: str) -> list[str]:
    """The imports inside functions without a reason: a comment beside them, or above their block."""
    lines = source.splitlines()
    numbers = sorted(
        node.lineno
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    explained: set[int] = set()
    for number in numbers:
        above = lines[number - 2].strip()
        if (
            "#" in lines[number - 1]
            or above.startswith("#")
            or number - 1 in explained
            or not above
            and number - 2 in explained
        ):
            explained.add(number)
    return [f"{n} {lines[n - 1].strip()}" for n in numbers if n not in explained]


def test_an_import_inside_a_function_has_a_reason_beside_it() -> None:
    violations = {
        name: imports
        for name, path in modules().items()
        if (imports := function_imports(path.read_text()))
    }
    assert not violations


def long_functions(tree: ast.AST) -> list[str]:
    return [
        f"{node.name}: {lines} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]


def test_files_and_functions_are_short() -> None:
    long = {
        name: [f"{lines} lines"] * (lines > MAX_FILE_LINES) + long_functions(tree_of(path))
        for name, path in modules().items()
        for lines in [len(path.read_text().splitlines())]
    }
    assert not {name: what for name, what in long.items() if what}


def long_sentences(tree: ast.AST) -> list[str]:
    """The sentences of docstrings that have too many words."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [
        sentence
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        for paragraph in (ast.get_docstring(node) or "").split("\n\n")
        for sentence in re.split(r"[.!?:;](?:\s|$)|\n\s*[-*] |\n {2,}", paragraph)
        if len(sentence.split()) > MAX_SENTENCE_WORDS
    ]


def test_sentences_of_docstrings_are_short() -> None:
    violations = {
        name: sentences
        for name, path in modules().items()
        if (sentences := long_sentences(tree_of(path)))
    }
    assert not violations


@pytest.mark.parametrize(
    ("imports", "cycle"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["a"]}, ["a", "b"]),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c"]),
    ],
)
def test_a_planted_cycle_is_seen(imports: dict[str, list[str]], cycle: list[str]) -> None:
    assert find_cycle(imports) == cycle


def test_an_import_inside_a_function_counts_for_cycles() -> None:
    source = "def f():\n    from a import b"
    assert imports_of(ast.parse(source), ["a.b"]) == {"a.b"}
    source = "if TYPE_CHECKING:\n    from a import b"
    assert imports_of(ast.parse(source), ["a.b"]) == set()


def test_a_planted_import_against_the_arrows_is_named() -> None:
    sentence = wrong_arrow("memories.rules.ingest.events", "memories.rules.memory.lines")
    assert sentence == (
        "memories.rules.ingest.events imports memories.rules.memory.lines:"
        " rules/ingest may import no other subject of its layer."
    )


def test_a_planted_import_without_a_reason_is_seen() -> None:
    assert function_imports("def f():\n    import os") == ["2 import os"]
    assert function_imports("def f():\n    import os  # slow to load") == []
    assert function_imports("def f():\n    # slow to load\n    import os") == []


def test_a_planted_long_sentence_is_seen() -> None:
    words = "word " * MAX_SENTENCE_WORDS
    assert long_sentences(ast.parse(f'"""{words}word."""'))
    assert not long_sentences(ast.parse(f'"""{words}. word."""'))


def test_a_planted_long_function_is_seen() -> None:
    body = "    x = 1\n" * MAX_FUNCTION_LINES
    assert long_functions(ast.parse(f"def f():\n{body}"))
    assert not long_functions(ast.parse("def f():\n    x = 1"))
