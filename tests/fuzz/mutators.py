"""Seeded mutators, which damage bytes, JSON, text and numbers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Bytes = Callable[[random.Random, bytes], bytes]
Text = Callable[[random.Random, str], str]

HUGE = ["1e999", "-1e308", "9" * 400, "1" + "0" * 30, "-0", "0.5", "2147483648", "1e-400"]
WORDS = ["NaN", "Infinity", "null", "true", '""', "[]", "{}", '"\\ud800"', '"\\u0000"', '"../x"']
ODD_TEXT = ["\x00", "\ufeff", "\u2028", "\x0b", "\r", "\n", '"', "'", ",", ";", "\t", "=1+1", "é"]
ODD_VALUES: list[Any] = [
    *(None, True, False, "", "x", [], {}, -1, 0, 1, 0.5, -0.5, 2**31, 2**62, -(2**62), 1e308),
    *(1e-308, "nan", "1", [1], [[]], {"a": 1}, "a" * 5000, [0] * 3000, "../..", "/etc/passwd"),
]


def flip_bit(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(8 * len(data))
    changed = bytearray(data)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def set_byte(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] = rng.choice([0, 255, 10, 34, 44, rng.randrange(256)])
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def cut_front(rng: random.Random, data: bytes) -> bytes:
    return data[rng.randrange(1, len(data) + 1) :]


def zero_block(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    length = min(rng.choice([1, 16, 512, 4096]), len(data) - start)
    return data[:start] + bytes(length) + data[start + length :]


def insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.randbytes(rng.choice([1, 4, 64])) + data[place:]


def repeat_block(rng: random.Random, data: bytes) -> bytes:
    start, length = rng.randrange(len(data)), rng.choice([1, 8, 64, 1024])
    return data[: start + length] + data[start:]


def remove_block(rng: random.Random, data: bytes) -> bytes:
    start, length = rng.randrange(len(data)), rng.choice([1, 8, 64, 1024])
    return data[:start] + data[start + length :]


def swap_blocks(rng: random.Random, data: bytes) -> bytes:
    a, b = sorted(rng.randrange(len(data)) for _ in range(2))
    size = min(rng.choice([1, 16, 256]), b - a, len(data) - b)
    first, second = data[a : a + size], data[b : b + size]
    return data[:a] + second + data[a + size : b] + first + data[b + size :]


def empty(rng: random.Random, data: bytes) -> bytes:
    return b""


DAMAGE: list[Bytes] = [
    *(flip_bit, flip_bit, set_byte, cut, cut_front, zero_block, insert),
    *(repeat_block, remove_block, swap_blocks, empty),
]


def damage(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes after one to three mutations; they may be the same by chance."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        data = rng.choice(DAMAGE)(rng, data) if data else rng.randbytes(3)
    return data


# -- JSON ---------------------------------------------------------------------------------------------


def repeat_key(rng: random.Random, text: str) -> str:
    content = json.loads(text)
    key = rng.choice(list(content) or ["a"])
    return "{" + f"{json.dumps(key)}: {rng.choice(HUGE + WORDS)}, " + text.strip()[1:]


def nest_deeply(rng: random.Random, text: str) -> str:
    depth = rng.choice([100, 990, 10_000, 100_000])
    opened, closed = rng.choice([("[", "]"), ('{"a":', "}")])
    return '{"a": ' + opened * depth + "1" + closed * rng.choice([0, depth]) + "}"


def replace_value(rng: random.Random, text: str) -> str:
    """Replace a number, a word or a string of JSON by something huge or unusual."""
    starts = [i for i, sign in enumerate(text) if sign in "0123456789tfn" and i]
    if not starts:
        return rng.choice(WORDS)
    start = rng.choice(starts)
    end = start
    while end < len(text) and (text[end].isalnum() or text[end] in "+-."):
        end += 1
    return text[:start] + rng.choice(HUGE + WORDS) + text[end:]


def replace_node(rng: random.Random, text: str) -> str:
    """Replace a node of a JSON tree by an unusual value, or remove it."""
    content = json.loads(text)
    _replace_in(rng, content)
    return json.dumps(content)


def _replace_in(rng: random.Random, tree: Any) -> None:
    if not isinstance(tree, dict | list) or not tree:
        return
    key = rng.choice(list(tree)) if isinstance(tree, dict) else rng.randrange(len(tree))
    if isinstance(tree[key], dict | list) and tree[key] and rng.random() < 0.7:
        _replace_in(rng, tree[key])
    elif rng.random() < 0.2:
        del tree[key]
    else:
        tree[key] = rng.choice(ODD_VALUES)


JSON_DAMAGE: list[Text] = [repeat_key, nest_deeply, replace_value, replace_node]


def damage_json(rng: random.Random, data: bytes) -> bytes:
    """Return damaged JSON, which is often still valid JSON with other content."""
    if rng.random() < 0.4:
        return damage(rng, data)
    try:
        return rng.choice(JSON_DAMAGE)(rng, data.decode()).encode("utf-8", "replace")
    except (ValueError, TypeError, KeyError):
        return damage(rng, data)


# -- text ---------------------------------------------------------------------------------------------


def damage_text(rng: random.Random, text: str, vocabulary: list[str]) -> str:
    """Return text with lines or words swapped, repeated, removed, or replaced by others."""
    lines = text.split("\n")
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(lines))
        how = rng.randrange(5)
        if how == 0:
            lines.insert(place, rng.choice(lines))
        elif how == 1 and len(lines) > 1:
            del lines[place]
        elif how == 2:
            lines[place] += rng.choice(ODD_TEXT)
        else:
            lines[place] = _replace_word(rng, lines[place], vocabulary)
    return "\n".join(lines)


def _replace_word(rng: random.Random, line: str, vocabulary: list[str]) -> str:
    head, sign, _ = line.partition(rng.choice("=,; "))
    return head + sign + rng.choice(vocabulary)
