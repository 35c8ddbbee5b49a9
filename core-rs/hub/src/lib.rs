//! The scheduler's data path: clients and worker links around `control`.
//!
//! - `hub`: the handle that the scheduler process holds. `shared`: one thread with the links, one lock around the state.
//! - `state`: that state; `execute` carries out what the job table decides, `incoming` takes what workers say.
//! - `submit` with `value_check`: whether a request fits its flow. `job_data`: inputs and results of the jobs, `result_log`:
//!   one result.
//! - The scheduler is a place of each job, with a resolver of its own for control nodes beside inputs and results:
//!   `arriving`, what comes to it on edges (`frames`: as they travel); `resolved`, what it wants done; `feeding`, what goes to
//!   nodes when they are bound (`feeds`: which inputs; `outgoing`: what was sent, and where nodes are). `starting_over`: a job
//!   that runs again from its inputs; `resuming`: a node that goes on from what was delivered.
//! - `clients` with `take`: what each client still has to be told, read from cursors; `rooms`: how far it may be.
//! - `recalling`: binds that workers are asked to give back.
//! - `budgets`: how many bytes the scheduler holds for its clients.
//! - `workers`: who is known. `membership`: who joins and leaves. `worker_link`: dialling, heartbeats, death.
//!   `unreachable`: a worker that another one cannot reach.
//! - `journal`: what survives the process. `journaling`: what is written into it, and what waits for that. `restore`: the
//!   next life. `awaiting`: what workers hold of the last one. `stop_at`: points at which tests have the process die.
//! - `replication`: the same journal at a standby, and what clients may be told while it follows.
//! - `flows`, `nearest` (did you mean ...?), `status`, `convert`, `traffic`: what their names say.

mod arriving;
mod awaiting;
mod budgets;
mod clients;
mod config;
mod connect;
mod convert;
mod error;
mod execute;
mod feeding;
mod feeds;
mod flows;
mod frames;
mod hub;
mod incoming;
mod job_data;
mod journal;
mod journaling;
mod membership;
mod nearest;
mod outgoing;
mod pacing;
mod recalling;
mod replication;
mod resolved;
mod restore;
mod result_log;
mod resuming;
mod rooms;
mod shared;
mod starting_over;
mod state;
mod status;
mod stop_at;
mod submit;
mod take;
mod traffic;
mod unreachable;
mod value_check;
mod wake;
mod worker_link;
mod workers;

pub use config::HubConfig;
pub use convert::{job_id, job_name};
pub use error::HubError;
pub use flows::flow_version;
pub use hub::Hub;
pub use journal::{JournalConfig, JournalError};
pub use replication::{Mark, Marked, ReplicationConfig, Standby, StandbyConfig};
