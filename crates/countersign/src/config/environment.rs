//! The process's environment, read once. Nothing else of this crate looks at it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use countersign_kernel::ports::EnvCredentials;
use countersign_sdk::Plugin;

use super::{file, folders};

/// Variables that start with our prefix and are no configuration key.
const OTHERS: &[&str] = &[
    "COUNTERSIGN_CONFIG",
    "COUNTERSIGN_LOG",
    "COUNTERSIGN_LOG_FORMAT",
    "COUNTERSIGN_URL",
    "COUNTERSIGN_TOKEN",
];
const PREFIX: &str = "COUNTERSIGN_";

/// What an agent's client may choose for `countersign mcp`: which server is spoken to and as whom, and how it is logged.
/// Nothing that says where the operator's files are, or what is in them (R18).
const THE_CLIENTS: &[&str] = &[
    "COUNTERSIGN_URL",
    "COUNTERSIGN_TOKEN",
    "COUNTERSIGN_LOG",
    "COUNTERSIGN_LOG_FORMAT",
    "NO_COLOR",
    "TERM",
];

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

    /// What is left for a program that an agent's client started: the client chose this environment, and may choose neither
    /// configuration nor data folder. Home is what the system's user database says, whatever `HOME` says; where it says
    /// nothing there is no home.
    pub(crate) fn of_a_client(&self) -> Self {
        // Windows has no user database to ask; there the folder comes from the environment.
        let is_kept = |name: &str| THE_CLIENTS.contains(&name) || (cfg!(windows) && name == "APPDATA");
        let kept = self.variables.iter().filter(|(name, _)| is_kept(name));
        let mut variables: BTreeMap<_, _> = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(home) = folders::operators_home(self) {
            variables.insert("HOME".to_owned(), home.into_os_string());
        }
        Self { variables }
    }

    /// Variables of ours that `of_a_client` leaves out.
    pub(crate) fn not_for_clients(&self) -> Vec<&str> {
        let ours = self.variables.keys().map(String::as_str).filter(|name| name.starts_with(PREFIX));
        ours.filter(|name| !THE_CLIENTS.contains(name)).collect()
    }

    /// Takes the token from a file, as `COUNTERSIGN_TOKEN` would have it.
    pub(crate) fn read_token(&mut self, file: &Path) -> std::io::Result<()> {
        let token = std::fs::read_to_string(file)?;
        self.variables.insert("COUNTERSIGN_TOKEN".to_owned(), token.trim().into());
        Ok(())
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

/// What this process was given for the providers that plugins declare: a server that it starts needs it.
pub(crate) fn credentials(plugins: &[Plugin]) -> Vec<(String, OsString)> {
    let providers = plugins.iter().flat_map(Plugin::providers);
    let names = providers.flat_map(EnvCredentials::variables);
    names.filter_map(|name| Some((name.clone(), std::env::var_os(name)?))).collect()
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect() }
    }
}
