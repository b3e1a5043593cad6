//! What the node works with now. A reload puts another in its place; what is under way keeps what it began with.

use crate::settings::Settings;
use crate::work::Household;
use std::sync::{Arc, PoisonError, RwLock};

/// Settings and tenants, as they were read together.
pub(crate) struct Present {
    pub(crate) settings: Settings,
    /// The configuration's, as it was when it was read.
    pub(crate) config_digest: Option<String>,
    /// One for each tenant, in the configuration's order.
    pub(crate) households: Vec<Arc<Household>>,
}

impl Present {
    pub(crate) fn new(settings: Settings, households: Vec<Arc<Household>>) -> Self {
        let config_digest = settings.config_digest();
        Self { settings, config_digest, households }
    }

    /// The tenant of that id, with its servers.
    pub(crate) fn household(&self, tenant: &str) -> Option<&Arc<Household>> {
        self.households.iter().find(|household| household.tenant.config.id == tenant)
    }
}

/// What is there now.
pub(crate) struct Now(RwLock<Arc<Present>>);

impl Now {
    pub(crate) fn new(present: Present) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(present))))
    }

    pub(crate) fn get(&self) -> Arc<Present> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another in its place, whole.
    pub(crate) fn put(&self, present: Present) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(present);
    }
}
