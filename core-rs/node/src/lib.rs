//! A worker's data path: link to resolver to ready queue.
