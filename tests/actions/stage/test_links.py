"""Symbolic links of a dataset: compared with the target, replaced only when asked for, and verified."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotop_ai.actions.stage.partial_files import partial_name
from iotop_ai.model.errors import InputError, UnknownError
from iotop_ai.present.machine.staging import refusal, verified_text
from tests.actions.stage.test_stage import COPIERS, copy, planned, verified
from tests.rigs.nobody import UID


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A dataset that holds only the link ``latest``."""
    top = tmp_path / "data"
    top.mkdir()
    (top / "latest").symlink_to("v2")
    return top


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The folder of an earlier copy, without the link."""
    top = tmp_path / "fast/data"
    top.mkdir(parents=True)
    return top


def test_a_link_that_the_target_already_has_need_not_be_copied(source: Path, target: Path) -> None:
    assert planned(source, target.parent).left_links == 1
    (target / "latest").symlink_to("v2")
    found = planned(source, target.parent)
    assert (found.links, found.left_links, found.differing) == (1, 0, 0)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_or_another_link_is_not_replaced_by_a_link_without_a_flag(source: Path, target: Path, kind: str) -> None:
    if kind == "file":
        (target / "latest").write_bytes(b"mine")
    else:
        (target / "latest").symlink_to("v1")
    found = planned(source, target.parent)
    assert (found.left_links, found.differing, found.first_differing) == (1, 1, "latest")
    assert refusal(found, None, update=False, anyway=False) == "latest differs; --update replaces it"
    assert refusal(found, None, update=True, anyway=False) == ""


@pytest.mark.parametrize("kind", ["link", "file"])
def test_a_folder_in_the_place_of_a_link_or_a_file_ends_the_plan(source: Path, target: Path, kind: str) -> None:
    """rsync would remove the folder if it is empty."""
    if kind == "file":
        (source / "latest").unlink()
        (source / "latest").write_bytes(b"new")
    (target / "latest").mkdir()
    with pytest.raises(InputError, match=f"fast/data/latest is a folder, not a {kind}; move it away first"):
        planned(source, target.parent)
    with pytest.raises(UnknownError):
        copy("own", source, target.parent)
    assert (target / "latest").is_dir()


@pytest.mark.parametrize("how", COPIERS)
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_differing_entry_is_replaced_by_a_link(source: Path, target: Path, kind: str, how: str) -> None:
    if kind == "file":
        (target / "latest").write_bytes(b"mine")
    else:
        (target / "latest").symlink_to("v1")
    if how == "own":
        (target / partial_name("latest")).symlink_to("of an interrupted copy")
    elif os.geteuid() == 0:
        os.chown(target, UID, UID)
    copy(how, source, target.parent)
    assert os.listdir(target) == ["latest"]
    assert os.readlink(target / "latest") == "v2"


def test_a_differing_or_missing_link_is_found_by_the_verification(source: Path, target: Path) -> None:
    assert verified(source, target.parent).first_wrong == "latest: No such file or directory"
    (target / "latest").symlink_to("v1")
    found = verified(source, target.parent)
    assert (found.links, found.wrong, found.first_wrong) == (1, 1, "latest: a link to v1 instead of v2")
    assert verified_text(found) == (
        "verified: 1 of 0 files and 1 link differ, the first: latest: a link to v1 instead of v2"
    )
    (target / "latest").unlink()
    (target / "latest").write_bytes(b"mine")
    assert verified(source, target.parent).first_wrong == "latest: not a link"
    (target / "latest").unlink()
    (target / "latest").symlink_to("v2")
    assert verified(source, target.parent).wrong == 0
