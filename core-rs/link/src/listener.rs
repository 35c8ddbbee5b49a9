//! Waiting for peers.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{Mutex, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::address::Address;
use crate::endpoint::Endpoint;
use crate::error::{GreetingProblem, LinkError};
use crate::reader::LinkReader;
use crate::sender::LinkSender;
use crate::socket::Socket;

/// How long a peer may take to greet.
const PATIENCE: Duration = Duration::from_secs(5);
/// When accepting fails (no descriptor left, for instance), it is tried again after this.
const PAUSE: Duration = Duration::from_millis(100);
/// Links that were greeted and that nobody has taken.
const BACKLOG: usize = 64;

type Accepted = Result<(LinkSender, LinkReader), LinkError>;

/// A listening socket. A Unix socket's file is removed when this is dropped; links that it accepted go on, and those of
/// the endpoint's other listeners can be resumed there.
#[derive(Debug)]
pub struct Listener {
    accepted: Mutex<mpsc::Receiver<Accepted>>,
    address: Address,
    task: AbortHandle,
    /// Of a Unix socket.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Inner {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Accepted, and not secured yet.
enum Raw {
    Socket(Socket),
    Tcp(TcpStream),
}

/// The file of a Unix socket, as this process made it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have taken the path over since: then the file is not ours to remove.
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    pub(crate) async fn bind(endpoint: Endpoint, address: &Address) -> Result<Self, LinkError> {
        let (inner, address, file) = match address {
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                let inode = fs::metadata(path)
                    .map_err(LinkError::io("looking at the socket file"))?
                    .ino();
                let file = SocketFile {
                    path: path.clone(),
                    inode,
                };
                (Inner::Unix(listener), address.clone(), Some(file))
            }
            Address::Tcp { host, port } => {
                let listener = TcpListener::bind((host.as_str(), *port))
                    .await
                    .map_err(|error| bind_error(error, address))?;
                let port = listener
                    .local_addr()
                    .map_err(LinkError::io("asking for the port"))?
                    .port();
                (
                    Inner::Tcp(listener),
                    Address::Tcp {
                        host: host.clone(),
                        port,
                    },
                    None,
                )
            }
        };
        let (tell, accepted) = mpsc::channel(BACKLOG);
        let task = tokio::spawn(accept(inner, endpoint, tell)).abort_handle();
        Ok(Self {
            accepted: Mutex::new(accepted),
            address,
            task,
            _file: file,
        })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next link that a peer opens, or why one that tried is refused: what is wrong with one peer says nothing about
    /// the next.
    pub async fn accept(&self) -> Result<(LinkSender, LinkReader), LinkError> {
        let next = self.accepted.lock().await.recv().await;
        next.unwrap_or(Err(LinkError::Closed))
    }
}

/// Greets every peer on its own, so that none waits for a slow one.
async fn accept(inner: Inner, endpoint: Endpoint, tell: mpsc::Sender<Accepted>) {
    let mut greetings = JoinSet::new();
    loop {
        match inner.accept().await {
            Ok((raw, peer)) => {
                let (endpoint, tell) = (endpoint.clone(), tell.clone());
                greetings.spawn(async move {
                    if let Some(accepted) = greet(&endpoint, raw, &peer).await.transpose() {
                        // Nobody takes it when the listener is being dropped.
                        let _ = tell.send(accepted).await;
                    }
                });
            }
            Err(error) => {
                let _ = tell.send(Err(error)).await;
                sleep(PAUSE).await;
            }
        }
        while greetings.try_join_next().is_some() {}
    }
}

async fn greet(
    endpoint: &Endpoint,
    raw: Raw,
    peer: &str,
) -> Result<Option<(LinkSender, LinkReader)>, LinkError> {
    let greeted = timeout(PATIENCE, async {
        let socket = match (raw, endpoint.tls()) {
            (Raw::Socket(socket), _) => socket,
            (Raw::Tcp(stream), Some(tls)) => Socket::Tls(Box::new(tls.accept(stream, peer).await?)),
            (Raw::Tcp(stream), None) => Socket::Tcp(stream),
        };
        endpoint.greet(socket, peer).await
    });
    greeted.await.unwrap_or_else(|_| {
        Err(LinkError::Greeting {
            peer: peer.to_owned(),
            problem: GreetingProblem::Slow(PATIENCE),
        })
    })
}

impl Inner {
    /// The next socket, and who is at its other end, for messages.
    async fn accept(&self) -> Result<(Raw, String), LinkError> {
        let accepting = LinkError::io("accepting a link");
        match self {
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await.map_err(accepting)?;
                Ok((
                    Raw::Socket(Socket::Unix(stream)),
                    "a process on this host".to_owned(),
                ))
            }
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await.map_err(accepting)?;
                stream
                    .set_nodelay(true)
                    .map_err(LinkError::io("switching Nagle's algorithm off"))?;
                Ok((Raw::Tcp(stream), format!("the peer at {peer}")))
            }
        }
    }
}

fn bind_error(error: io::Error, address: &Address) -> LinkError {
    match error.kind() {
        io::ErrorKind::AddrInUse => LinkError::AddressInUse(address.to_string()),
        _ => LinkError::Io {
            doing: "listening",
            source: error,
        },
    }
}

fn bind_unix(path: &Path) -> Result<UnixListener, LinkError> {
    let address = Address::Unix(path.to_owned());
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
            fs::remove_file(path)
                .map_err(LinkError::io("removing a dead process's socket file"))?;
            UnixListener::bind(path).map_err(|error| bind_error(error, &address))
        }
        other => other.map_err(|error| bind_error(error, &address)),
    }
}

/// Only a socket that refuses is a dead process's; anything else at the path is somebody's.
fn is_stale(path: &Path) -> bool {
    matches!(
        std::os::unix::net::UnixStream::connect(path),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && is_socket(path)
    )
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}
