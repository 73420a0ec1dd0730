//! Changing the tools of a source while the gateway runs.
//!
//! Promise: a change is recorded in the audit, then swapped in whole, or refused and nothing changed. Calls whose handlers run
//! keep their tool. A tool that changed or was removed voids what was asked, approved and remembered about it (R14): open
//! questions are withdrawn with a reason, and remembered approvals that cover nothing else are revoked. Everything about
//! unchanged tools stays as it is.
//!
//! No question about a tool of before is left open: whoever asks looks at the catalog once more after the question is
//! recorded (`Kernel::withdraw_if_void`), and a change looks for open questions after the swap, so that one of them sees the
//! other. A crash between record and swap loses nothing: the next process judges what is open by the tools it has.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use countersign_core::audit::AuditEntry;
use countersign_core::digest::Digest;
use countersign_core::elicitation::Origin;
use countersign_core::grant::{Grant, GrantedTool};
use countersign_sdk::{IdError, PluginError, PrincipalId, SessionId, Tool, ToolPath};

use crate::catalog::{Catalog, CatalogTool, SourceKind};
use crate::error::GatewayError;
use crate::events::{GatewayEvent, GatewayEventKind};
use crate::kernel::Kernel;
use crate::ports::{ElicitationRow, GrantWrite, Page, StoreError, Write};

/// The most tools in a catalog. Every one of them is kept in memory, and each list and search goes through them.
pub const MAX_TOOLS: usize = 20_000;

/// How many paths an audit record names.
const MAX_NAMED_PATHS: usize = 20;
/// How many sessions are read at once.
const SESSIONS: usize = 500;
/// Sources have no version of their own: their definitions are their fingerprints.
const VERSION: &str = "source";

/// The changes of a source's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChange {
    /// The source.
    pub source: String,
    /// Paths that were not there before.
    pub added: Vec<ToolPath>,
    /// Paths with another definition than before.
    pub changed: Vec<ToolPath>,
    /// Paths that are gone.
    pub removed: Vec<ToolPath>,
    /// How many tools stayed as they were.
    pub unchanged: usize,
    /// How many open questions were withdrawn.
    pub withdrawn_questions: usize,
    /// How many remembered approvals were revoked.
    pub revoked_grants: usize,
}

/// Why a source was not changed. The catalog is as it was.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The name is no name.
    #[error("the source's name cannot be used: {0}")]
    Name(#[from] IdError),
    /// A plugin has that name; plugins are fixed while the gateway runs.
    #[error("\"{0}\" is a plugin; its tools are fixed while the gateway runs")]
    IsPlugin(String),
    /// There is no such source.
    #[error("there is no source \"{0}\"")]
    NotFound(String),
    /// Another source or plugin has a tool at that path.
    #[error("the path \"{path}\" belongs to \"{owner}\"; a path belongs to one source")]
    PathTaken {
        /// The path.
        path: ToolPath,
        /// The source that has it.
        owner: String,
    },
    /// The same path twice.
    #[error("the path \"{0}\" is there twice")]
    DuplicatePath(ToolPath),
    /// A tool cannot be registered.
    #[error("{0}")]
    Tool(#[from] PluginError),
    /// More tools than a catalog holds.
    #[error("the catalog would have {tools} tools; it holds at most {MAX_TOOLS}")]
    TooManyTools {
        /// The resulting number of tools.
        tools: usize,
    },
    /// An internal error.
    #[error("{0}")]
    Gateway(#[from] GatewayError),
}

impl SourceError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(_) => "invalid_source_name",
            Self::IsPlugin(_) => "source_is_plugin",
            Self::NotFound(_) => "source_not_found",
            Self::PathTaken { .. } => "path_taken",
            Self::DuplicatePath(_) => "duplicate_path",
            Self::Tool(_) => "invalid_tool",
            Self::TooManyTools { .. } => "too_many_tools",
            Self::Gateway(e) => e.code(),
        }
    }
}

