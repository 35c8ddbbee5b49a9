//! Waiting for peers.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, UnixListener};

use crate::address::Address;
use crate::error::LinkError;
use crate::socket::Socket;

/// A listening socket. A Unix socket's file is removed when this is dropped.
#[derive(Debug)]
pub struct Listener {
    inner: Inner,
    address: Address,
    /// Of a Unix socket; removed after the socket is closed.
    _file: Option<SocketFile>,
}

#[derive(Debug)]
enum Inner {
    Unix(UnixListener),
    Tcp(TcpListener),
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

impl Listener {
    /// Listens at `address`. The socket file of a dead process is replaced; a living one is `AddressInUse`.
    pub async fn bind(address: &Address) -> Result<Self, LinkError> {
        match address {
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                let inode = fs::metadata(path)
                    .map_err(LinkError::io("looking at the socket file"))?
                    .ino();
                let file = SocketFile {
                    path: path.clone(),
                    inode,
                };
                Ok(Self {
                    inner: Inner::Unix(listener),
                    address: address.clone(),
                    _file: Some(file),
                })
            }
            Address::Tcp { host, port } => {
                let listener = TcpListener::bind((host.as_str(), *port))
                    .await
                    .map_err(|error| bind_error(error, address))?;
                let port = listener
                    .local_addr()
                    .map_err(LinkError::io("asking for the port"))?
                    .port();
                Ok(Self {
                    inner: Inner::Tcp(listener),
                    address: Address::Tcp {
                        host: host.clone(),
                        port,
                    },
                    _file: None,
                })
            }
        }
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next peer.
    pub async fn accept(&self) -> Result<Socket, LinkError> {
        let accepting = LinkError::io("accepting a link");
        match &self.inner {
            Inner::Unix(listener) => {
                let (stream, _) = listener.accept().await.map_err(accepting)?;
                Ok(Socket::Unix(stream))
            }
            Inner::Tcp(listener) => {
                let (stream, _) = listener.accept().await.map_err(accepting)?;
                stream
                    .set_nodelay(true)
                    .map_err(LinkError::io("switching Nagle's algorithm off"))?;
                Ok(Socket::Tcp(stream))
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
    use std::os::unix::fs::FileTypeExt;
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
}
