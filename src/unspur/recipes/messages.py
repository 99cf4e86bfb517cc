"""Turn errors in a recipe into messages that say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from pydantic import ValidationError

MOST_LISTED = 12  # a message lists at most this many known words


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the most similar known word, or lists all words if there are few."""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    if close:
        return f" Did you mean {close[0]}?"
    if len(words) <= MOST_LISTED:
        return f" Known: {', '.join(words)}."
    nearest = difflib.get_close_matches(word, words, n=3, cutoff=0.0)
    return f" The nearest of {len(words)} are {', '.join(nearest)}."


def explain(error: ValidationError, where: Callable[[str], str]) -> str:
    """Return one line for each error; `where` returns the file of a key."""
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
    from .settings import recipe_class

    section = recipe_class().model_fields.get(prefix)
    return list((section.annotation if section else recipe_class()).model_fields)  # type: ignore[union-attr]