impl SourceChange {
    fn between(before: &Catalog, after: &Catalog, source: &str) -> Self {
        let mut change = Self {
            source: source.to_owned(),
            added: Vec::new(),
            changed: Vec::new(),
            removed: Vec::new(),
            unchanged: 0,
            withdrawn_questions: 0,
            revoked_grants: 0,
        };
        for tool in after.of_source(source) {
            match before.at(tool.path()) {
                None => change.added.push(tool.path().clone()),
                Some(old) if old.fingerprint() != tool.fingerprint() => {
                    change.changed.push(tool.path().clone());
                }
                Some(_) => change.unchanged += 1,
            }
        }
        let gone = before.of_source(source).filter(|tool| after.at(tool.path()).is_none());
        change.removed = gone.map(|tool| tool.path().clone()).collect();
        change
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    /// The text for auditors.
    fn detail(&self) -> String {
        let mut text = format!("{}:", self.source);
        for (what, paths) in [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)]
        {
            if paths.is_empty() {
                continue;
            }
            let named: Vec<&str> = paths.iter().take(MAX_NAMED_PATHS).map(ToolPath::as_str).collect();
            let rest = paths.len() - named.len();
            let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            text.push_str(&format!(" {} {what} ({}{more})", paths.len(), named.join(", ")));
        }
        text
    }
}

impl Catalog {
    /// This catalog with these tools for a source, or why that cannot be.
    pub(crate) fn replacing(&self, source: &str, tools: Vec<Tool>) -> Result<Self, SourceError> {
        PrincipalId::parse(source)?;
        if self.source(source) == Some(SourceKind::Plugin) {
            return Err(SourceError::IsPlugin(source.to_owned()));
        }
        let others = self.len() - self.of_source(source).count();
        if others + tools.len() > MAX_TOOLS {
            return Err(SourceError::TooManyTools { tools: others + tools.len() });
        }
        let mut seen = HashSet::new();
        let mut checked = Vec::with_capacity(tools.len());
        for tool in tools {
            let tool = CatalogTool::new(tool, source, VERSION, Vec::new())?;
            let path = tool.path().clone();
            if let Some(taken) = self.at(&path).filter(|taken| taken.source() != source) {
                return Err(SourceError::PathTaken { path, owner: taken.source().to_owned() });
            }
            if !seen.insert(path.clone()) {
                return Err(SourceError::DuplicatePath(path));
            }
            checked.push(tool);
        }
        Ok(self.with_source(source, SourceKind::Replaceable, checked))
    }

    fn removing(&self, source: &str) -> Result<Self, SourceError> {
        match self.source(source) {
            Some(SourceKind::Plugin) => Err(SourceError::IsPlugin(source.to_owned())),
            Some(SourceKind::Replaceable | SourceKind::Awaited) => {
                Ok(self.with_source(source, SourceKind::Removed, Vec::new()))
            }
            Some(SourceKind::Removed) | None => Err(SourceError::NotFound(source.to_owned())),
        }
    }
}

impl Kernel {
    pub(crate) async fn replace_source(
        self: &Arc<Self>,
        source: &str,
        tools: Vec<Tool>,
    ) -> Result<SourceChange, SourceError> {
        let _turn = self.catalog.changing.lock().await;
        let next = self.catalog.snapshot().replacing(source, tools)?;
        self.change_to(next, source).await
    }

    pub(crate) async fn remove_source(self: &Arc<Self>, source: &str) -> Result<SourceChange, SourceError> {
        let _turn = self.catalog.changing.lock().await;
        let next = self.catalog.snapshot().removing(source)?;
        self.change_to(next, source).await
    }

