//! Named points at which a test can have the process die, as `kill -9` would: with `OMNIFLOW_STOP_AT=FOLDER` it does where
//! a file of the point's name lies in that folder. The file goes first, so that it dies once and not in its next life.

use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::process::{Signal, getpid, kill_process};

static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Names a point. Costs a load and a branch when no test asks.
#[inline]
pub(crate) fn stop_at(point: &'static str) {
    let folder = FOLDER.get_or_init(|| std::env::var_os("OMNIFLOW_STOP_AT").map(PathBuf::from));
    if let Some(folder) = folder {
        die_once(folder.join(point));
    }
}

#[cold]
fn die_once(file: PathBuf) {
    if std::fs::remove_file(file).is_ok() {
        let _ = kill_process(getpid(), Signal::KILL);
        // The signal is there before this thread runs again; should it be late, nothing happens meanwhile.
        loop {
            std::thread::park();
        }
    }
}
