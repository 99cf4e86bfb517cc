"""The table of networks: its consistency, and a view that is added to the table alone."""

from __future__ import annotations

import importlib

import pytest

from audits import context, page_of, tinted
from unspur.audit import audit_networks
from unspur.audit.audit_cost import audit_cost
from unspur.audit.audit_networks import NETWORKS, AuditNetwork, behind_view
from unspur.runs import audit_folder
from unspur.store import Store

pytest.importorskip("jinja2", reason="the report is made with the extra 'report'")


def green(x):
    """Show only the green channel."""
    return x[:, 1:2].expand_as(x)


GREEN = behind_view(
    "green",
    green,
    role="like deprived, but sees neither red nor blue",
    difference="that sees only green",
    label="sees only green",
    filter="right in green",
    mark="✓ in green",
    hidden="red and blue",
    hint="Look at red and blue first.",
)


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Return the page of an audit of tinted images, with one more view in the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_networks, "NETWORKS", (*NETWORKS, GREEN))
        yield page_of(tmp_path_factory.mktemp("added"), tinted("shortcut"))


def test_names_are_used_once_and_controls_exist():
    names = [network.name for network in NETWORKS]
    assert len(set(names)) == len(names)
    for network in NETWORKS:
        for other in (network.control, network.sees_all):
            assert other is None or audit_networks.find(other).view is None


def test_phases_are_in_order_and_hold_every_network_once():
    phases = audit_networks.phases()
    assert [[network.name for network in phase] for phase in phases] == [
        ["mine"],
        ["deprived", "matched", "taught", "grey", "centre", "detail"],
        ["coarse"],
    ]


@pytest.mark.parametrize("network", audit_networks.compared(), ids=lambda network: network.name)
def test_a_network_that_can_show_a_shortcut_has_all_its_texts(network: AuditNetwork):
    assert all((network.role, network.difference, network.label, network.filter, network.mark))
    assert (
        bool(network.view) == bool(network.hidden) == bool(network.hint) == bool(network.sees_all)
    )


def test_an_unknown_network_is_an_error():
    with pytest.raises(KeyError, match="blurred"):
        audit_networks.find("blurred")


def test_a_view_added_to_the_table_is_trained_and_gives_evidence(added):
    assert audit_networks.phases()[1][-1] is GREEN
    saved = audit_folder.read(added.parent)
    assert [each["network"] for each in saved.about["trained"]][-2:] == ["green", "green"]
    assert list(saved.evidence.networks) == ["taught", "grey", "centre", "detail", "green"]
    assert saved.evidence.networks["green"].reliance is not None
    small = context(Store(added.parents[1] / "store"))
    assert audit_cost(small).trainings == 0  # all of them are stored
    fresh = context(Store(added.parents[1] / "empty"))
    assert audit_cost(fresh).trainings == 2 * (len(NETWORKS) + 1 + 3)


def test_networks_that_an_audit_seldom_needs_are_not_part_of_the_usual_time(tmp_path, monkeypatch):
    module = importlib.import_module("unspur.audit.audit_cost")
    monkeypatch.setattr(module, "step_seconds", lambda *_, **__: 1.0)
    cost = audit_cost(context(Store(tmp_path)))
    assert 0 < cost.seconds < cost.most_seconds
    assert not any(name.startswith(("coarse", "border")) for name in cost.parts)
    assert all(name.startswith(("coarse", "border")) for name in cost.later_parts)


def test_a_view_added_to_the_table_explains_the_verdict_and_is_on_the_page(added):
    saved = audit_folder.read(added.parent)
    assert "green" in saved.facts["views"]
    assert GREEN.difference in saved.about["text"]
    assert GREEN.hint in saved.about["text"]
    text = added.read_text("utf-8")
    for words in (GREEN.role, GREEN.label, GREEN.filter, GREEN.mark, GREEN.hidden):
        assert words in text