    async fn change_to(self: &Arc<Self>, next: Catalog, source: &str) -> Result<SourceChange, SourceError> {
        if self.is_closed() {
            return Err(GatewayError::Closed.into());
        }
        let before = self.catalog.snapshot();
        let mut change = SourceChange::between(&before, &next, source);
        let known = before.source(source) == next.source(source);
        if change.is_empty() && known {
            // The same definitions with other handlers, after a reconnect perhaps: nothing that anybody decided on changed.
            self.catalog.swap(next);
            return Ok(change);
        }
        let audit = vec![AuditEntry::bare(self.now(), "CatalogChanged", None, change.detail())];
        // Another process may begin with the tools of before: it must look at what this one leaves open.
        let is_lost = !change.changed.is_empty() || !change.removed.is_empty();
        let rulebook = is_lost.then_some(Digest::ZERO);
        let recorded = self.store.commit(Write { audit, rulebook, ..Write::default() }).await;
        let seq = recorded.map_err(GatewayError::from)?.audit_seq;
        self.catalog.swap(next);
        self.meet_the_change(&before, &mut change).await;
        let kind = GatewayEventKind::CatalogChanged(Box::new(change.clone()));
        self.send(GatewayEvent { seq, execution: None, kind });
        Ok(change)
    }

    /// Compares questions, approvals and grants with the new catalog. A store that fails here leaves open questions
    /// as they are; approving one looks once more, and so does the next start.
    async fn meet_the_change(self: &Arc<Self>, before: &Catalog, change: &mut SourceChange) {
        let now = self.catalog.snapshot();
        let is_steady = |path: &ToolPath| match (before.at(path), now.at(path)) {
            (Some(before), Some(now)) => before.fingerprint() == now.fingerprint(),
            _ => false,
        };
        // A handler may ask in the name of another tool than its own.
        let concerned = |row: &ElicitationRow| {
            row.elicitation.origin != Origin::Gate || !is_steady(&row.elicitation.tool)
        };
        match self.rejudge_where(concerned).await {
            Ok(rejudged) => change.withdrawn_questions = rejudged.withdrawn,
            Err(error) => tracing::error!(
                source = change.source,
                ?error,
                "open questions could not be judged by the changed tools"
            ),
        }
        let removed: BTreeSet<&ToolPath> = change.removed.iter().collect();
        match self.revoke_void_grants(&now, |path| removed.contains(path)).await {
            Ok(revoked) => change.revoked_grants = revoked,
            Err(error) => tracing::error!(
                source = change.source,
                ?error,
                "remembered approvals of changed tools could not be revoked; they cover nothing"
            ),
        }
        self.go_on_with_loaded_tools().await;
    }

    /// Revokes remembered approvals whose tools have all changed or been removed. One that covers other tools too stays for
    /// those: it is bound to fingerprints, and does not cover a changed tool.
    pub(crate) async fn revoke_void_grants(
        &self,
        catalog: &Catalog,
        is_removed: impl Fn(&ToolPath) -> bool,
    ) -> Result<usize, GatewayError> {
        let is_void = |tool: &GrantedTool| match catalog.at(&tool.path) {
            Some(now) => now.fingerprint() != tool.fingerprint,
            None => is_removed(&tool.path),
        };
        let (mut page, mut revoked) = (Page::first(SESSIONS), 0);
        loop {
            let sessions = self.store.sessions(self.now(), page).await?;
            for session in sessions.items.iter().filter(|session| session.live_grants > 0) {
                let session = &session.row.id;
                let grants = self.store.grants(session).await?;
                let void: Vec<&Grant> =
                    grants.iter().filter(|grant| grant.tools.iter().all(is_void)).collect();
                if !void.is_empty() {
                    self.revoke_as_void(session, &void).await?;
                    revoked += void.len();
                }
            }
            match sessions.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: SESSIONS },
                None => return Ok(revoked),
            }
        }
    }

    async fn revoke_as_void(&self, session: &SessionId, grants: &[&Grant]) -> Result<(), StoreError> {
        let told = |grant: &&Grant| {
            let detail = format!("{} in session {session}: its tool changed or was removed", grant.id);
            AuditEntry::bare(self.now(), "GrantRevoked", None, detail)
        };
        let write = Write {
            grants: grants.iter().map(|grant| GrantWrite::Revoke(grant.id)).collect(),
            audit: grants.iter().map(told).collect(),
            ..Write::default()
        };
        self.store.commit(write).await?;
        self.grants.forget(session);
        Ok(())
    }
}
