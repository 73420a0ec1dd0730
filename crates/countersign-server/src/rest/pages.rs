//! Parts of lists: keyset cursors, and how many at once.

use countersign_kernel::ports::Page;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::refusal::Refusal;

/// How many items a part has where nothing is said.
const DEFAULT_LIMIT: usize = 50;
/// The most items of a part.
pub(super) const MAX_LIMIT: usize = 1_000;

/// Which part of a list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// `nextCursor` of the part before.
    pub(super) cursor: Option<String>,
    /// How many items at most, 1 to 1,000; 50 where nothing is said.
    pub(super) limit: Option<usize>,
}

impl Part {
    pub(super) fn page(self) -> Result<Page, Refusal> {
        Ok(Page { limit: self.limit()?, cursor: self.cursor })
    }

    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        match self.limit {
            None => Ok(DEFAULT_LIMIT),
            Some(limit @ 1..=MAX_LIMIT) => Ok(limit),
            Some(_) => {
                Err(Refusal::bad_request("bad_request", format!("`limit` is a number from 1 to {MAX_LIMIT}")))
            }
        }
    }
}
