"""The edge's own reading and writing of bytes agrees with protobuf."""

import pytest

from omniflow.v1 import error_pb2, job_pb2
from omniflow_scheduler import wire


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 3_000_000])
def test_one_request_is_wrapped_as_a_batch_of_it(size: int) -> None:
    submit = job_pb2.SubmitRequest(flow="f", inputs=[job_pb2.Input(name="x", frames=[b"y" * size])])
    batch = job_pb2.ClientBatch.FromString(wire.submit_batch(submit.SerializeToString()))
    assert batch == job_pb2.ClientBatch(messages=[job_pb2.ClientMessage(submit=submit)])


def test_every_kind_of_request_has_its_own_field() -> None:
    watch, ack = job_pb2.WatchRequest(job="1"), job_pb2.AckRequest(job="1", port=2, seq=3)
    cancel = job_pb2.CancelRequest(job="1", reason="why")
    made = b"".join(
        (
            wire.watch_batch(watch.SerializeToString()),
            wire.ack_batch(ack.SerializeToString()),
            wire.cancel_batch(cancel.SerializeToString()),
        )
    )
    assert job_pb2.ClientBatch.FromString(made) == job_pb2.ClientBatch(
        messages=[
            job_pb2.ClientMessage(watch=watch),
            job_pb2.ClientMessage(ack=ack),
            job_pb2.ClientMessage(cancel=cancel),
        ]
    )


def test_a_batch_of_events_falls_into_its_events_and_their_kind_is_seen() -> None:
    refusal = error_pb2.Error(code=error_pb2.UNKNOWN_FLOW, message="m" * 300)
    events = [
        job_pb2.JobEvent(tag=300, job="1", accepted=job_pb2.Accepted(flow="f")),
        job_pb2.JobEvent(tag=2**63, refused=refusal),
        job_pb2.JobEvent(job="1", frame=job_pb2.ResultFrame(port=1, seq=2**40, payload=b"x" * 5000)),
        job_pb2.JobEvent(job="1", ended=job_pb2.JobEnd()),
    ]
    raw = list(wire.split_events(job_pb2.EventBatch(events=events).SerializeToString()))
    assert [job_pb2.JobEvent.FromString(each) for each in raw] == events
    assert [wire.event_part(each, wire.EVENT_ENDED) is not None for each in raw] == [False, False, False, True]
    refused = [wire.event_part(each, wire.EVENT_REFUSED) for each in raw]
    assert refused == [None, refusal.SerializeToString(), None, None]
