//! A connected socket of any kind, read and written without exclusive access.

use std::io;
use std::net::Shutdown;

use bytes::BufMut;
use socket2::SockRef;
use tokio::io::Interest;
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

/// Reads once there is something. A read that does not fill the room has emptied the socket, which counts as not ready from
/// then on: the next one waits at once instead of asking the kernel in vain, which would double the calls of a quiet link.
macro_rules! receive {
    ($stream:expr, $buffer:expr) => {
        loop {
            let mut received = 0;
            // Inside of `try_io`, so that what comes after the read makes the socket ready again.
            let tried = $stream.try_io(Interest::READABLE, || {
                let room = $buffer.chunk_mut();
                let length = room.len();
                // SAFETY: `recv` writes bytes that were received, and nothing that is not initialized.
                let room = unsafe { room.as_uninit_slice_mut() };
                received = SockRef::from($stream).recv(room)?;
                let emptied = (1..length).contains(&received);
                if emptied { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            if received > 0 {
                // SAFETY: `recv` has initialized so many bytes of the room.
                unsafe { $buffer.advance_mut(received) };
                return Ok(received);
            }
            match tried {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                end => return end.map(|()| 0),
            }
            $stream.readable().await?;
        }
    };
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
            Self::Unix(stream) => receive!(stream, buffer),
            Self::Tcp(stream) => receive!(stream, buffer),
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
