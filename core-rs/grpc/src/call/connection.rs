//! A connection as tonic takes it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tonic::body::Body;
use tower_service::Service;

const AGENT: &str = concat!("omniflow/", env!("CARGO_PKG_VERSION"));

pub(super) struct Connection(pub(super) SendRequest<Body>);

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let agent = HeaderValue::from_static(AGENT);
        request.headers_mut().insert(USER_AGENT, agent);
        Box::pin(self.0.send_request(request))
    }
}
