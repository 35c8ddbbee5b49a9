//! One call of the method that is answered here: it listens and speaks independently.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as on};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_stream::Stream;
use tonic::server::StreamingService;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::serve::news::Due;
use crate::serve::{Exchange, News, Phase, Shared};

/// The method as tonic serves it.
pub(super) struct Method(pub(super) Arc<Shared>);

impl StreamingService<Bytes> for Method {
    type Response = Bytes;
    type ResponseStream = Answer;
    type Future = Ready<Result<Response<Answer>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let answer = Answer::begin(request.into_inner(), &self.0);
        ready(Ok(Response::new(answer)))
    }
}

/// What both directions know.
struct Caller {
    number: u64,
    exchange: Arc<dyn Exchange>,
    news: News,
    /// It has taken everything.
    emptied: Notify,
    /// The call has to end so.
    refusal: Mutex<Option<Status>>,
}

/// What is sent to the caller. The call lasts as long as this.
pub(super) struct Answer {
    caller: Arc<Caller>,
    listener: AbortHandle,
    due: Due,
    finishing: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// There may be something to send right now.
    speaking: bool,
    /// And that is all.
    is_last: bool,
}

impl Answer {
    fn begin(requests: Streaming<Bytes>, shared: &Arc<Shared>) -> Self {
        let news = News::default();
        let caller = Arc::new(Caller {
            number: shared.exchange.open(news.clone()),
            exchange: Arc::clone(&shared.exchange),
            news: news.clone(),
            emptied: Notify::new(),
            refusal: Mutex::default(),
        });
        let limit = shared.config.message_bytes;
        let listener = tokio::spawn(listen(Arc::clone(&caller), requests, limit));
        let mut phase = shared.phase.clone();
        Self {
            caller,
            listener: listener.abort_handle(),
            due: Due::new(news, shared.config.pace),
            finishing: Box::pin(async move {
                // It fails when the server is gone, which is an end, too.
                let _ = phase.wait_for(|phase| *phase >= Phase::Finishing).await;
            }),
            speaking: false,
            is_last: false,
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.listener.abort();
        self.caller.exchange.close(self.caller.number);
    }
}

impl Stream for Answer {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(status) = self.caller.refusal.lock().take() {
                return Poll::Ready(Some(Err(status)));
            }
            if self.speaking {
                if let Some(message) = self.caller.exchange.next(self.caller.number) {
                    return Poll::Ready(Some(Ok(message.into())));
                }
                self.speaking = false;
                self.caller.emptied.notify_waiters();
            }
            if self.is_last {
                return Poll::Ready(None);
            }
            if self.finishing.as_mut().poll(cx).is_ready() {
                self.is_last = true;
            } else {
                on!(self.due.poll(cx));
            }
            self.speaking = true;
        }
    }
}

/// Takes in what the caller sends, to its end; it is still answered then.
async fn listen(caller: Arc<Caller>, mut requests: Streaming<Bytes>, limit: usize) {
    let refusal = loop {
        let message = match requests.message().await {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(status) => break named(status, limit),
        };
        match caller.exchange.take(caller.number, message) {
            Ok(true) => {}
            Ok(false) => caller.emptied().await,
            Err(status) => break status,
        }
    };
    *caller.refusal.lock() = Some(refusal);
    caller.news.tell(Duration::ZERO);
}

/// As gRPC's own libraries say it.
fn named(status: Status, limit: usize) -> Status {
    if status.code() != Code::OutOfRange {
        return status;
    }
    Status::resource_exhausted(format!("a message is larger than max ({limit} bytes)"))
}

impl Caller {
    /// Returns when the caller has taken everything that waits for it.
    async fn emptied(&self) {
        let emptied = self.emptied.notified();
        self.news.tell(Duration::ZERO);
        emptied.await;
    }
}
