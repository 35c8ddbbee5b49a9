//! In which order frames come, and when a job is over: rules 8 and 9.

use omniflow_flow::{Arrival, Effect, InputValue, Item};

use crate::support::build::{FlowBuilder, out, text, texts};
use crate::support::place::{
    NODE, Place, activate, deliver, first, optional, result, stream_end, unwanted,
};

#[test]
fn rule_08_frames_are_delivered_in_sequence_and_once() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.close(0);
    assert_eq!(place.end(1, 3), Arrival::Taken);
    assert_eq!(place.frame(1, 2, 22), Arrival::Taken);
    assert_eq!(place.frame(1, 2, 22), Arrival::Duplicate);
    assert_eq!(place.frame(1, 1, 21), Arrival::Taken);
    assert_eq!(place.took(), [], "the head is missing");
    place.frame(1, 0, 20);
    let head = activate(0, &[(0, InputValue::None), (1, InputValue::Stream)]);
    assert_eq!(
        place.took(),
        [
            head,
            deliver(1, 0, 20),
            deliver(1, 1, 21),
            deliver(1, 2, 22),
            stream_end(1, 3)
        ]
    );
    assert_eq!(
        (place.frame(1, 1, 21), place.end(1, 3)),
        (Arrival::Duplicate, Arrival::Duplicate)
    );
    assert_eq!(place.took(), []);
}

#[test]
fn rule_08_later_frames_reach_the_running_activation() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.close(0);
    place.frame(1, 0, 20);
    place.took();
    place.frame(1, 1, 21);
    assert_eq!(place.took(), [deliver(1, 1, 21)]);
    place.end(1, 2);
    assert_eq!(place.took(), [stream_end(1, 2)]);
}

#[test]
fn rule_09_a_job_is_done_when_every_result_has_ended_or_closed() {
    let mut place = Place::results(&optional());
    place.accept(2, 1, first(5));
    place.close(3);
    assert_eq!(place.took(), [result(0, first(5)), result(1, Item::Closed)]);
    assert!(!place.resolver.done());
    place.end(2, 1);
    assert_eq!(
        place.took(),
        [result(0, Item::End { count: 1 }), Effect::Done]
    );
    assert!(place.resolver.done() && place.resolver.is_empty());
}

#[test]
fn rule_09_of_several_edges_into_a_result_the_first_to_bring_something_is_read() {
    let mut flow = FlowBuilder::new();
    let (a, b) = (flow.input("a", text()), flow.input("b", text()));
    let left = flow.node("left", &[("a", text(), a)], &[texts()]);
    let right = flow.node("right", &[("b", text(), b)], &[texts()]);
    flow.result("r", texts(), &[out(left, 0), out(right, 0)]);
    let mut place = Place::results(&flow.graph());
    place.frame(3, 0, 7);
    assert_eq!(place.took(), [unwanted(2), result(0, first(7))]);
    assert_eq!(place.frame(2, 0, 8), Arrival::Unwanted);
    place.end(3, 1);
    assert_eq!(
        place.took(),
        [result(0, Item::End { count: 1 }), Effect::Done]
    );
}
