"""The functions that a C++ file defines."""

from __future__ import annotations

import re

# What is no code: comments, strings, characters, directives.
_NO_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_TYPE = re.compile(r"\b(?:class|struct)\s+(?:alignas\s*\([^)]*\)\s*)?(\w+)[^()]*$")
_FUNCTION = re.compile(r"(~?\w+(?:::~?\w+)*)\s*\(")
#: Stands before a function's name and has parentheses.
_ATTRIBUTE = re.compile(r"__launch_bounds__\s*\([\w, ]+\)")


def defined_functions(source: str) -> set[str]:
    """Functions with a body in this text: `Class::Function`, wherever the body stands, or `Function`.

    Namespaces are not part of a name.
    """
    functions = set()
    code = _NO_CODE.sub(" ", source)
    scopes: list[str | None] = []  # names of classes, "" for namespaces, None for all other braces
    head = 0
    for brace in re.finditer(r"[{};]", code):
        before = code[head : brace.start()].strip()
        head = brace.end()
        if brace.group() == "}":
            scopes.pop()
        if brace.group() != "{":
            continue
        if None in scopes:
            scopes.append(None)
        elif re.search(r"\bnamespace\b[\w\s:]*$|\bextern\s*$", before):
            scopes.append("")
        elif found := _TYPE.search(before):
            scopes.append(found.group(1))
        else:
            found = _FUNCTION.search(_ATTRIBUTE.sub("", before))
            if found:
                functions.add("::".join([*filter(None, scopes), found.group(1)]))
            scopes.append(None)
    return functions
