"""Tests of the pages that people write: the size of the README, and the links of files outside the site."""

import re

import pytest

from tests import ROOT

MOST_WORDS = 900
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)|(?:src|href)=\"([^\"#]+)")


def test_readme_is_short() -> None:
    assert 200 < len((ROOT / "README.md").read_text().split()) <= MOST_WORDS


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"])
def test_links_outside_the_site_lead_to_files(name: str) -> None:
    """The strict build checks those between pages."""
    if not (ROOT / name).exists():
        pytest.skip(f"there is no {name}")
    targets = [found[1] or found[3] for found in LINK.finditer((ROOT / name).read_text())]
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []
