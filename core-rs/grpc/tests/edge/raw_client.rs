//! A client that writes the bytes of HTTP/2 as it pleases.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::support::{METHOD, PATIENCE};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 4;

/// A connection; dropping it closes the socket.
pub(crate) struct RawClient(TcpStream);

impl RawClient {
    /// Has said nothing yet.
    pub(crate) fn silent(address: &str) -> Self {
        let socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self(socket)
    }

    /// Has begun to speak HTTP/2.
    pub(crate) fn greeted(address: &str) -> Self {
        let mut client = Self::silent(address);
        client.write(PREFACE);
        client.write(&frame(SETTINGS, 0, 0, &[]));
        client
    }

    /// Whether it arrived is seen by what comes of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes);
    }

    /// Has said everything, in the middle of its calls.
    pub(crate) fn shut(&mut self) {
        let _ = self.0.shutdown(Shutdown::Write);
    }

    /// Returns once so many calls have been answered: the beginning of an answer says that its call has begun.
    pub(crate) fn is_answered(&mut self, calls: usize) {
        let mut answered = 0;
        while answered < calls {
            let mut header = [0; 9];
            self.0.read_exact(&mut header).expect("a frame");
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let payload = &mut vec![0; length as usize];
            self.0.read_exact(payload).expect("the frame's payload");
            answered += usize::from(header[3] == HEADERS);
        }
    }

    /// Returns once the server has closed the connection, whatever it says before.
    pub(crate) fn is_closed(&mut self) {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match self.0.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it is still open"),
                Err(_) => return,
            }
        }
    }
}

/// The beginning of call number `call`.
pub(crate) fn begin(call: u32) -> Vec<u8> {
    // POST, http, then a path and a content type that are literals.
    let mut block = vec![0x83, 0x86, 0x04, METHOD.len() as u8];
    block.extend_from_slice(METHOD.as_bytes());
    block.extend_from_slice(b"\x01\x01x\x0f\x10\x10application/grpc");
    frame(HEADERS, END_HEADERS, 2 * call + 1, &block)
}

/// A message on it.
pub(crate) fn message(call: u32, content: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend_from_slice(&(content.len() as u32).to_be_bytes());
    framed.extend_from_slice(content);
    frame(DATA, 0, 2 * call + 1, &framed)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}
