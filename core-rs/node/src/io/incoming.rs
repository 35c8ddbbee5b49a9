//! Links that others dial: the scheduler's, and those of workers that produce for nodes here.

use std::sync::Arc;

use omniflow_link::{LinkReader, LinkSender, Received};
use omniflow_wire::{Frame, LinkMessage, v1};
use tokio::time::timeout;

use crate::io::handshake::{self, PATIENCE, old_term};
use crate::io::shared::{Shared, packed};
use crate::sharing::{self, BorrowError, Source};

/// How the scheduler calls itself in a Hello.
const SCHEDULER: &str = "scheduler";

enum From {
    Scheduler,
    /// With what it lends, if it does so to this worker.
    Peer(Option<Arc<Source>>),
}

/// Serves one accepted link until it ends. While its connection is broken it waits, for as long as the link may.
pub(crate) async fn serve(shared: Arc<Shared>, link: LinkSender, mut reader: LinkReader) {
    let mut messages = Vec::new();
    let hello = match handshake::first(&mut reader, &mut messages).await {
        Ok(LinkMessage::Hello(hello)) => hello,
        // Not one of ours: nothing to say to it.
        Ok(_) | Err(_) => return link.abort(),
    };
    if let Err(error) = shared.identity.check(&hello) {
        return refuse(&shared, &link, *error).await;
    }
    if hello.from == SCHEDULER {
        match shared.scheduler_up(hello.term, &link) {
            Ok(number) => {
                read(&shared, From::Scheduler, &link, &mut reader, messages).await;
                shared.scheduler_down(number);
            }
            Err(highest) => refuse(&shared, &link, old_term(hello.term, highest)).await,
        }
    } else {
        let source = sharing::connect(&shared, &hello).await;
        let welcome = v1::Welcome {
            borrows: source.is_some(),
            ..shared.welcome(shared.core.lock().term(), None)
        };
        let _ = link.send(packed(&LinkMessage::from(welcome)));
        read(&shared, From::Peer(source), &link, &mut reader, messages).await;
    }
    link.close();
}

async fn refuse(shared: &Shared, link: &LinkSender, error: v1::Error) {
    let term = shared.core.lock().term();
    let welcome = shared.welcome(term, Some(error));
    let _ = link.send(packed(&LinkMessage::from(welcome)));
    link.close();
    let _ = timeout(PATIENCE, link.ended()).await;
}

/// Reads until the link ends, or brings what it must not.
async fn read(
    shared: &Shared,
    from: From,
    link: &LinkSender,
    reader: &mut LinkReader,
    mut messages: Vec<Received>,
) {
    loop {
        match handle(shared, &from, link, &mut messages) {
            Ok(()) => {}
            Err(Fault::Malformed) => return link.abort(),
            Err(Fault::Lent(error)) => return refuse(shared, link, error.to_proto()).await,
        }
        match reader.read(&mut messages).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => return link.abort(),
        }
    }
}

/// Everything that one read brought, under one lock.
fn handle(
    shared: &Shared,
    from: &From,
    link: &LinkSender,
    messages: &mut Vec<Received>,
) -> Result<(), Fault> {
    let mut for_core = Vec::with_capacity(messages.len());
    let mut outcome = Ok(());
    for received in messages.drain(..) {
        match LinkMessage::decode(received.kind, received.body) {
            Ok(LinkMessage::Ping(ping)) => {
                let pong = v1::Pong { nonce: ping.nonce };
                let _ = link.send(packed(&LinkMessage::from(pong)));
            }
            Ok(LinkMessage::Pong(_)) => {}
            Ok(LinkMessage::LentFrame(lent)) => match taken(shared, from, lent) {
                Ok(frame) => for_core.push(LinkMessage::from(frame)),
                Err(fault) => {
                    outcome = Err(fault);
                    break;
                }
            },
            Ok(message) => {
                if let LinkMessage::Frame(frame) = &message {
                    shared.sharing.note_inline(&frame.payload);
                }
                for_core.push(message);
            }
            Err(_) => {
                outcome = Err(Fault::Malformed);
                break;
            }
        }
    }
    if !for_core.is_empty() {
        shared.act(|core, now, out| {
            for message in for_core {
                let handled = match from {
                    From::Scheduler => core.from_scheduler(message, now, out),
                    From::Peer(_) => core.from_peer(message, now, out),
                };
                if handled.is_err() && outcome.is_ok() {
                    outcome = Err(Fault::Malformed);
                }
            }
        });
    }
    outcome
}

/// Why a link cannot go on.
enum Fault {
    Malformed,
    Lent(BorrowError),
}

/// The frame that a worker of this host lends.
fn taken(shared: &Shared, from: &From, lent: v1::LentFrame) -> Result<Frame, Fault> {
    let From::Peer(source) = from else {
        return Err(Fault::Malformed);
    };
    let frame = shared.sharing.incoming(source.as_ref(), lent);
    frame.map_err(Fault::Lent)
}
