//! What running activations, inputs and peers may do, and what is an error.

use omniflow_flow::{Arrival, EdgeId, Effect, Item, PortIx, ResolverError};

use crate::support::Word;
use crate::support::build::{FlowBuilder, out, text, texts};
use crate::support::place::{NODE, Place, ROOT, choice, first, join, optional, send, unwanted};

#[test]
fn outputs_are_numbered_and_go_to_every_edge() {
    let mut flow = FlowBuilder::new();
    let a = flow.input("a", text());
    let node = flow.node("tell", &[("a", text(), a)], &[texts()]);
    let reader = flow.node("read", &[("x", texts(), out(node, 0))], &[text()]);
    flow.result("r", texts(), &[out(node, 0)]);
    flow.result("s", text(), &[out(reader, 0)]);
    let mut place = Place::hosting(&flow.graph(), &[NODE]);
    place.frame(0, 0, 1);
    place.took();
    for word in [7, 8] {
        place
            .resolver
            .emit(NODE, &ROOT, PortIx(0), Word(word), &mut place.effects)
            .unwrap();
    }
    let second = Item::Frame {
        seq: 1,
        payload: Word(8),
    };
    assert_eq!(
        place.took(),
        [
            send(1, first(7)),
            send(2, first(7)),
            send(1, second.clone()),
            send(2, second)
        ]
    );
    place
        .resolver
        .unwanted(EdgeId(1), &ROOT, &mut place.effects)
        .unwrap();
    assert_eq!(place.took(), []);
    place.finish(NODE);
    assert_eq!(
        place.took(),
        [send(2, Item::End { count: 2 })],
        "the edge that nobody wants is left alone"
    );
    assert!(place.resolver.is_empty());
}

#[test]
fn an_activation_that_nobody_reads_is_unneeded_once() {
    let mut place = Place::hosting(&join(), &[NODE]);
    place.frame(0, 0, 1);
    place.frame(1, 0, 2);
    place.took();
    for _ in 0..2 {
        place
            .resolver
            .unwanted(EdgeId(2), &ROOT, &mut place.effects)
            .unwrap();
    }
    assert_eq!(
        place.took(),
        [Effect::Unneeded {
            node: NODE,
            key: ROOT
        }]
    );
}

#[test]
fn finish_ends_streams_closes_optional_outputs_and_stops_unread_inputs() {
    let mut place = Place::hosting(&optional(), &[NODE]);
    place.close(0);
    place.frame(1, 0, 20);
    place.took();
    place.finish(NODE);
    assert_eq!(
        place.took(),
        [
            send(2, Item::End { count: 0 }),
            send(3, Item::Closed),
            unwanted(1)
        ]
    );
    assert_eq!(place.frame(1, 1, 21), Arrival::Unwanted);
    assert!(place.resolver.is_empty());
}

#[test]
fn what_a_role_may_not_do_is_an_error_and_changes_nothing() {
    let mut place = Place::hosting(&join(), &[NODE]);
    let not_running = ResolverError::NotRunning {
        node: NODE,
        key: ROOT,
    };
    let Place { resolver, effects } = &mut place;
    assert_eq!(
        resolver.emit(NODE, &ROOT, PortIx(0), Word(1), effects),
        Err(not_running.clone())
    );
    place.frame(0, 0, 1);
    place.frame(1, 0, 2);
    place.took();
    let Place { resolver, effects } = &mut place;
    assert_eq!(
        resolver.finish(NODE, &ROOT, effects),
        Err(ResolverError::MissingOutput(PortIx(0)))
    );
    assert_eq!(
        resolver.end(NODE, &ROOT, PortIx(0), effects),
        Err(ResolverError::NotAStream(PortIx(0)))
    );
    assert_eq!(
        resolver.emit(NODE, &ROOT, PortIx(9), Word(1), effects),
        Err(ResolverError::UnknownPort(PortIx(9)))
    );
    resolver
        .emit(NODE, &ROOT, PortIx(0), Word(1), effects)
        .unwrap();
    assert_eq!(
        resolver.emit(NODE, &ROOT, PortIx(0), Word(2), effects),
        Err(ResolverError::PortFull(PortIx(0)))
    );
    resolver.finish(NODE, &ROOT, effects).unwrap();
    assert_eq!(resolver.finish(NODE, &ROOT, effects), Err(not_running));
    assert_eq!(place.took(), [send(2, first(1))]);
}

#[test]
fn what_a_peer_may_not_send_is_an_error_and_changes_nothing() {
    let mut place = Place::hosting(&choice(), &[NODE]);
    place.frame(0, 1, 11);
    let before = place.resolver.footprint();
    let wrong = [
        (
            2,
            Item::Frame {
                seq: 1,
                payload: Word(0),
            },
        ),
        (2, Item::End { count: 1 }),
        (0, Item::End { count: 1 }),
        (0, Item::Closed),
        (
            0,
            Item::Frame {
                seq: 1 << 40,
                payload: Word(0),
            },
        ),
    ];
    for (edge, item) in wrong {
        let error = place
            .resolver
            .accept(EdgeId(edge), &ROOT, 1, item.clone(), &mut place.effects)
            .unwrap_err();
        assert!(
            matches!(error, ResolverError::Violation { .. }),
            "{item:?}: {error}"
        );
    }
    let unknown = place
        .resolver
        .accept(EdgeId(99), &ROOT, 1, Item::Closed, &mut place.effects);
    assert_eq!(unknown, Err(ResolverError::UnknownEdge(EdgeId(99))));
    let result = place
        .resolver
        .accept(EdgeId(3), &ROOT, 1, Item::Closed, &mut place.effects);
    assert_eq!(result, Err(ResolverError::NoResultsHere(EdgeId(3))));
    assert_eq!((place.took(), place.resolver.footprint()), (vec![], before));
}

#[test]
fn inputs_are_fed_as_their_types_say() {
    let mut place = Place::results(&optional());
    let Place { resolver, effects } = &mut place;
    let (image, words) = (PortIx(0), PortIx(1));
    assert_eq!(
        resolver.close_input(words, effects),
        Err(ResolverError::MissingOutput(words))
    );
    assert_eq!(
        resolver.end_input(image, effects),
        Err(ResolverError::NotAStream(image))
    );
    resolver.close_input(image, effects).unwrap();
    assert_eq!(
        resolver.feed_input(image, Word(1), effects),
        Err(ResolverError::PortFull(image))
    );
    resolver.feed_input(words, Word(1), effects).unwrap();
    resolver.end_input(words, effects).unwrap();
    let from_job = |edge, item| Effect::Send {
        edge: EdgeId(edge),
        key: ROOT,
        epoch: 0,
        item,
    };
    assert_eq!(
        place.took(),
        [
            from_job(0, Item::Closed),
            from_job(1, first(1)),
            from_job(1, Item::End { count: 1 })
        ]
    );
}
