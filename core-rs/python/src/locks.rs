//! Locks and the GIL. None is ever held by a thread that waits for the GIL, so that who has the GIL may wait for one.

use parking_lot::Mutex;
use pyo3::prelude::*;

/// For work of a few microseconds: keeps the GIL when the lock is free, as giving it up can cost milliseconds where other
/// threads compute in Python; gives it up to wait.
pub fn briefly<S: Send, T: Send>(
    py: Python<'_>,
    mutex: &Mutex<S>,
    work: impl FnOnce(&mut S) -> T + Send,
) -> T {
    match mutex.try_lock() {
        Some(mut state) => work(&mut state),
        None => py.detach(|| work(&mut mutex.lock())),
    }
}
