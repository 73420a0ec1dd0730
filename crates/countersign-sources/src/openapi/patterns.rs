//! Which regular expressions of a document the gateway's validator can use.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::json;

/// The longest expression that is tried.
const MAX_PATTERN_BYTES: usize = 1024;

/// Remembers what was tried: the same few expressions stand in hundreds of operations.
#[derive(Debug, Default)]
pub(super) struct Patterns(RefCell<HashMap<String, bool>>);

impl Patterns {
    /// Whether the validator that checks calls takes this expression.
    pub(super) fn compiles(&self, pattern: &str) -> bool {
        if pattern.len() > MAX_PATTERN_BYTES {
            return false;
        }
        if let Some(known) = self.0.borrow().get(pattern) {
            return *known;
        }
        let compiles = jsonschema::draft202012::new(&json!({ "pattern": pattern })).is_ok();
        self.0.borrow_mut().insert(pattern.to_owned(), compiles);
        compiles
    }
}
