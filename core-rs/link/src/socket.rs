//! A connected socket of either family, read and written without exclusive access.

use std::io;
use std::net::Shutdown;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::net::{TcpStream, UnixStream};

/// A connected socket, from `dial` or `Listener::accept`.
#[derive(Debug)]
pub enum Socket {
    /// On this host.
    Unix(UnixStream),
    /// Nagle's algorithm is off: this side batches by itself.
    Tcp(TcpStream),
}

macro_rules! either {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Unix($stream) => $call,
            Socket::Tcp($stream) => $call,
        }
    };
}

impl Socket {
    /// Waits for bytes and appends some to `buffer`; 0 at the end.
    pub(crate) async fn read(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        loop {
            match either!(self, stream => stream.try_read_buf(buffer)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            either!(self, stream => stream.readable().await)?;
        }
    }

    /// Waits for room and writes some of the slices.
    pub(crate) async fn write(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match either!(self, stream => stream.try_write_vectored(slices)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            either!(self, stream => stream.writable().await)?;
        }
    }

    /// Tells the peer that nothing follows (`Write`), or ends both directions at once (`Both`).
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // An error means that it is closed already, which is what was asked for.
        let _ = either!(self, stream => SockRef::from(stream).shutdown(how));
    }
}
