//! The data folder, opened to be read. Nothing is started: no timer, no recovery, no handler.
//!
//! Commands that only look use this. Starting a gateway would take up what an earlier process left behind, and a gateway
//! without the tools of that process would end it.

use std::path::Path;
use std::sync::Arc;

use countersign_core::event::Event;
use countersign_core::execution::{Execution, Recovery, Status};
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::Target;
use countersign_kernel::ports::{
    ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow, Page, Store as _,
};
use countersign_store::{OpenError, SqliteStore};

use crate::exit::Problem;
use crate::invocation::Invocation;

const BATCH: usize = 500;

/// An open data folder. It is ours until this is dropped.
pub(crate) struct DataFolder {
    pub(crate) store: Arc<SqliteStore>,
}

/// An execution with its journal.
pub(crate) struct Told {
    pub(crate) execution: Execution,
    pub(crate) journal: Vec<Event>,
}

impl DataFolder {
    pub(crate) fn open(folder: &Path) -> Result<Self, Problem> {
        SqliteStore::open(folder)
            .map(|store| Self { store: Arc::new(store) })
            .map_err(|error| refused(&error))
    }

    /// Every question nobody answered, oldest first.
    pub(crate) async fn open_questions(&self) -> anyhow::Result<Vec<ElicitationRow>> {
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        let (mut page, mut all) = (Page::first(BATCH), Vec::new());
        loop {
            let part = self.store.elicitations(filter.clone(), page).await?;
            all.extend(part.items);
            match part.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: BATCH },
                None => return Ok(all),
            }
        }
    }

    /// Every execution that stands here, newest first.
    pub(crate) async fn executions_in(&self, status: Status) -> anyhow::Result<Vec<ExecutionRow>> {
        let filter = ExecutionFilter { status: vec![status], requester: None };
        let (mut page, mut all) = (Page::first(BATCH), Vec::new());
        loop {
            let part = self.store.executions(filter.clone(), page).await?;
            all.extend(part.items);
            match part.next {
                Some(cursor) => page = Page { cursor: Some(cursor), limit: BATCH },
                None => return Ok(all),
            }
        }
    }

    /// One execution, with its journal.
    pub(crate) async fn told(&self, id: ExecutionId) -> anyhow::Result<Option<Told>> {
        let journal = self.store.journal(id).await?;
        if journal.is_empty() {
            return Ok(None);
        }
        Ok(Some(Told { execution: Execution::replay(&journal)?, journal }))
    }

    /// The execution that somebody wants to decide about.
    pub(crate) async fn told_of(&self, target: Target) -> anyhow::Result<Option<Told>> {
        let id = match target {
            Target::Execution(id) => Some(id),
            Target::Elicitation(id) => self.store.elicitation(id).await?.map(|row| row.execution),
        };
        match id {
            Some(id) => self.told(id).await,
            None => Ok(None),
        }
    }

    /// Executions that the next gateway would go on with and could not, because their tool is not among `paths`. Those
    /// that it would only find in doubt need no tool.
    pub(crate) async fn stranded(&self, paths: &[String]) -> anyhow::Result<Vec<ExecutionRow>> {
        let mut stranded = Vec::new();
        for row in self.executions_in(Status::Running).await? {
            let here = row.tool.as_ref().is_none_or(|tool| paths.iter().any(|path| tool == path.as_str()));
            if here {
                continue;
            }
            let recoveries =
                self.told(row.id).await?.map(|told| told.execution.recover()).unwrap_or_default();
            let doubt = |recovery: &Recovery| matches!(recovery, Recovery::FoundInDoubt(_));
            if recoveries.is_empty() || !recoveries.iter().all(doubt) {
                stranded.push(row);
            }
        }
        Ok(stranded)
    }
}

/// What `approve` and `deny` name: an elicitation, or an execution.
pub(crate) fn target(id: &str, invocation: &Invocation) -> Result<Target, Problem> {
    let parsed = if id.starts_with(ExecutionId::PREFIX) {
        id.parse().map(Target::Execution).map_err(|e| e.to_string())
    } else if id.starts_with(ElicitationId::PREFIX) {
        id.parse().map(Target::Elicitation).map_err(|e| e.to_string())
    } else {
        Err(format!("{id:?} is neither an elicitation (eli_…) nor an execution (exec_…)"))
    };
    parsed.map_err(|e| {
        Problem::usage(e).hint(format!("`{}` lists what waits, with its ids.", invocation.command("inbox")))
    })
}

/// An execution's id from the command line.
pub(crate) fn execution_id(id: &str, invocation: &Invocation) -> Result<ExecutionId, Problem> {
    id.parse().map_err(|e: countersign_core::ids::IdError| {
        Problem::usage(e.to_string())
            .hint(format!("`{}` lists executions.", invocation.command("executions")))
    })
}

fn refused(error: &OpenError) -> Problem {
    match error {
        OpenError::InUse { .. } => Problem::new("data_folder_in_use", error.to_string())
            .hint("One process at a time works on a data folder. If it waits at a terminal, answer there."),
        OpenError::Folder { .. } | OpenError::ReadOnly { .. } => {
            Problem::new("data_folder_unusable", error.to_string())
                .hint("Say where to keep data with --data-dir FOLDER.")
        }
        _ => Problem::new("store_unusable", error.to_string()),
    }
}
