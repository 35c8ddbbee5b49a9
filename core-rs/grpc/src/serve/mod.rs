//! The server's side: calls of one method are answered here, every other call is passed on to a server behind.
//!
//! So that the calls which carry nearly everything cost one wake-up each way, whatever language the rest is written in.

mod answer;
mod behind;
mod connection;
mod news;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::Status;

pub use news::News;

use connection::serve_connection;

/// After a failure to accept, such as too many descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to say goodbye.
const FAREWELL: Duration = Duration::from_secs(1);

/// Who answers the calls of the method.
pub trait Exchange: Send + Sync + 'static {
    /// A call begins. Whenever there is something for its caller, `news` is told.
    fn open(&self, news: News) -> u64;
    /// The caller sends a message. False: it is not listened to until it has taken everything. An error ends the call.
    fn take(&self, caller: u64, message: Bytes) -> Result<bool, Status>;
    /// The next message for the caller; none when it has everything.
    fn next(&self, caller: u64) -> Option<Vec<u8>>;
    /// The call is over, however it ended.
    fn close(&self, caller: u64);
}

/// What is served how.
pub struct ServerConfig {
    /// "/package.Service/Method".
    pub method: String,
    /// The largest message that is taken.
    pub message_bytes: usize,
    /// The name of the abstract Unix socket of the server behind.
    pub behind: String,
    /// A caller is sent no more than one batch of messages in this time: under load each then has more in it.
    pub pace: Duration,
    /// How often it is asked whether a peer is there.
    pub ping_every: Duration,
    /// How long it may take to answer that.
    pub ping_patience: Duration,
}

/// How far the server is with ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    /// Calls of the method end once their callers have everything.
    Finishing,
    /// Connections are closed.
    Leaving,
}

pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) exchange: Arc<dyn Exchange>,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// Bound from the beginning, so that an address in use is known before anything else; serves from `start` on.
pub struct Server {
    address: SocketAddr,
    listener: Mutex<Option<TcpListener>>,
    phase: watch::Sender<Phase>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Server {
    /// `listener` as it is bound.
    pub fn new(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            address: listener.local_addr()?,
            listener: Mutex::new(Some(listener)),
            phase: watch::Sender::new(Phase::Serving),
            thread: Mutex::default(),
        })
    }

    /// With its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of its own. Nothing happens the second time.
    pub fn start(&self, config: ServerConfig, exchange: Arc<dyn Exchange>) -> io::Result<()> {
        let Some(listener) = self.listener.lock().take() else {
            return Ok(());
        };
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let shared = Arc::new(Shared {
            config,
            exchange,
            phase: self.phase.subscribe(),
        });
        let thread = thread::Builder::new()
            .name("omniflow-edge".to_owned())
            .spawn(move || runtime.block_on(serve(listener, shared)))?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Calls of the method end once their callers have everything that there is for them. Others go on.
    pub fn finish(&self) {
        self.phase.send_if_modified(|phase| {
            std::mem::replace(phase, Phase::Finishing) < Phase::Finishing
        });
    }

    /// Ends every call and closes the listener; waits for the thread.
    pub fn stop(&self) {
        self.listener.lock().take();
        self.phase.send_replace(Phase::Leaving);
        if let Some(thread) = self.thread.lock().take() {
            // If it panicked there is nothing left to close.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The server's thread.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    let mut phase = shared.phase.clone();
    // Each connection holds a receiver.
    let here = watch::Sender::new(());
    let accepting = async {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    let (shared, here) = (Arc::clone(&shared), here.subscribe());
                    tokio::spawn(async move {
                        serve_connection(socket, &shared).await;
                        drop(here);
                    });
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        _ = phase.wait_for(|phase| *phase == Phase::Leaving) => {}
    }
    drop(listener);
    let _ = timeout(FAREWELL, here.closed()).await;
}
