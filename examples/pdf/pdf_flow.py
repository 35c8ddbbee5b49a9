"""Reads a scanned document: its pages side by side, on as many workers as there are, joined in their order."""

from pdf_roles import Llm, Ocr, Scan, Splitter

from omniflow import Stream, Text, collect, each, flow, use

splitter = use(Splitter)
ocr = use(Ocr)
llm = use(Llm)


@flow
def read_pdf(scan: Scan, question: Text) -> Text:
    """An answer from all pages."""
    pages = collect(ocr.read(page) for page in each(splitter.pages(scan)))
    return llm.answer(question, pages)


@flow
def read_pages(scan: Scan) -> Stream[Text]:
    """The pages' texts, in order, each as soon as those before it are read."""
    return (ocr.read(page) for page in each(splitter.pages(scan)))
