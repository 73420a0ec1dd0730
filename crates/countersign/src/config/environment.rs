//! The process's environment, read once. Nothing else of this crate looks at it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::file;

/// Variables that start with our prefix and are no configuration key.
const OTHERS: &[&str] = &[
    "COUNTERSIGN_CONFIG",
    "COUNTERSIGN_LOG",
    "COUNTERSIGN_LOG_FORMAT",
    "COUNTERSIGN_URL",
    "COUNTERSIGN_TOKEN",
];
const PREFIX: &str = "COUNTERSIGN_";

/// Variables of others that we look at.
const THEIRS: &[&str] = &["APPDATA", "HOME", "NO_COLOR", "TERM", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// What the environment says, as far as it is our business: the rest may be secret.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, OsString>,
}

impl Environment {
    /// The environment of this process.
    pub(crate) fn of_process() -> Self {
        let named = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let ours = named.filter(|(name, _)| name.starts_with(PREFIX) || THEIRS.contains(&name.as_str()));
        Self { variables: ours.collect() }
    }

    /// A variable as text; one that is empty counts as unset. What is no Unicode has U+FFFD in its place, which no key
    /// takes: ignoring the variable would be worse.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.raw(name).map(OsStr::to_string_lossy)
    }

    /// A variable as a path; one that is empty counts as unset.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.raw(name).map(PathBuf::from)
    }

    /// Variables with our prefix that mean nothing: probably misspelt.
    pub(crate) fn strangers(&self) -> Vec<&str> {
        let ours = self.variables.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        let known =
            |name: &str| OTHERS.contains(&name) || file::KEYS.iter().any(|key| key.variable() == name);
        ours.filter(|name| !known(name)).collect()
    }

    fn raw(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect() }
    }
}
