//! The scheduler's job table as a pure state machine: step(event, now) -> effects.
