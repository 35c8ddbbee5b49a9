//! What is left of an attempt when the next one starts: rule 12, as far as it is the resolver's.

use omniflow_flow::{Arrival, EdgeId, Effect, Item, NodeId, ResolverError};

use crate::support::Word;
use crate::support::build::{FlowBuilder, out, text};
use crate::support::place::{NODE, Place, ROOT, deliver, first, join, optional};

#[test]
fn rule_12_frames_of_an_earlier_attempt_are_dropped_unless_delivered() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.close(0);
    place.frame(1, 0, 20);
    place.frame(1, 2, 99);
    place.took();
    let of_attempt_2 = |seq, word| Item::Frame {
        seq,
        payload: Word(word),
    };
    assert_eq!(
        place.accept(1, 2, of_attempt_2(0, 20)),
        Arrival::Duplicate,
        "it stays valid"
    );
    assert_eq!(place.frame(1, 1, 21), Arrival::Stale, "attempt 1 is over");
    assert_eq!(place.took(), []);
    place.accept(1, 2, of_attempt_2(1, 21));
    assert_eq!(
        place.took(),
        [deliver(1, 1, 21)],
        "what attempt 1 had sent ahead is gone"
    );
    place.accept(1, 2, of_attempt_2(2, 22));
    assert_eq!(place.took(), [deliver(1, 2, 22)]);
}

#[test]
fn rule_12_a_new_attempt_that_says_something_else_is_a_contradiction() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.close(0);
    place.frame(1, 0, 20);
    place.end(1, 1);
    place.took();
    let contradiction = |seq| Effect::Contradiction {
        edge: EdgeId(1),
        key: ROOT,
        seq,
    };
    assert_eq!(place.accept(1, 2, first(21)), Arrival::Duplicate);
    assert_eq!(place.took(), [contradiction(0)]);
    place.accept(
        1,
        2,
        Item::Frame {
            seq: 1,
            payload: Word(3),
        },
    );
    assert_eq!(place.took(), [contradiction(1)], "more than there had been");
    place.accept(1, 2, Item::End { count: 0 });
    assert_eq!(place.took(), [contradiction(0)], "fewer");
    place.accept(1, 2, Item::Closed);
    assert_eq!(place.took(), [contradiction(0)]);
}

#[test]
fn rule_12_a_producer_that_is_known_to_have_restarted_makes_its_old_frames_stale() {
    let mut flow = FlowBuilder::new();
    let a = flow.input("a", text());
    let reader = flow.node("read", &[("x", text(), out(NodeId(1), 0))], &[text()]);
    let teller = flow.node("tell", &[("a", text(), a)], &[text()]);
    flow.result("r", text(), &[out(reader, 0)]);
    let mut place = Place::hosting(&flow.graph(), &[]);
    place.resolver.producer_restarted(teller, &ROOT, 2);
    assert!(place.resolver.is_empty());
    assert_eq!(place.frame(0, 0, 1), Arrival::Stale);
    assert_eq!(place.accept(0, 2, first(1)), Arrival::Parked);
}

#[test]
fn rule_12_hosting_under_a_higher_epoch_starts_clean() {
    let mut place = Place::hosting(&join(), &[NODE]);
    place.frame(0, 0, 1);
    place.frame(1, 0, 2);
    place.took();
    place
        .resolver
        .host(NODE, &ROOT, 2, &mut place.effects)
        .unwrap();
    assert_eq!(place.took(), []);
    assert_eq!(place.frame(0, 0, 1), Arrival::Taken);
    place.frame(1, 0, 2);
    assert!(matches!(
        &place.took()[..],
        [Effect::Activate { epoch: 2, .. }]
    ));
    let stale = place.resolver.host(NODE, &ROOT, 1, &mut place.effects);
    assert!(matches!(
        stale,
        Err(ResolverError::StaleEpoch {
            current: 2,
            asked: 1,
            ..
        })
    ));
    assert_eq!(place.resolver.hosted(NODE, &ROOT), Some(2));
    place.resolver.unhost(NODE, &ROOT);
    assert!(place.resolver.is_empty());
}
