//! Who pays for a page: pages in use by tenant, and the quotas that they are held to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::PageError;

/// Place of a tenant in the ledger. Pages remember it instead of the name.
pub(crate) type Slot = u32;

/// Whose pages are charged when no tenant is named.
pub(crate) const NOBODY: Slot = 0;

/// What one tenant uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantUsage {
    /// Its name; empty for pages that were allocated for nobody in particular.
    pub name: Arc<str>,
    /// Pages that were allocated for it and are not free.
    pub used: usize,
    /// How many it may use; none: as many as there are.
    pub quota: Option<usize>,
}

/// Usage and quota of each tenant. One that uses nothing and has no quota is forgotten.
#[derive(Debug)]
pub(crate) struct Tenants {
    slots: Vec<TenantUsage>,
    by_name: HashMap<Arc<str>, Slot>,
    unused: Vec<Slot>,
}

impl Tenants {
    pub(crate) fn new() -> Self {
        let nobody = TenantUsage {
            name: Arc::from(""),
            used: 0,
            quota: None,
        };
        Self {
            by_name: HashMap::from([(nobody.name.clone(), NOBODY)]),
            slots: vec![nobody],
            unused: Vec::new(),
        }
    }

    /// Charges `pages` to the tenant, unless that is more than its quota.
    pub(crate) fn charge(&mut self, tenant: &str, pages: usize) -> Result<Slot, PageError> {
        let slot = self.slot(tenant);
        let usage = &mut self.slots[slot as usize];
        match usage.quota {
            Some(quota) if usage.used + pages > quota => Err(PageError::QuotaExceeded {
                tenant: usage.name.clone(),
                wanted: pages,
                used: usage.used,
                quota,
            }),
            _ => {
                usage.used += pages;
                Ok(slot)
            }
        }
    }

    /// Takes `pages` off what the tenant at `slot` uses.
    pub(crate) fn refund(&mut self, slot: Slot, pages: usize) {
        let usage = &mut self.slots[slot as usize];
        debug_assert!(
            usage.used >= pages,
            "{} gives back more than it uses",
            usage.name
        );
        usage.used -= pages;
        self.forget_if_unused(slot);
    }

    pub(crate) fn set_quota(&mut self, tenant: &str, quota: Option<usize>) {
        let slot = self.slot(tenant);
        self.slots[slot as usize].quota = quota;
        self.forget_if_unused(slot);
    }

    pub(crate) fn name(&self, slot: Slot) -> Arc<str> {
        self.slots[slot as usize].name.clone()
    }

    /// The tenants that use pages or have a quota, by name.
    pub(crate) fn usage(&self) -> Vec<TenantUsage> {
        let mut usage: Vec<TenantUsage> = self
            .by_name
            .values()
            .map(|&slot| self.slots[slot as usize].clone())
            .filter(|usage| usage.used > 0 || usage.quota.is_some())
            .collect();
        usage.sort_by(|a, b| a.name.cmp(&b.name));
        usage
    }

    /// Pages in use by the tenant at `slot`; `None` for a slot that no tenant has.
    pub(crate) fn used(&self, slot: Slot) -> Option<usize> {
        let usage = self.slots.get(slot as usize)?;
        (self.by_name.get(&usage.name) == Some(&slot)).then_some(usage.used)
    }

    /// Slots that were ever given out.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    fn slot(&mut self, tenant: &str) -> Slot {
        if tenant.is_empty() {
            return NOBODY;
        }
        if let Some(&slot) = self.by_name.get(tenant) {
            return slot;
        }
        let usage = TenantUsage {
            name: Arc::from(tenant),
            used: 0,
            quota: None,
        };
        let name = usage.name.clone();
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slots[slot as usize] = usage;
                slot
            }
            None => {
                self.slots.push(usage);
                (self.slots.len() - 1) as Slot
            }
        };
        self.by_name.insert(name, slot);
        slot
    }

    fn forget_if_unused(&mut self, slot: Slot) {
        let usage = &self.slots[slot as usize];
        if slot != NOBODY && usage.used == 0 && usage.quota.is_none() {
            self.by_name.remove(&usage.name);
            self.unused.push(slot);
        }
    }
}
