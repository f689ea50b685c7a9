"""Renders Markdown with Python-Markdown and mistune, HTML enabled.

Usage: render.py IN OUT. Each FILE.md of IN becomes OUT/python-markdown/FILE.html and OUT/mistune/FILE.html.
"""

import pathlib
import sys

import markdown
import mistune

source, target = map(pathlib.Path, sys.argv[1:])
extensions = ["fenced_code", "tables", "attr_list", "footnotes", "def_list", "abbr"]
plugins = ["table", "strikethrough", "url", "task_lists", "footnotes", "def_list", "abbr", "math"]
renderers = {
    "python-markdown": lambda text: markdown.markdown(text, extensions=extensions),
    "mistune": mistune.create_markdown(escape=False, plugins=plugins),
}
for name, render in renderers.items():
    (target / name).mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("*.md")):
        html = render(file.read_text(encoding="utf-8"))
        (target / name / f"{file.stem}.html").write_text(html, encoding="utf-8")
