//! A connected socket of any kind, read and written without exclusive access.

use std::io;
use std::net::Shutdown;

use bytes::BufMut;
use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};

use crate::tls::TlsSocket;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// On this host.
    Unix(UnixStream),
    /// Nagle's algorithm is off: this side batches by itself.
    Tcp(TcpStream),
    /// The same, encrypted.
    Tls(Box<TlsSocket>),
}

/// Tries, and waits in between, for as long as the socket is not ready.
macro_rules! retry {
    ($stream:expr, $ready:ident, $call:expr) => {
        loop {
            match $call {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            $stream.$ready().await?;
        }
    };
}

impl Socket {
    /// Waits for bytes and appends some to `buffer`; 0 at the end.
    pub(crate) async fn read(&self, buffer: &mut impl BufMut) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => retry!(stream, readable, stream.try_read_buf(buffer)),
            Self::Tcp(stream) => retry!(stream, readable, stream.try_read_buf(buffer)),
            Self::Tls(stream) => stream.read(buffer).await,
        }
    }

    /// Waits for room and writes some of the slices.
    pub(crate) async fn write(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => retry!(stream, writable, stream.try_write_vectored(slices)),
            Self::Tcp(stream) => retry!(stream, writable, stream.try_write_vectored(slices)),
            Self::Tls(stream) => stream.write(slices).await,
        }
    }

    /// Tells the peer that nothing follows (`Write`), or ends both directions at once (`Both`).
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // An error means that it is closed already, which is what was asked for.
        let _ = match self {
            Self::Unix(stream) => SockRef::from(stream).shutdown(how),
            Self::Tcp(stream) => SockRef::from(stream).shutdown(how),
            Self::Tls(stream) => stream.shutdown(how),
        };
    }
}
