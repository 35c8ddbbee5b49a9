//! Reaching a peer.

use std::time::Duration;

use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Address;
use crate::error::LinkError;
use crate::socket::Socket;

/// Connects to the first address that answers, giving each at most `patience`.
pub async fn dial(addresses: &[Address], patience: Duration) -> Result<Socket, LinkError> {
    let mut tried = Vec::new();
    for address in addresses {
        match timeout(patience, connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => tried.push(format!("{address} ({error})")),
            Err(_) => tried.push(format!("{address} (no answer in {patience:?})")),
        }
    }
    if tried.is_empty() {
        tried.push("it has none".to_owned());
    }
    Err(LinkError::Unreachable(tried.join(", ")))
}

async fn connect(address: &Address) -> std::io::Result<Socket> {
    match address {
        Address::Unix(path) => Ok(Socket::Unix(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Socket::Tcp(stream))
        }
    }
}
