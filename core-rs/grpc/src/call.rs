//! The client's side of a call with a stream of messages each way.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture};
use h2::{Ping, PingPong};
use http::{Method, Request, StatusCode};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::framing::{Decoder, Malformed};
use crate::inbox::Inbox;
use crate::outgoing::Outgoing;
use crate::status::{Code, Status};

/// What the peer may send before it hears that this side has taken some.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
const FRAME_BYTES: u32 = 1 << 20;
const HEADER_BYTES: u32 = 64 << 10;
/// The most that the wire format can say.
const MESSAGE_BYTES: usize = u32::MAX as usize;
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

/// The call's thread.
async fn run(shared: &Arc<Shared>, config: &CallConfig) {
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
    let Some(request) = request(config) else {
        let (at, method) = (&config.address, &config.method);
        return Status::new(Code::InvalidArgument, format!("{at}{method} is no address"));
    };
    let handshake = Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .enable_push(false)
        .handshake::<_, Bytes>(socket)
        .await;
    let (requests, mut connection) = match handshake {
        Ok(made) => made,
        Err(error) => return error.into(),
    };
    let ping = connection.ping_pong();
    *driver = Some(tokio::spawn(async move {
        // Whoever reads and writes hears of it, too.
        let _ = connection.await;
    }));
    let called = async {
        let mut requests = requests.ready().await?;
        requests.send_request(request, false)
    };
    let (response, stream) = match called.await {
        Ok(called) => called,
        Err(error) => return error.into(),
    };
    let speak = async {
        // What is wrong with the connection the other direction says better.
        let _ = shared.outgoing.send_to(stream).await;
        std::future::pending::<Status>().await
    };
    tokio::select! {
        status = listen(response, &shared.inbox) => status.unwrap_or_else(Status::from),
        status = speak => status,
        status = watch(ping, config) => status,
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

fn request(config: &CallConfig) -> Option<Request<()>> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("http://{}{}", config.address, config.method))
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .header(
            "user-agent",
            concat!("omniflow/", env!("CARGO_PKG_VERSION")),
        )
        .body(());
    request.ok()
}

/// Reads to the end of the call.
async fn listen(response: ResponseFuture, inbox: &Inbox) -> Result<Status, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    if head.status != StatusCode::OK {
        return Ok(Status::of_http(head.status));
    }
    if let Some(status) = Status::of_trailers(&head.headers) {
        return Ok(status);
    }
    let (mut decoder, mut messages) = (Decoder::new(MESSAGE_BYTES), Vec::new());
    while let Some(piece) = body.data().await {
        let piece = piece?;
        let length = piece.len();
        let taken = decoder.take(piece, &mut messages);
        inbox.put(&mut messages);
        if let Err(malformed) = taken {
            return Ok(malformed.into());
        }
        inbox.room().await;
        body.flow_control().release_capacity(length)?;
    }
    let trailers = body.trailers().await?;
    let status = trailers.as_ref().and_then(Status::of_trailers);
    Ok(status.unwrap_or_else(|| away("the call ended without a status".to_owned())))
}

/// Returns when the peer does not answer any more.
async fn watch(ping: Option<PingPong>, config: &CallConfig) -> Status {
    let Some(mut ping) = ping else {
        return std::future::pending().await;
    };
    loop {
        sleep(config.ping_every).await;
        let answer = timeout(config.ping_patience, ping.ping(Ping::opaque())).await;
        if answer.is_err() {
            let limit = config.ping_patience;
            return away(format!("no answer to a ping in {limit:?}"));
        }
        // A connection that broke says so itself.
    }
}

fn away(why: String) -> Status {
    Status::new(Code::Unavailable, why)
}

impl From<Malformed> for Status {
    fn from(malformed: Malformed) -> Self {
        let code = match malformed {
            Malformed::TooLarge(..) => Code::ResourceExhausted,
            Malformed::Compressed => Code::Internal,
        };
        Self::new(code, malformed.to_string())
    }
}
