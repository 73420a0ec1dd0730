//! Recording what people decide about sources: which there are, and which definitions of their tools were accepted.
//!
//! Promise: each change is in the audit, in the commit that made it, under the name of the user who made it, and is refused
//! where that user's authority ended meanwhile.

use std::sync::Arc;

use countersign_core::audit::AuditEntry;

use crate::accept::Caller;
use crate::error::GatewayError;
use crate::gateway::{Gateway, to_its_end};
use crate::kernel::Kernel;
use crate::ports::{SourceRow, SourceToolRow, SourceWrite, UserMay, Write};

/// How many origins an audit record names.
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
        let (kernel, by) = (Arc::clone(self.kernel()), by.cloned());
        to_its_end(async move { kernel.change_sources(by.as_ref(), changes).await }).await
    }
}

impl Kernel {
    async fn change_sources(
        &self,
        by: Option<&Caller>,
        changes: Vec<SourceWrite>,
    ) -> Result<(), GatewayError> {
        if changes.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let audit = vec![AuditEntry::bare(
            now,
            "SourceChanged",
            by.map(|by| by.principal.id.clone()),
            told(&changes),
        )];
        let require = by.map(|by| by.authority(UserMay::Decide, now)).unwrap_or_default();
        self.store.commit(Write { require, sources: changes, audit, ..Write::default() }).await?;
        Ok(())
    }
}

fn told(changes: &[SourceWrite]) -> String {
    let more = changes.len().saturating_sub(MAX_NAMED);
    let named = changes.iter().take(MAX_NAMED).map(|change| match change {
        SourceWrite::Put(row) => format!("put {}", row.name),
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
