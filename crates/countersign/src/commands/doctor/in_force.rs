//! The configuration in force: the server's where one runs, else what commands here work with.

use std::path::Path;

use countersign_core::digest::Digest;
use countersign_server::wire::{Configuration, Setting};

use super::Findings;
use crate::config::unix_user;
use crate::contact::Contact;

/// How much of a file's SHA-256 is shown; the audit and `--json` of the server have it whole.
const SHORT_DIGEST: usize = 12;

/// Who works with a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// A server that runs, since it started.
    Servers,
    /// Commands that work directly on the data folder.
    Commands,
}

/// What the server says of its own configuration.
pub(super) async fn of_server(contact: &Contact, findings: &mut Findings) {
    match contact.operator.configuration().await {
        Ok(configuration) => {
            report(&configuration, Whose::Servers, findings);
            shells(configuration.unix_user, findings);
        }
        Err(problem) => {
            findings.good("configuration", format!("the server's, which it tells only admins: {problem}"));
        }
    }
}

/// Tells where a configuration came from, and every key that was set.
pub(super) fn report(configuration: &Configuration, whose: Whose, findings: &mut Findings) {
    let whose_text = match whose {
        Whose::Servers => "the server's: ",
        Whose::Commands => "",
    };
    match (&configuration.file, &configuration.sha256) {
        (Some(file), Some(sha256)) => {
            let short = sha256.get(..SHORT_DIGEST).unwrap_or(sha256);
            findings.good("configuration", format!("{whose_text}{file} (SHA-256 {short}…)"));
            if whose == Whose::Servers && has_changed(Path::new(file), sha256) {
                let advice = "Restart the server to use the file as it is now.";
                findings.odd("configuration", format!("{file} changed since the server started"), advice);
            }
        }
        _ => findings.good("configuration", format!("{whose_text}no countersign.toml; built-in defaults")),
    }
    for Setting { key, value, from } in &configuration.settings {
        let found = format!("{key} = {value} ({from})");
        if key == "approvals.agent_may_decide" && value == "true" {
            let advice = "Agents may decide what they themselves asked for. Remove it, unless that is meant.";
            findings.odd("setting", found, advice);
        } else {
            findings.good("setting", found);
        }
    }
    findings.good(
        "policy",
        match configuration.rules {
            0 => "no rules: reading is allowed, destructive tools ask".to_owned(),
            1 => "1 rule".to_owned(),
            number => format!("{number} rules"),
        },
    );
}

/// Says what a shell of this Unix user can do to the gate. `server` is the user that the server runs as, where one runs.
pub(super) fn shells(server: Option<u32>, findings: &mut Findings) {
    let Some(here) = unix_user() else { return };
    match server {
        Some(server) if server != here => {
            let found = format!("the server runs as another Unix user (uid {server}; you are uid {here})");
            findings.good("Unix user", found);
        }
        _ => {
            let found =
                format!("an agent with a shell of this Unix user (uid {here}) can run `countersign approve`");
            let advice = "To prevent that, run the server as another Unix user: docs/security.md says how.";
            findings.odd("Unix user", found, advice);
        }
    }
}

/// Whether a file has other content than when it was read. One that cannot be read from here counts as unchanged.
fn has_changed(file: &Path, sha256: &str) -> bool {
    std::fs::read(file).is_ok_and(|bytes| Digest::of(&bytes).to_string() != sha256)
}
