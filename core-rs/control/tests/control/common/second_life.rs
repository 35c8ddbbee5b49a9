//! A job table after a restart.

#![allow(dead_code, clippy::unwrap_used)]

use omniflow_control::{
    Control, Event, FlowId, JobId, Limits, Micros, NOBODY, Restored, Submission,
};
use omniflow_placement::policy;

use super::flows::{deterministic, pdf};
use super::table::Table;

/// By number, from 1: the role of each.
pub const WORKERS: &[&str] = &["split", "ocr", "clean", "answer"];

/// A job of an earlier life.
fn restored(job: JobId, first_epoch: u32) -> Event {
    Event::Restore(Box::new(Restored {
        job,
        submission: Submission {
            ticket: 0,
            client: NOBODY,
            flow: FlowId(0),
            tenant: "".into(),
            priority: 0,
            deadline_ms: 0,
            idempotency_key: "".into(),
            detach: true,
        },
        order: 1.0,
        arrival: 1,
        arrived: Micros(1),
        deadline: Micros(600_000_000),
        first_epoch,
        end: None,
    }))
}

/// A table that has just been given back a job of an earlier life, with all workers there.
pub fn second_life() -> Table {
    let mut control = Control::new(Limits::default(), policy("round-robin").unwrap(), 2);
    control.add_flow(deterministic(pdf(), &[]));
    let mut table = Table::of(control);
    table.job = JobId(77);
    let event = restored(table.job, 1_000);
    table.step(event);
    for (number, role) in (1..).zip(WORKERS) {
        table.up(number, role);
    }
    table
}
