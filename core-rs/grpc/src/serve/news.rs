//! How a call learns that there is something for its caller, and when that has to leave.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::{Sleep, sleep_until};

#[derive(Debug, Default)]
struct State {
    /// When there is something to send, at the latest.
    due: Option<Instant>,
    waiting: Option<Waker>,
}

/// Clones speak of the same call. Callable from any thread.
#[derive(Clone, Debug, Default)]
pub struct News(Arc<Mutex<State>>);

impl News {
    /// There is something, which may wait for so long for something else to travel with.
    pub fn tell(&self, within: Duration) {
        let due = Instant::now() + within;
        let mut state = self.0.lock();
        if state.due.is_some_and(|known| known <= due) {
            return;
        }
        state.due = Some(due);
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// Waits for the news of a call. Needs a runtime with a clock.
#[derive(Debug)]
pub(crate) struct Due {
    news: News,
    /// After one batch the next one leaves no sooner than this.
    pace: Duration,
    earliest: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Due {
    pub(crate) fn new(news: News, pace: Duration) -> Self {
        let earliest = Instant::now();
        Self {
            news,
            pace,
            earliest,
            timer: Box::pin(sleep_until(earliest.into())),
        }
    }

    /// Ready when something has to leave. What is told from then on is new.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.news.0.lock();
        let Some(due) = state.due else {
            state.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let at = due.max(self.earliest);
        let now = Instant::now();
        if now < at {
            // Something more urgent may come meanwhile.
            state.waiting = Some(cx.waker().clone());
            drop(state);
            self.timer.as_mut().reset(at.into());
            ready!(self.timer.as_mut().poll(cx));
            state = self.news.0.lock();
        }
        state.due = None;
        self.earliest = now.max(at) + self.pace;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::runtime;

    use super::*;

    fn block_on(future: impl Future<Output = ()>) {
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(future);
    }

    #[test]
    fn news_are_waited_for_and_the_more_urgent_of_them_counts() {
        block_on(async {
            let (news, begun) = (News::default(), Instant::now());
            let mut due = Due::new(news.clone(), Duration::ZERO);
            news.tell(Duration::from_secs(3_600));
            let other = std::thread::spawn(move || news.tell(Duration::ZERO));
            poll_fn(|cx| due.poll(cx)).await;
            other.join().expect("it tells");
            assert!(begun.elapsed() < Duration::from_secs(3_600));
            assert_eq!(due.news.0.lock().due, None);
        });
    }

    #[test]
    fn nothing_leaves_before_its_time() {
        block_on(async {
            let (news, begun) = (News::default(), Instant::now());
            let pace = Duration::from_millis(20);
            let mut due = Due::new(news.clone(), pace);
            for _ in 0..2 {
                news.tell(Duration::ZERO);
                poll_fn(|cx| due.poll(cx)).await;
            }
            assert!(begun.elapsed() >= pace);
        });
    }
}
