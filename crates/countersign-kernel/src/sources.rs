//! Recording what people decide about sources: which there are, and which definitions of their tools were accepted.
//!
//! Promise: each change is in the audit, in the commit that made it, under the name of the user who made it, and is refused
//! where that user's authority ended meanwhile.

use std::sync::Arc;

use countersign_core::audit::AuditEntry;
use serde_json::Value;

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::gateway::{Gateway, run_detached};
use crate::kernel::Kernel;
use crate::ports::{SourceRow, SourceToolRow, SourceWrite, UserMay, Write};

/// How many origins, or patterns of a source's settings, an audit record names.
const MAX_NAMED: usize = 20;

impl Gateway {
    /// All sources that people added, by name.
    pub async fn sources(&self) -> Result<Vec<SourceRow>, GatewayError> {
        Ok(self.kernel().store.sources().await?)
    }

    /// The accepted definitions of a source's tools.
    pub async fn source_tools(&self, source: &str) -> Result<Vec<SourceToolRow>, GatewayError> {
        Ok(self.kernel().store.source_tools(source).await?)
    }

    /// Records changes to sources. `by` is nobody where the operator's configuration makes them.
    pub async fn change_sources(
        &self,
        by: Option<&Caller>,
        changes: Vec<SourceWrite>,
    ) -> Result<(), GatewayError> {
        self.change_sources_telling(by, changes, None).await
    }

    /// The same, where the audit record says more than the changes do.
    pub async fn change_sources_telling(
        &self,
        by: Option<&Caller>,
        changes: Vec<SourceWrite>,
        more: Option<String>,
    ) -> Result<(), GatewayError> {
        let (kernel, by) = (Arc::clone(self.kernel()), by.cloned());
        run_detached(async move { kernel.change_sources(by.as_ref(), changes, more).await }).await
    }
}

impl Kernel {
    async fn change_sources(
        &self,
        by: Option<&Caller>,
        changes: Vec<SourceWrite>,
        more: Option<String>,
    ) -> Result<(), GatewayError> {
        if changes.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let has_put = changes.iter().any(|change| matches!(change, SourceWrite::Put(_)));
        let before = if has_put { self.store.sources().await? } else { Vec::new() };
        let told: Vec<String> = [told(&changes, &before)].into_iter().chain(more).collect();
        let who = by.map(|by| by.principal.id.clone());
        let audit = vec![AuditEntry::bare(now, "SourceChanged", who, told.join("; "))];
        let require = by.map(|by| by.authority(UserMay::Decide, now)).unwrap_or_default();
        self.store.commit(Write { require, sources: changes, audit, ..Write::default() }).await?;
        Ok(())
    }
}

fn told(changes: &[SourceWrite], before: &[SourceRow]) -> String {
    let more = changes.len().saturating_sub(MAX_NAMED);
    let named = changes.iter().take(MAX_NAMED).map(|change| match change {
        SourceWrite::Put(row) => match before.iter().find(|before| before.name == row.name) {
            None => format!("put {}", row.name),
            Some(before) => format!("put {}{}", row.name, changed_fields(&before.config, &row.config)),
        },
        SourceWrite::Remove { name } => format!("removed {name}"),
        SourceWrite::Accept(row) => format!("accepted {:?} of {}", row.origin, row.source),
        SourceWrite::Forget { source, origin } => format!("forgot {origin:?} of {source}"),
    });
    let mut told: Vec<String> = named.collect();
    if more > 0 {
        told.push(format!("{more} more"));
    }
    told.join("; ")
}

/// Which fields of a configuration changed. Of the settings of its tools it says how, because they say what needs approval;
/// of everything else only the name, because an address may hold what is no auditor's business.
fn changed_fields(before: &Value, now: &Value) -> String {
    let mut changed = Vec::new();
    for field in fields(before, now) {
        match (before.get(field), now.get(field)) {
            (old, new) if old == new => {}
            (old, new) if field == "tools" => {
                let (old, new) = (old.unwrap_or(&Value::Null), new.unwrap_or(&Value::Null));
                changed
                    .extend(fields(old, new).filter_map(|list| changed_list(list, &old[list], &new[list])));
            }
            _ => changed.push(field.to_owned()),
        }
    }
    if changed.is_empty() { String::new() } else { format!(": changed {}", changed.join(", ")) }
}

/// The names of the fields of two objects, each once.
fn fields<'v>(before: &'v Value, now: &'v Value) -> impl Iterator<Item = &'v str> {
    let old = before.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let added = now.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    old.chain(added.filter(|name| before.get(name).is_none()))
}

/// `tools.readOnly +orders.list -orders.drop`.
fn changed_list(name: &str, before: &Value, now: &Value) -> Option<String> {
    if before == now {
        return None;
    }
    let missing_in = |one: &Value, other: &Value, sign: &str| -> Vec<String> {
        let patterns = one.as_array().into_iter().flatten().filter_map(Value::as_str);
        let has = |pattern: &str| other.as_array().is_some_and(|all| all.iter().any(|one| one == pattern));
        patterns.filter(|pattern| !has(pattern)).map(|pattern| format!(" {sign}{pattern}")).collect()
    };
    let mut all = missing_in(now, before, "+");
    all.extend(missing_in(before, now, "-"));
    let more = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    if more > 0 {
        all.push(format!(" and {more} more"));
    }
    Some(format!("tools.{name}{}", all.concat()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_effects_is_told_by_pattern_and_everything_else_by_name() {
        let before = json!({ "name": "shop", "url": "https://a.example/?key=s3cret", "allowPrivate": true,
            "tools": { "readOnly": ["orders.list"], "destructive": ["**"], "names": {} } });
        let now = json!({ "name": "shop", "url": "https://b.example/?key=s3cret",
            "tools": { "readOnly": ["orders.get"], "destructive": ["**"], "names": { "a": "b" } } });
        assert_eq!(
            changed_fields(&before, &now),
            ": changed allowPrivate, tools.names, tools.readOnly +orders.get -orders.list, url"
        );
        assert_eq!(changed_fields(&now, &now), "");
    }
}
