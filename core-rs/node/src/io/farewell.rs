//! The end of a worker: its peers take its last messages, as long as they are there.

use std::time::Duration;

use omniflow_link::LinkSender;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How often it is seen whether a connection is there.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// A broken connection to a peer that lives is back by then.
const COMES_BACK: Duration = Duration::from_millis(200);

/// Closes the links, and waits until each peer has said that it has everything, is gone, or has had so long.
pub(super) async fn farewell(links: Vec<LinkSender>, patience: Duration) {
    links.iter().for_each(LinkSender::close);
    let mut open = JoinSet::new();
    for link in links {
        open.spawn(async move {
            tokio::select! {
                () = link.ended() => {}
                () = gone(&link) => {}
            }
        });
    }
    // A peer that doesn't read loses what it did not take.
    let _ = timeout(patience, open.join_all()).await;
}

/// Waits until the peer is not there any more: its connection broke, and it does not come for another one.
async fn gone(link: &LinkSender) {
    loop {
        while link.is_connected() {
            sleep(LOOK_AGAIN).await;
        }
        sleep(COMES_BACK).await;
        if !link.is_connected() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use omniflow_link::{Address, Endpoint, LinkConfig};
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// Much longer than a test may take.
    const FOR_EVER: Duration = Duration::from_secs(3_600);
    const PATIENCE: Duration = Duration::from_secs(20);

    fn runtime() -> Runtime {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    }

    #[test]
    fn nobody_waits_for_a_peer_that_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let way = Address::Unix(folder.path().join("link.sock"));
        let config = LinkConfig {
            heartbeat_limit: FOR_EVER,
            resume_within: FOR_EVER,
            ..LinkConfig::default()
        };
        let (here, there) = (runtime(), runtime());
        let (bound, came) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let (tell, listens) = bound;
        let (leave, stays) = came;
        let peer_way = way.clone();
        let peer = std::thread::spawn(move || {
            let dialled = there.block_on(async {
                listens.recv().expect("it listens");
                let endpoint = Endpoint::new(config);
                endpoint
                    .dial(&[peer_way], PATIENCE)
                    .await
                    .expect("reachable")
            });
            stays.recv().expect("told");
            // As if it were killed: its sockets close without a word.
            there.shutdown_background();
            drop(dialled);
        });
        here.block_on(async {
            let listener = Endpoint::new(config).bind(&way).await.expect("bound");
            tell.send(()).expect("it dials");
            let (link, mut reader) = listener.accept().await.expect("accepted");
            tokio::spawn(async move { reader.read(&mut Vec::new()).await });
            leave.send(()).expect("it stays");
            peer.join().expect("gone");
            let waited = timeout(PATIENCE, farewell(vec![link], FOR_EVER)).await;
            assert!(waited.is_ok(), "it waits for a peer that is gone");
        });
    }
}
