"""Hooks of the docs site: links that make sense in the repository but not on the site lead to the right place.

Pages link to files beside docs/, such as `../benchmarks/results/speed.json`, and to folders. On GitHub both work. The
site has neither, so a link out of docs/ becomes an address of the repository, and a folder becomes its index page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite the links of a page. MkDocs calls this before it turns the page into HTML."""
    folder = (DOCS / page.file.src_uri).parent
    return LINK.sub(lambda found: site_link(found[1], folder, config.repo_url) + (found[2] or ""), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Let browsers load pictures when they come into view: a gallery has fifty. MkDocs calls this for each page."""
    return html.replace("<img ", '<img loading="lazy" ')


def site_link(target: str, folder: Path, repository: str) -> str:
    """Return where a relative link of a page in a folder leads to from the site."""
    path = Path(os.path.normpath(folder / target))
    if path.is_relative_to(DOCS):
        return f"{target}/index.md" if (path / "index.md").is_file() else target
    kind = "tree" if path.is_dir() else "blob"
    return f"{repository}/{kind}/main/{path.relative_to(DOCS.parent).as_posix()}"
