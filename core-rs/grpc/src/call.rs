//! The client's side of a call with a stream of messages each way.

mod connection;

use std::future::poll_fn;
use std::io;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::{Code, Request, Status, Streaming};

use crate::inbox::{ENOUGH, Inbox};
use crate::outgoing::Outgoing;
use crate::raw::Raw;
use crate::status::{away, of_break, of_call};
use crate::windows::{CONNECTION_WINDOW, FRAME_BYTES, HEADER_BYTES, STREAM_WINDOW};
use connection::Connection;

/// How long a goodbye may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// Whom to call, and how patiently.
#[derive(Clone, Debug)]
pub struct CallConfig {
    /// HOST:PORT.
    pub address: String,
    /// "/package.Service/Method".
    pub method: String,
    /// To connect.
    pub patience: Duration,
    /// How often it is asked whether the peer is there.
    pub ping_every: Duration,
    /// How long it may take to answer that.
    pub ping_patience: Duration,
}

#[derive(Debug)]
struct Shared {
    inbox: Inbox,
    outgoing: Outgoing,
    cancelled: Notify,
}

/// A call, on a connection and a thread of its own. Every function returns at once. Dropping it cancels it.
#[derive(Debug)]
pub struct Call(Arc<Shared>);

impl Call {
    /// Begins to connect. What goes wrong is told by `status`; only a machine that has no threads or descriptors left fails
    /// here.
    pub fn new(config: CallConfig) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inbox: Inbox::new()?,
            outgoing: Outgoing::default(),
            cancelled: Notify::new(),
        });
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let of = Arc::clone(&shared);
        thread::Builder::new()
            .name("omniflow-call".to_owned())
            .spawn(move || runtime.block_on(run(&of, &config)))?;
        Ok(Self(shared))
    }

    /// A descriptor, readable when there is something to take, or a status.
    pub fn fileno(&self) -> RawFd {
        self.0.inbox.fileno()
    }

    /// Sends a message behind those that wait. Nothing comes of it when the call is over.
    pub fn send(&self, message: &[u8]) {
        self.0.outgoing.put(message);
    }

    /// The messages that have arrived; resets the descriptor.
    pub fn take(&self) -> Vec<Bytes> {
        self.0.inbox.take()
    }

    /// How the call ended, once all that came before was taken; none while it goes on.
    pub fn status(&self) -> Option<Status> {
        self.0.inbox.status()
    }

    /// Ends it; the peer is told.
    pub fn cancel(&self) {
        self.0.cancelled.notify_one();
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Whoever reads hears of an end in any case.
struct Ending<'a>(&'a Inbox);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0
            .end(Status::new(Code::Internal, "the call's thread died"));
    }
}

/// The call's thread.
async fn run(shared: &Arc<Shared>, config: &CallConfig) {
    let _ending = Ending(&shared.inbox);
    let mut driver = None;
    let status = tokio::select! {
        status = converse(shared, config, &mut driver) => status,
        () = shared.cancelled.notified() => Status::new(Code::Cancelled, "the call was cancelled"),
    };
    shared.inbox.end(status);
    // Nobody uses the connection any more: its task says goodbye.
    if let Some(driver) = driver {
        let _ = timeout(FAREWELL, driver).await;
    }
}

/// From the connection to the end of the call. The task that drives the connection goes to `driver`.
async fn converse(
    shared: &Arc<Shared>,
    config: &CallConfig,
    driver: &mut Option<JoinHandle<()>>,
) -> Status {
    let connected = timeout(config.patience, connect(&config.address)).await;
    let socket = match connected {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return away(format!("connecting to {}: {error}", config.address)),
        Err(_) => {
            let (at, limit) = (&config.address, config.patience);
            return away(format!("no connection to {at} in {limit:?}"));
        }
    };
    let origin = format!("http://{}", config.address).parse();
    let (Ok(origin), Ok(method)) = (origin, config.method.parse()) else {
        let (at, method) = (&config.address, &config.method);
        return Status::new(Code::InvalidArgument, format!("{at}{method} is no address"));
    };
    let handshake = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(config.ping_every)
        .keep_alive_timeout(config.ping_patience)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(socket))
        .await;
    let (requests, connection) = match handshake {
        Ok(made) => made,
        Err(error) => return of_break(&error),
    };
    *driver = Some(tokio::spawn(async move {
        // Whoever reads and writes hears of it, too.
        let _ = connection.await;
    }));
    let mut calls =
        Grpc::with_origin(Connection(requests), origin).max_decoding_message_size(usize::MAX);
    let request = Request::new(shared.outgoing.clone());
    match calls.streaming(request, method, Raw).await {
        Ok(response) => listen(response.into_inner(), &shared.inbox).await,
        Err(status) => of_call(status),
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Reads to the end of the call.
async fn listen(mut answers: Streaming<Bytes>, inbox: &Inbox) -> Status {
    let mut messages = Vec::new();
    loop {
        let end = poll_fn(|cx| gather(&mut answers, &mut messages, cx)).await;
        inbox.put(&mut messages);
        if let Some(status) = end {
            return status;
        }
        inbox.room().await;
    }
}

/// All that is there, so that whoever takes it is woken once; and the end.
fn gather(
    answers: &mut Streaming<Bytes>,
    messages: &mut Vec<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<Option<Status>> {
    let mut bytes = 0;
    while bytes < ENOUGH {
        match Pin::new(&mut *answers).poll_next(cx) {
            Poll::Ready(Some(Ok(message))) => {
                bytes += message.len();
                messages.push(message);
            }
            Poll::Ready(Some(Err(status))) => return Poll::Ready(Some(of_call(status))),
            Poll::Ready(None) => return Poll::Ready(Some(Status::ok(""))),
            Poll::Pending if messages.is_empty() => return Poll::Pending,
            Poll::Pending => break,
        }
    }
    Poll::Ready(None)
}
