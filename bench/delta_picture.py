"""The picture of docs/delta.md, drawn by the code of that page.

python bench/delta_picture.py
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

import matplotlib as mpl

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main() -> None:
    """Run the page's Python in a folder of its own, and take the picture that it leaves there."""
    mpl.use("Agg")
    page = (DOCS / "delta.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            exec(compile(block, "docs/delta.md", "exec"), names)
        shutil.copy("delta.png", DOCS / "images" / "delta.png")
        os.chdir(DOCS)


if __name__ == "__main__":
    main()
