"""Trivial parts of a reader of scanned documents."""

from collections.abc import Iterator

from omniflow import Image, Stream, Text, record
from omniflow.roles import Role, method


@record
class Scan:
    """A document as its scanned pages."""

    title: Text
    pages: list[Image]


class Splitter(Role):
    @method
    def pages(self, scan: Scan) -> Stream[Image]:
        return self._pages(scan)

    def _pages(self, scan: Scan) -> Iterator[Image]:
        yield from scan.pages


class Ocr(Role):
    concurrency = 4

    @method
    def read(self, page: Image) -> Text:
        """What stands on the page: its size, in place of its words."""
        return f"{page.width}x{page.height}"


class Llm(Role):
    @method
    def answer(self, question: Text, pages: list[Text]) -> Text:
        return f"{question} {len(pages)} pages: {', '.join(pages)}"
