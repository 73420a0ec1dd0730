//! What tools call secrets, kept out of messages that quote them. A tool's author writes the message, and may not have thought
//! of who reads it.

use std::collections::BTreeMap;

use countersign_core::event::{Event, EventBody};
use serde_json::Value;

use super::api::segment;
use super::arguments::{Secrets, Shown};
use super::frame::{Reader, Trouble};
use crate::wire;

/// The input schemas of some tools.
pub(super) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// Those of these tools, as far as they are still in the catalog.
    pub(super) async fn of(reader: &Reader, tools: impl Iterator<Item = &str>) -> Result<Self, Trouble> {
        let mut all = BTreeMap::new();
        for path in tools {
            if all.contains_key(path) {
                continue;
            }
            let found: Option<wire::ToolDetail> =
                reader.find(&format!("/api/tools/{}", segment(path))).await?;
            all.insert(path.to_owned(), found.map_or(Value::Null, |tool| tool.input_schema));
        }
        Ok(Self(all))
    }

    /// The arguments of a call, with their secrets taken out.
    pub(super) fn shown<'a>(&self, tool: &str, args: &'a Value) -> Shown<'a> {
        Shown::of(args, self.0.get(tool).unwrap_or(&Value::Null))
    }

    /// What is secret in the calls of a journal.
    pub(super) fn secrets_of(&self, journal: &[Event]) -> Secrets {
        let calls = journal.iter().filter_map(|event| match &event.body {
            EventBody::CallIssued(issued) => Some((issued.path.as_str(), issued.args.to_value())),
            EventBody::Asked(question) => Some((question.tool.as_str(), question.args.to_value())),
            _ => None,
        });
        calls.fold(Secrets::default(), |all, (tool, args)| all.and(self.shown(tool, &args).secrets()))
    }

    /// A message about a call, without the secrets of its arguments.
    pub(super) fn clean(&self, tool: &str, args: &Value, message: &str) -> String {
        self.shown(tool, args).secrets().cut_from(message)
    }
}
