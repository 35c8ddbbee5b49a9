//! What waits to be sent on a stream.

use std::future::poll_fn;

use bytes::{Bytes, BytesMut};
use h2::SendStream;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::framing;

/// Messages, as bytes of the stream. One waits for them; anybody may put some.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    waiting: Mutex<BytesMut>,
    more: Notify,
}

impl Outgoing {
    pub(crate) fn put(&self, message: &[u8]) {
        let mut waiting = self.waiting.lock();
        let first = waiting.is_empty();
        framing::write(message, &mut waiting);
        drop(waiting);
        if first {
            self.more.notify_one();
        }
    }

    async fn next(&self) -> Bytes {
        loop {
            let waiting = self.waiting.lock().split().freeze();
            if !waiting.is_empty() {
                return waiting;
            }
            self.more.notified().await;
        }
    }

    /// Sends what comes, for as long as the other side takes it.
    pub(crate) async fn send_to(&self, mut stream: SendStream<Bytes>) -> Result<(), h2::Error> {
        loop {
            let bytes = self.next().await;
            if !send(&mut stream, bytes).await? {
                return Ok(());
            }
        }
    }
}

/// Sends as the other side gives room. False: it takes no more.
pub(crate) async fn send(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
) -> Result<bool, h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let room = match stream.capacity() {
            0 => match poll_fn(|cx| stream.poll_capacity(cx)).await {
                None => return Ok(false),
                Some(room) => room?,
            },
            room => room,
        };
        stream.send_data(bytes.split_to(room.min(bytes.len())), false)?;
    }
    Ok(true)
}
