//! The demo tools: small, but real.
//!
//! They keep their state in `demo.db` in the data folder, durably, so that a crash can be checked against them. Nothing is
//! made before a tool first needs it: listing the tools leaves no trace.

mod bank;
mod database;
mod echo;
mod notes;
mod stock;

use std::path::Path;
use std::sync::Arc;

use countersign_sdk::Plugin;
use schemars::JsonSchema;
use serde::Deserialize;

use database::Database;

/// The namespaces of the demo tools.
const NAMESPACES: &[&str] = &["notes", "bank", "stock", "echo"];

/// The plugin, on a data folder.
pub(crate) fn plugin(folder: &Path) -> Plugin {
    let database = Arc::new(Database::in_folder(folder));
    let plugin =
        Plugin::new("demo", "Demo", "Notes, a bank and a stock room, to try things out with.").version("1");
    let tools = notes::tools(&database)
        .into_iter()
        .chain(bank::tools(&database))
        .chain([stock::check(), echo::say()]);
    tools.fold(plugin, Plugin::tool)
}

/// Whether a path is, or would be, one of the demo's.
pub(crate) fn owns(path: &str) -> bool {
    path.split('.').next().is_some_and(|first| NAMESPACES.contains(&first))
}

/// The input of a tool that takes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
struct Nothing {}
