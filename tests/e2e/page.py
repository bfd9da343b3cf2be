"""Reads the page of `explain --format=html` as a browser would, strictly."""
import html.parser
import json

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(html.parser.HTMLParser):
    """Elements by name, the JSON of the scripts "simulation" and "plan", and what is wrong with the page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.problems, self.texts = [], {}, [], {}
        self.links = []  # what the page would load
        self.feed(text)
        self.close()
        self.problems += [f"{tag} is not closed" for tag, _ in self.open]

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.setdefault(tag, []).append(attrs)
        self.links += [value for key, value in attrs.items() if key in ("src", "href", "data", "srcset")]
        if tag not in VOID:
            self.open.append((tag, attrs))

    def handle_startendtag(self, tag, attrs):
        self.elements.setdefault(tag, []).append(dict(attrs))

    def handle_endtag(self, tag):
        if not self.open or self.open[-1][0] != tag:
            self.problems.append(f"{tag} at {self.getpos()} closes nothing")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and "id" in self.open[-1][1]:
            name = self.open[-1][1]["id"]
            self.texts[name] = self.texts.get(name, "") + data

    def json(self, name="simulation"):
        return json.loads(self.texts[name])
