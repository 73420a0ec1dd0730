//! The data folder, opened: it is ours for as long as a server of ours runs on it.

use std::path::Path;
use std::sync::Arc;

use countersign_core::execution::{Execution, Next, Status};
use countersign_kernel::ports::{ExecutionFilter, ExecutionRow, Page, Store as _};
use countersign_store::{OpenError, SqliteStore};

use crate::exit::Problem;

const BATCH: usize = 500;
/// The code of a folder that another process works on.
pub(crate) const IN_USE: &str = "data_folder_in_use";

/// An open data folder. It is ours until this is dropped.
pub(crate) struct DataFolder {
    pub(crate) store: Arc<SqliteStore>,
}

impl DataFolder {
    pub(crate) fn open(folder: &Path) -> Result<Self, Problem> {
        SqliteStore::open(folder)
            .map(|store| Self { store: Arc::new(store) })
            .map_err(|error| refused(&error))
    }

    /// Every execution that stands here, newest first.
    async fn executions_in(&self, status: Status) -> anyhow::Result<Vec<ExecutionRow>> {
        let filter = ExecutionFilter { status: vec![status], ..ExecutionFilter::default() };
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

    /// Executions that the next gateway would go on with and could not, because their tool is not among `paths`. Those
    /// that it would only find in doubt need no tool.
    pub(crate) async fn stranded(&self, paths: &[String]) -> anyhow::Result<Vec<ExecutionRow>> {
        let mut stranded = Vec::new();
        for row in self.executions_in(Status::Running).await? {
            let here = row.tool.as_ref().is_none_or(|tool| paths.iter().any(|path| tool == path.as_str()));
            if here {
                continue;
            }
            let journal = self.store.journal(row.id).await?;
            let is_only_lost = !journal.is_empty() && {
                let execution = Execution::replay(&journal)?;
                let mut next = execution.next_of_calls().peekable();
                next.peek().is_some() && next.all(|next| matches!(next, Next::FindInDoubt(..)))
            };
            if !is_only_lost {
                stranded.push(row);
            }
        }
        Ok(stranded)
    }
}

fn refused(error: &OpenError) -> Problem {
    match error {
        OpenError::InUse { folder, pid } => {
            let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            let message = format!("another command{pid} is working on the data folder {}", folder.display());
            Problem::new(IN_USE, message)
                .hint("If it waits for an answer at a terminal, answer there. With `countersign serve` running, commands share it.")
        }
        OpenError::Folder { .. } | OpenError::ReadOnly { .. } => {
            Problem::new("data_folder_unusable", error.to_string())
                .hint("Say where to keep data with --data-dir FOLDER.")
        }
        _ => Problem::new("store_unusable", error.to_string()),
    }
}
