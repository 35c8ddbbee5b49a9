//! Choice of a worker for a node: the policy trait and its implementations.
