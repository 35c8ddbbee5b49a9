//! When a node fires, and when it is closed: rules 1, 2 and 5, on flows small enough to read.

use omniflow_flow::{Arrival, Effect, InputValue, Item};

use crate::support::place::{
    NODE, Place, ROOT, activate, choice, deliver, join, optional, plain, result, send, stream_end,
    unwanted,
};

#[test]
fn rule_01_all_required_ports_make_one_activation() {
    let mut place = Place::hosting(&join(), &[NODE]);
    assert_eq!(place.frame(1, 0, 20), Arrival::Taken);
    assert_eq!(place.took(), []);
    assert_eq!(place.resolver.footprint().frames, 1);
    place.frame(0, 0, 10);
    assert_eq!(
        place.took(),
        [activate(0, &[(0, plain(10)), (1, plain(20))])]
    );
    assert_eq!(place.frame(0, 0, 10), Arrival::Duplicate);
    assert_eq!(place.took(), []);
    assert_eq!(place.resolver.footprint().frames, 0);
}

#[test]
fn rule_01_the_first_declared_of_several_complete_alternatives_wins() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.frame(1, 0, 21);
    place.frame(1, 1, 22);
    place.frame(0, 0, 11);
    assert_eq!(place.took(), []);
    place.frame(2, 0, 30);
    assert_eq!(
        place.took(),
        [
            activate(0, &[(0, InputValue::Stream), (2, plain(30))]),
            deliver(0, 0, 11),
            unwanted(1)
        ],
        "one arrival completed both; the loser is drained and its producer told"
    );
    assert_eq!(place.resolver.footprint().frames, 0);
    assert_eq!(place.frame(1, 2, 23), Arrival::Unwanted);
    assert_eq!(place.took(), []);
}

#[test]
fn rule_01_the_alternative_that_is_complete_first_wins() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.frame(2, 0, 30);
    place.frame(1, 0, 21);
    assert_eq!(
        place.took(),
        [
            activate(1, &[(1, InputValue::Stream), (2, plain(30))]),
            deliver(1, 0, 21),
            unwanted(0)
        ]
    );
}

#[test]
fn rule_01_a_loser_that_has_ended_needs_no_telling() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.frame(1, 0, 21);
    place.end(1, 1);
    place.frame(0, 0, 11);
    place.frame(2, 0, 30);
    assert!(!place.took().contains(&unwanted(1)));
}

#[test]
fn rule_01_a_loser_may_go_on_for_long() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.frame(2, 0, 30);
    place.frame(0, 0, 11);
    place.took();
    assert_eq!(place.frame(1, 1 << 20, 21), Arrival::Unwanted);
    assert_eq!(place.end(1, 1 << 21), Arrival::Unwanted);
    assert_eq!(place.took(), []);
}

#[test]
fn rule_01_an_optional_port_is_waited_for_and_delivers_none_when_closed() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.frame(1, 0, 21);
    assert_eq!(
        place.took(),
        [],
        "the optional port is neither filled nor closed"
    );
    place.close(0);
    assert_eq!(
        place.took(),
        [
            activate(0, &[(0, InputValue::None), (1, InputValue::Stream)]),
            deliver(1, 0, 21)
        ]
    );
}

#[test]
fn rule_01_an_optional_port_that_is_filled_delivers_its_value() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.frame(0, 0, 10);
    place.end(1, 0);
    assert_eq!(
        place.took(),
        [
            activate(0, &[(0, plain(10)), (1, InputValue::Stream)]),
            stream_end(1, 0)
        ]
    );
}

#[test]
fn rule_01_frames_ahead_of_their_bind_wait_for_it() {
    let graph = join();
    let mut place = Place::hosting(&graph, &[]);
    assert_eq!(place.frame(0, 0, 10), Arrival::Parked);
    assert_eq!(place.frame(1, 0, 20), Arrival::Parked);
    assert_eq!(place.took(), []);
    place
        .resolver
        .host(NODE, &ROOT, 1, &mut place.effects)
        .unwrap();
    assert_eq!(
        place.took(),
        [activate(0, &[(0, plain(10)), (1, plain(20))])]
    );
    place
        .resolver
        .host(NODE, &ROOT, 1, &mut place.effects)
        .unwrap();
    assert_eq!(place.took(), [], "the same bind again changes nothing");
}

#[test]
fn rule_02_an_empty_stream_fires_and_a_closed_one_closes() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.frame(2, 0, 30);
    place.close(0);
    assert_eq!(place.took(), [], "the other alternative still can");
    place.end(1, 0);
    assert_eq!(
        place.took(),
        [
            activate(1, &[(1, InputValue::Stream), (2, plain(30))]),
            stream_end(1, 0)
        ]
    );
}

#[test]
fn rule_02_a_node_whose_alternatives_are_all_closed_closes_its_outputs() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.close(0);
    place.close(1);
    assert_eq!(
        place.took(),
        [
            Effect::NodeClosed {
                node: NODE,
                key: ROOT
            },
            send(3, Item::Closed),
            unwanted(2)
        ],
        "and tells the producer of the input that is still open"
    );
    assert!(place.resolver.is_empty());
    assert_eq!(place.frame(2, 0, 30), Arrival::Unwanted);
}

#[test]
fn rule_02_dead_paths_end_at_the_results() {
    let graph = join();
    let mut place = Place::results(&graph);
    place
        .resolver
        .host(NODE, &ROOT, 1, &mut place.effects)
        .unwrap();
    place.close(1);
    place.took();
    place.close(2);
    assert_eq!(place.took(), [result(0, Item::Closed), Effect::Done]);
}
