//! The scheduler's whole decision state as a pure machine: `step(event, now)` appends effects.
//!
//! No clock, no I/O, no randomness: the live scheduler and the simulator run the same one. Where to look:
//! - [`event`] and [`effect`]: the whole vocabulary.
//! - `table`: the job table and the dispatch of events.
//! - `plan`: what is known of a flow. `slot`, `slots`: where the nodes of a job are, by the keys of its fan-outs.
//! - `admission`: why a job is taken or refused. `binding`: why a node went to a worker. `telling`: who hears of it.
//! - `recalling`: binds that go to a better worker before they have started.
//! - `wanted`: binds that are asked for while a job runs. `scopes`: fan-outs and loops that end.
//! - `progress`: what events of activations and results change. `ending`: what happens when a job is over.
//! - `report` with `traffic`: what is told of a job's attempts.
//! - `clients`: to whom a job belongs, and what becomes of it when they go.
//! - `recovery`: what happens when a worker dies; `rerun`: what runs again then; `resuming`: what goes on
//!   from where it was. `restoring`: jobs of an earlier life of the
//!   scheduler; `adopting`: what goes on of them.
//! - `deadlines`: what happens as time passes; `held_up`: what a job hung at.
//! - `fault`: every error that a job can end in, with its cure.

mod admission;
mod adopting;
mod binding;
mod check;
mod clients;
mod deadlines;
pub mod effect;
mod ending;
pub mod event;
mod fault;
mod fleet;
mod held_up;
mod ids;
mod job;
mod plan;
mod progress;
mod recalling;
mod recovery;
mod report;
mod rerun;
mod restoring;
mod resuming;
mod scopes;
mod slot;
mod slots;
mod table;
mod telling;
mod traffic;
mod wanted;

pub use effect::{Bind, Effect};
pub use event::{Event, HeldBind, NodeState, NodeUpdate, Restored, RestoredEnd, Submission};
pub use fault::{Code, Fault, key};
pub use fleet::{WorkerState, WorkerView};
pub use ids::{ClientId, FlowId, JobId, Micros};
pub use job::{Job, Outcome};
pub use report::{Attempt, KEPT_ATTEMPTS};
pub use restoring::NOBODY;
pub use table::{Control, Counters, Limits};
pub use traffic::{PortTraffic, Traffic};
