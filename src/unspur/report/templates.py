"""Render templates to self-contained HTML pages."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from ..extras import need


def render_template(template: str, content: Mapping[str, Any]) -> str:
    """Render a template with the variables in `content`, which are escaped."""
    jinja2 = need("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _asset("report.js")
    text: str = environment.get_template(template).render(
        **content,
        style=_asset("report.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return text


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(f"assets/{name}").read_text("utf-8")
