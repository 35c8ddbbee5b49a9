//! The workers that are or were here, and the roles that they brought.

use std::sync::Arc;

use omniflow_placement::{RoleId, WorkerId};
use rustc_hash::FxHashMap;

/// Whether a worker may be given nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// It may.
    Ready,
    /// It finishes what it has.
    Draining,
}

/// One living worker, for status displays.
#[derive(Clone, Debug)]
pub struct WorkerView {
    /// Its name.
    pub name: Arc<str>,
    /// The host that it runs on; empty: unknown.
    pub host: Arc<str>,
    /// Whether it may be given nodes.
    pub state: WorkerState,
    /// Activations that it has ended well.
    pub completed: u64,
}

#[derive(Debug, Default)]
struct Role {
    name: Arc<str>,
    /// Some worker has registered it since the scheduler started.
    seen: bool,
}

/// Living workers by number, roles by number and name.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    living: FxHashMap<WorkerId, WorkerView>,
    /// Living workers by host, of those whose host is known.
    by_host: FxHashMap<Arc<str>, Vec<WorkerId>>,
    roles: Vec<Role>,
    numbers: FxHashMap<Arc<str>, RoleId>,
}

impl Fleet {
    pub(crate) fn role(&mut self, name: &str) -> RoleId {
        if let Some(role) = self.numbers.get(name) {
            return *role;
        }
        let (role, name) = (RoleId(self.roles.len() as u32), Arc::<str>::from(name));
        self.roles.push(Role {
            name: name.clone(),
            seen: false,
        });
        self.numbers.insert(name, role);
        role
    }

    pub(crate) fn role_name(&self, role: RoleId) -> &str {
        self.roles
            .get(role.0 as usize)
            .map_or("?", |role| &role.name)
    }

    pub(crate) fn was_seen(&self, role: RoleId) -> bool {
        self.roles
            .get(role.0 as usize)
            .is_some_and(|role| role.seen)
    }

    /// Names of all roles that any worker has registered, sorted.
    pub(crate) fn seen_roles(&self) -> Vec<&str> {
        let seen = self.roles.iter().filter(|role| role.seen);
        let mut names: Vec<&str> = seen.map(|role| &*role.name).collect();
        names.sort_unstable();
        names
    }

    /// Some worker has registered these roles.
    pub(crate) fn see(&mut self, roles: &[String]) {
        for role in roles {
            let role = self.role(role);
            self.roles[role.0 as usize].seen = true;
        }
    }

    pub(crate) fn add(
        &mut self,
        worker: WorkerId,
        name: Arc<str>,
        host: Arc<str>,
        roles: &[String],
    ) -> Vec<RoleId> {
        self.see(roles);
        self.remove(worker);
        if !host.is_empty() {
            self.by_host.entry(host.clone()).or_default().push(worker);
        }
        let roles: Vec<RoleId> = roles.iter().map(|role| self.role(role)).collect();
        self.living.insert(
            worker,
            WorkerView {
                name,
                host,
                state: WorkerState::Ready,
                completed: 0,
            },
        );
        roles
    }

    /// Returns its name when it was alive.
    pub(crate) fn remove(&mut self, worker: WorkerId) -> Option<Arc<str>> {
        let view = self.living.remove(&worker)?;
        if let Some(there) = self.by_host.get_mut(&view.host) {
            there.retain(|other| *other != worker);
            if there.is_empty() {
                self.by_host.remove(&view.host);
            }
        }
        Some(view.name)
    }

    /// Living workers on the same host as a living one, which is one of them; none when its host is unknown.
    pub(crate) fn neighbours(&self, worker: WorkerId) -> impl Iterator<Item = WorkerId> {
        let host = self.living.get(&worker).map(|view| &view.host);
        let there = host.and_then(|host| self.by_host.get(host));
        there.into_iter().flatten().copied()
    }

    pub(crate) fn get(&self, worker: WorkerId) -> Option<&WorkerView> {
        self.living.get(&worker)
    }

    pub(crate) fn get_mut(&mut self, worker: WorkerId) -> Option<&mut WorkerView> {
        self.living.get_mut(&worker)
    }

    pub(crate) fn is_alive(&self, worker: WorkerId) -> bool {
        self.living.contains_key(&worker)
    }
}
