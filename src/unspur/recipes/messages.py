"""Turn what is wrong with a recipe into messages that say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from pydantic import ValidationError

from .settings import recipe_class


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the known word nearest to an unknown one, or all of them, as a sentence."""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else f" Known: {', '.join(words)}."


def explain(error: ValidationError, where: Callable[[str], str]) -> str:
    """Return one line for each thing that is wrong; `where` says which file a key comes from."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            prefix = key.rpartition(".")[0]
            known = [f"{prefix}.{name}".lstrip(".") for name in _keys(prefix)]
            lines.append(f"{where(key)}: unknown key {key}.{suggestion(key, known)}")
        else:
            lines.append(f"{where(key)}: {key} = {problem['input']!r}: {problem['msg']}.")
    return "\n".join(lines)


def _keys(prefix: str) -> list[str]:
    section = recipe_class().model_fields.get(prefix)
    return list((section.annotation if section else recipe_class()).model_fields)  # type: ignore[union-attr]
