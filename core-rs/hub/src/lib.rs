//! The scheduler's data path: clients and worker links around control.
