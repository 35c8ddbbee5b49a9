"""A scanned document read page by page: fan-out over workers, counted join."""

from omniflow.client import Client
from tests.integration.flows.conftest import Example
from tests.integration.flows.driving import PATIENCE_S, activations, picture, run, scan_of


async def test_pages_are_read_in_parallel_by_two_workers_and_joined_in_order(pdf: Example) -> None:
    scan = scan_of([picture(10 + page) for page in range(10)])
    results, report = await run(pdf, "read_pdf", {"scan": scan, "question": "How big?"})
    pages = ", ".join(f"{10 + page}x4" for page in range(10))
    assert results == {"result": f"How big? 10 pages: {pages}"}
    assert activations(report) == {"splitter.pages": 1, "ocr.read": 10, "llm.answer": 1}
    readers = {tuple(each.key): each.worker for each in report.activations if each.node == "ocr.read"}
    assert set(readers) == {(page,) for page in range(10)}
    assert set(readers.values()) == {"ocr-0", "ocr-1"}


async def test_a_document_without_pages_is_answered_from_none(pdf: Example) -> None:
    results, report = await run(pdf, "read_pdf", {"scan": scan_of([]), "question": "And?"})
    assert results == {"result": "And? 0 pages: "}
    assert activations(report) == {"splitter.pages": 1, "llm.answer": 1}


async def test_what_leaves_a_fan_out_without_a_join_is_a_stream_in_order(pdf: Example) -> None:
    scan = scan_of([picture(1 + page) for page in range(6)])
    async with Client(pdf.address) as client:
        job = await client.submit("read_pages", {"scan": scan}, deadline=PATIENCE_S)
        assert [frame.value async for frame in job] == [f"{1 + page}x4" for page in range(6)]


async def test_a_fan_out_of_two_thousand_pages_is_joined(pdf: Example) -> None:
    page = picture(3)
    results, _report = await run(pdf, "read_pdf", {"scan": scan_of([page] * 2_000), "question": "?"})
    assert results["result"].startswith("? 2000 pages: 3x4, ")
