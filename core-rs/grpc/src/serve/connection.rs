//! One connection of a client: its calls, each answered here or passed on, and whether the client is there.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::pin;
use tokio::time::{sleep, timeout};
use tonic::body::Body;
use tonic::server::Grpc;

use crate::raw::Raw;
use crate::serve::answer::Method;
use crate::serve::behind::Behind;
use crate::serve::{Phase, Shared};
use crate::windows::{CONNECTION_WINDOW, FRAME_BYTES, HEADER_BYTES, STREAM_WINDOW};

/// What HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Before it is looked again whether the rest of it has come.
const PREFACE_PAUSE: Duration = Duration::from_millis(50);
/// Calls of one connection at once; others wait at the client.
const MOST_CALLS: u32 = 1_000;

/// From the method's own answer, or from the server behind.
type AnswerBody = Either<Body, Incoming>;

/// To its end.
pub(super) async fn serve_connection(socket: TcpStream, shared: &Arc<Shared>) {
    // Without it messages wait for acknowledgements of earlier ones; it fails only for a socket that is gone.
    let _ = socket.set_nodelay(true);
    let config = &shared.config;
    if !timeout(config.ping_patience, speaks_http2(&socket))
        .await
        .unwrap_or(false)
    {
        return;
    }
    let behind = Arc::new(Behind::default());
    let service = service_fn(|request| {
        let (shared, behind) = (Arc::clone(shared), Arc::clone(&behind));
        async move { Ok::<_, Infallible>(respond(request, shared, &behind).await) }
    });
    let connection = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MOST_CALLS)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(HEADER_BYTES)
        .auto_date_header(false)
        .keep_alive_interval(config.ping_every)
        .keep_alive_timeout(config.ping_patience)
        .serve_connection(TokioIo::new(socket), service);
    pin!(connection);
    let mut phase = shared.phase.clone();
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = phase.wait_for(|phase| *phase == Phase::Leaving) => {}
    }
    connection.as_mut().graceful_shutdown();
    // It says goodbye; nobody is left to be told if that fails.
    let _ = connection.await;
}

/// False for what is something else. Only a client that says nothing keeps this waiting.
async fn speaks_http2(socket: &TcpStream) -> bool {
    let mut begun = [0; PREFACE.len()];
    loop {
        match socket.peek(&mut begun).await {
            Ok(0) | Err(_) => return false,
            Ok(length) if !PREFACE.starts_with(&begun[..length]) => return false,
            Ok(length) if length == PREFACE.len() => return true,
            Ok(_) => sleep(PREFACE_PAUSE).await,
        }
    }
}

async fn respond(
    request: Request<Incoming>,
    shared: Arc<Shared>,
    behind: &Behind,
) -> Response<AnswerBody> {
    let config = &shared.config;
    if request.uri().path() == config.method {
        let mut calls = Grpc::new(Raw).max_decoding_message_size(config.message_bytes);
        let answer = calls.streaming(Method(shared), request).await;
        return answer.map(Either::Left);
    }
    match behind.ask(request, &config.behind).await {
        Ok(answer) => answer.map(Either::Right),
        Err(status) => status.into_http().map(Either::Left),
    }
}
