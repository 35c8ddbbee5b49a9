//! The one thread that does I/O: listens, dials, reads, and carries out what the core asks for.

mod departures;
mod farewell;
mod handshake;
mod incoming;
mod outgoing;
mod shared;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use omniflow_link::{Address, Endpoint, LinkError, Listener};
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval};

use crate::error::NodeError;
use crate::ids::PeerIx;
use crate::sharing;
pub(crate) use handshake::PATIENCE;
pub(crate) use shared::{Identity, Shared};

const HOUSEKEEPING: Duration = Duration::from_secs(5);
/// When the worker closes, its peers have this long to say that they have its last messages.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Binds every address, then serves them on a thread of its own. Returns where it listens, with real ports.
pub(crate) fn start(
    shared: Arc<Shared>,
    dials: UnboundedReceiver<PeerIx>,
    listen: &[Address],
) -> Result<(JoinHandle<()>, Vec<String>), NodeError> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listen = listen.to_vec();
    let (tell, bound) = channel();
    // Binding needs the runtime, which the caller's thread may not enter: it may be inside another one.
    let run = async move {
        match bind_all(&shared.endpoint, &listen).await {
            Ok(listeners) => {
                let addresses = listeners.iter().map(|at| at.address().to_string());
                let _ = tell.send(Ok(addresses.collect()));
                serve(shared, dials, listeners).await;
            }
            Err(error) => {
                let _ = tell.send(Err(error));
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("omniflow-io".to_owned())
        .spawn(move || runtime.block_on(run))?;
    let addresses = bound.recv().map_err(std::io::Error::other)??;
    Ok((thread, addresses))
}

async fn bind_all(endpoint: &Endpoint, listen: &[Address]) -> Result<Vec<Listener>, NodeError> {
    let mut listeners = Vec::new();
    for address in listen {
        listeners.push(endpoint.bind(address).await?);
    }
    Ok(listeners)
}

/// Runs until `Shared::stop`. What is spawned ends with the runtime.
async fn serve(shared: Arc<Shared>, dials: UnboundedReceiver<PeerIx>, listeners: Vec<Listener>) {
    let accept = |listener| tokio::spawn(accept(Arc::clone(&shared), listener));
    let accepting: Vec<_> = listeners.into_iter().map(accept).collect();
    tokio::spawn(dial(Arc::clone(&shared), dials));
    tokio::spawn(departures::run(Arc::clone(&shared)));
    tokio::spawn(sharing::listen(Arc::clone(&shared)));
    tokio::spawn(keep_house(Arc::clone(&shared)));
    shared.stopped().await;
    // Who has lost a link to this worker would dial again: it is not to get another one.
    accepting.iter().for_each(|task| task.abort());
    shared.report();
    farewell::farewell(shared.all_links(), LAST_WORDS).await;
}

async fn accept(shared: Arc<Shared>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((link, reader)) => {
                tokio::spawn(incoming::serve(Arc::clone(&shared), link, reader));
            }
            Err(LinkError::Closed) => return,
            // What is wrong with one peer is told to that one, and says nothing about the next.
            Err(_) => {}
        }
    }
}

async fn dial(shared: Arc<Shared>, mut dials: UnboundedReceiver<PeerIx>) {
    while let Some(peer) = dials.recv().await {
        tokio::spawn(outgoing::keep(Arc::clone(&shared), peer));
    }
}

async fn keep_house(shared: Arc<Shared>) {
    let mut ticks = interval(HOUSEKEEPING.min(shared.sharing.lease()));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        shared.act(|core, now, out| core.housekeeping(now, out));
        shared.sharing.housekeeping();
    }
}
