//! Named points at which a test can have the process die, as `kill -9` would: `OMNIFLOW_STOP_AT=POINT:FILE`. The file is
//! made at that moment, and where it exists the process goes on, so that it dies once and not again after its restart.

use std::fs::OpenOptions;
use std::sync::OnceLock;

use rustix::process::{Signal, getpid, kill_process};

static WANTED: OnceLock<Option<(String, String)>> = OnceLock::new();

/// Names a point. Costs a load and a branch when no test asked for one.
#[inline]
pub(crate) fn stop_at(point: &'static str) {
    let wanted = WANTED.get_or_init(|| {
        let asked = std::env::var("OMNIFLOW_STOP_AT").ok()?;
        let (point, file) = asked.split_once(':')?;
        Some((point.to_owned(), file.to_owned()))
    });
    if let Some((wanted, file)) = wanted
        && wanted == point
    {
        die_once(file);
    }
}

#[cold]
fn die_once(file: &str) {
    if OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(file)
        .is_ok()
    {
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal ends this thread before it returns to user code, or a moment later.
        std::thread::park();
    }
}
