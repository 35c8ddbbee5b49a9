//! Links that this worker dials, to the consumers of what it produces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use omniflow_link::{LinkReader, LinkSender, Received};
use omniflow_wire::{LinkMessage, v1};
use tokio::time::sleep;

use crate::ids::PeerIx;
use crate::io::handshake::{self, PATIENCE};
use crate::io::shared::{Shared, packed};
use crate::sharing::ReaderId;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A peer that does not answer for this long is reported; dialling goes on.
const REPORT_AFTER: Duration = Duration::from_millis(500);

/// Keeps a link to a peer until nothing that was sent to it could be lost with the link.
pub(crate) async fn keep(shared: Arc<Shared>, peer: PeerIx) {
    let mut trouble = Trouble::default();
    loop {
        match connect(&shared, peer).await {
            Ok(Connected {
                link,
                mut ear,
                reader,
            }) => {
                shared.peer_up(peer, &link, reader);
                attend(&mut ear).await;
                link.abort();
                // It begins only now: a peer that has just died is the scheduler's to notice first.
                trouble = Trouble::default();
            }
            Err(cause) => {
                if trouble.is_to_be_reported() {
                    shared.act(|core, _, out| core.peer_unreachable(peer, cause, out));
                }
            }
        }
        if !shared.peer_down(peer) {
            return;
        }
        sleep(trouble.pause()).await;
    }
}

/// How long a peer has not answered.
struct Trouble {
    since: Instant,
    next_pause: Duration,
    reported: bool,
}

impl Default for Trouble {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            next_pause: FIRST_PAUSE,
            reported: false,
        }
    }
}

impl Trouble {
    /// Once per outage.
    fn is_to_be_reported(&mut self) -> bool {
        let due = !self.reported && self.since.elapsed() >= REPORT_AFTER;
        self.reported |= due;
        due
    }

    fn pause(&mut self) -> Duration {
        let pause = self.next_pause;
        self.next_pause = (pause * 2).min(LONGEST_PAUSE);
        pause
    }
}

/// A link that the peer has welcomed.
struct Connected {
    link: LinkSender,
    ear: LinkReader,
    reader: Option<ReaderId>,
}

async fn connect(shared: &Shared, peer: PeerIx) -> Result<Connected, String> {
    let (name, incarnation, addresses) = shared.core.lock().peer(peer);
    let dialled = shared.endpoint.dial(&addresses, PATIENCE).await;
    let (link, mut ear) = dialled.map_err(|error| format!("worker {name}: {error}"))?;
    let arena = shared.sharing.address();
    let hello = LinkMessage::from(shared.identity.hello(&name, &incarnation, arena));
    let _ = link.send(packed(&hello));
    let refused = match handshake::first(&mut ear, &mut Vec::new()).await {
        Ok(LinkMessage::Welcome(v1::Welcome {
            error: None,
            borrows,
            ..
        })) => {
            let reader = match borrows {
                // It has connected, which is seen in a moment.
                true => {
                    let lender = &shared.sharing.lender;
                    lender.reader(&name, &incarnation, PATIENCE).await
                }
                false => None,
            };
            return Ok(Connected { link, ear, reader });
        }
        Ok(LinkMessage::Welcome(welcome)) => welcome.error.unwrap_or_default().message,
        Ok(other) => format!("it answered a Hello with {}", other.name()),
        Err(problem) => problem,
    };
    link.abort();
    Err(format!("worker {name}: {refused}"))
}

/// Reads until the link is lost. A connection that breaks and comes back in time is not noticed here.
async fn attend(reader: &mut LinkReader) {
    let mut messages: Vec<Received> = Vec::new();
    while let Ok(true) = reader.read(&mut messages).await {
        // Consumers have nothing to say yet.
        messages.clear();
    }
}
