//! The dataflow graph, its validation and the resolver: pure state machines without clock or I/O.
