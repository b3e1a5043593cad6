//! The process's environment, read once. The only place that asks for it.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The variables that the process was started with; those that are no UTF-8 are left out.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    #[allow(clippy::disallowed_methods, reason = "the one home of the environment")]
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect())
    }

    #[cfg(test)]
    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    /// A variable; an empty one counts as unset.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|v| !v.is_empty()).cloned()
    }

    /// A variable as it is set, empty ones too.
    pub(crate) fn set(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    /// Where what the user trusts is remembered: `$XDG_CONFIG_HOME/hookwright`, else `$HOME/.config/hookwright`.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        let base = self.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
        base.or_else(|| self.get("HOME").map(|h| PathBuf::from(h).join(".config"))).map(|p| p.join("hookwright"))
    }
}
