//! Calls that the server behind answers: what comes is passed on as it is, both ways.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream as Blocking};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tonic::Status;

use crate::status::{away, of_break};
use crate::windows::{CONNECTION_WINDOW, FRAME_BYTES, HEADER_BYTES, STREAM_WINDOW};

/// A client's connection to the server behind, once it has called something there. Each client has its own: what one does not
/// read takes no window from another.
#[derive(Default)]
pub(super) struct Behind(Mutex<Option<SendRequest<Incoming>>>);

impl Behind {
    /// Up to the head of the answer; the rest of it follows in the body.
    pub(super) async fn ask(
        &self,
        request: Request<Incoming>,
        name: &str,
    ) -> Result<Response<Incoming>, Status> {
        let mut requests = self.requests(name).await?;
        let answer = requests.send_request(request).await;
        answer.map_err(|error| of_break(&error))
    }

    async fn requests(&self, name: &str) -> Result<SendRequest<Incoming>, Status> {
        let mut known = self.0.lock().await;
        if let Some(requests) = known.as_ref().filter(|requests| !requests.is_closed()) {
            return Ok(requests.clone());
        }
        let gone = |error: io::Error| away(format!("the server does not answer: {error}"));
        let socket = dial(name).map_err(gone)?;
        let (requests, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_BYTES)
            .max_header_list_size(HEADER_BYTES)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(|error| of_break(&error))?;
        // It ends with the last call of the last clone.
        tokio::spawn(connection);
        *known = Some(requests.clone());
        Ok(requests)
    }
}

fn dial(name: &str) -> io::Result<UnixStream> {
    let socket = Blocking::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}
