//! What is in force and where it came from, for the audit, for `/api/configuration` and for `doctor`.
//!
//! Promise: every key that somebody set is named with what set it, so that nothing can weaken the gate unseen (R18).

use countersign_kernel::ports::SourceConfig;
use countersign_server::wire::{Configuration, Setting};

use super::file::{Entry, Origin};
use super::{Choice, Config};

/// The audit's name for a start's configuration.
pub(crate) const CONFIGURATION_LOADED: &str = "ConfigurationLoaded";

impl Config {
    /// What this configuration says, as the server tells it.
    pub(crate) fn in_force(&self) -> Configuration {
        Configuration {
            file: self.file.as_ref().map(|file| absolute(file)),
            sha256: self.file_digest.map(|digest| digest.to_string()),
            settings: self.chosen.clone(),
            rules: self.policy.rules().len() as u64,
            policy_version: self.policy.version().digest().to_string(),
            data_folder: absolute(&self.data_dir),
            unix_user: unix_user(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Adds a source of the file, and remembers its line.
    pub(super) fn add_source(&mut self, source: SourceConfig, from: String) {
        // It names credentials and has none, so that all of it may be told.
        let value = serde_json::to_string(&source).unwrap_or_default();
        self.chosen.push(Setting { key: format!("source.{}", source.name), value, from });
        self.sources.push(source);
    }

    /// Remembers who set a key. What comes later wins, so that it takes the place of what came before.
    pub(super) fn note(&mut self, entry: &Entry, from: String) {
        if entry.key == "data_dir" {
            self.folder_choice = match entry.origin {
                Origin::Variable => Choice::Named,
                Origin::Line(_) => Choice::Usual,
            };
        }
        self.chosen.retain(|setting| setting.key != entry.key);
        self.chosen.push(Setting { key: entry.key.to_owned(), value: entry.text.clone(), from });
    }
}

/// A configuration in one line, for the audit.
pub(crate) fn line(configuration: &Configuration) -> String {
    let Configuration { file, sha256, settings, rules, policy_version, data_folder, .. } = configuration;
    let source = match (file, sha256) {
        (Some(file), Some(sha256)) => format!("{file} (SHA-256 {sha256})"),
        _ => "no file, built-in defaults".to_owned(),
    };
    let set = settings.iter().map(|Setting { key, value, from }| format!("; {key} = {value:?} ({from})"));
    let user = configuration.unix_user.map(|user| format!("; Unix user {user}")).unwrap_or_default();
    format!(
        "{source}{}; {rules} rules, policy {policy_version}; data folder {data_folder}{user}",
        set.collect::<String>()
    )
}

fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// The user that this process acts as.
pub(crate) fn unix_user() -> Option<u32> {
    #[cfg(unix)]
    return Some(rustix::process::geteuid().as_raw());
    #[cfg(not(unix))]
    None
}
