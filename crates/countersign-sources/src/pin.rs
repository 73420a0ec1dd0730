//! Pinning: what a source offers, compared with what a person accepted of it. Pure.
//!
//! A tool is known by what it is at the source (its origin), never by its name: a rename there is a new tool. Its name here
//! is ours, and stays with its origin.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_kernel::ports::{FieldChange, ToolStanding};
use serde_json::{Value, json};

use crate::offer::OfferedTool;

/// A tool that is offered, was accepted, or both.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Compared {
    /// As it is offered; as it was accepted where it is offered no more.
    pub(crate) tool: Arc<OfferedTool>,
    pub(crate) standing: ToolStanding,
    pub(crate) changes: Vec<FieldChange>,
}

/// Every tool of an offer and of what was accepted, by name.
pub(crate) fn compare(accepted: &[Arc<OfferedTool>], offered: &[Arc<OfferedTool>]) -> Vec<Compared> {
    let whole = |found: Found<'_>| Compared {
        tool: Arc::clone(found.tool),
        standing: found.standing,
        changes: found.before.map(|before| changes(before, found.tool)).unwrap_or_default(),
    };
    let mut compared: Vec<Compared> = standings(accepted, offered).into_iter().map(whole).collect();
    compared.sort_by(|a, b| a.tool.name.cmp(&b.tool.name));
    compared
}

/// A tool with its standing, where it lies.
pub(crate) struct Found<'a> {
    pub(crate) tool: &'a Arc<OfferedTool>,
    pub(crate) standing: ToolStanding,
    /// As it was accepted, where it changed since.
    before: Option<&'a Arc<OfferedTool>>,
}

/// The same without copies and without saying what changed: every page asks how many tools wait.
pub(crate) fn standings<'a>(
    accepted: &'a [Arc<OfferedTool>],
    offered: &'a [Arc<OfferedTool>],
) -> Vec<Found<'a>> {
    let mut known: BTreeMap<&str, &Arc<OfferedTool>> =
        accepted.iter().map(|tool| (tool.origin.as_str(), tool)).collect();
    let mut all = Vec::with_capacity(offered.len());
    for tool in offered {
        let (standing, before) = match known.remove(tool.origin.as_str()) {
            None => (ToolStanding::New, None),
            Some(before) if is_same(before, tool) => (ToolStanding::Accepted, None),
            Some(before) => (ToolStanding::Changed, Some(before)),
        };
        all.push(Found { tool, standing, before });
    }
    let missing = |tool| Found { tool, standing: ToolStanding::Missing, before: None };
    all.extend(known.into_values().map(missing));
    all
}

/// Lets what was accepted and is offered unchanged be one value: a source may have a thousand definitions.
pub(crate) fn share(accepted: &mut [Arc<OfferedTool>], offered: &[Arc<OfferedTool>]) {
    let offered: BTreeMap<&str, &Arc<OfferedTool>> =
        offered.iter().map(|tool| (tool.origin.as_str(), tool)).collect();
    for tool in accepted {
        if let Some(same) = offered.get(tool.origin.as_str()).filter(|offered| **offered == tool) {
            *tool = Arc::clone(same);
        }
    }
}

/// Whether two definitions are the same. The name is ours and no part of them.
fn is_same(before: &OfferedTool, now: &OfferedTool) -> bool {
    let OfferedTool { name: _, title, description, input_schema, output_schema, server, effects, origin } =
        before;
    (title, description, input_schema, output_schema)
        == (&now.title, &now.description, &now.input_schema, &now.output_schema)
        && (server, effects, origin) == (&now.server, &now.effects, &now.origin)
}

/// The parts of a definition that no other field of a list shows, whole.
pub(crate) fn definition(tool: &OfferedTool) -> Value {
    let mut definition = json!({ "inputSchema": tool.input_schema });
    for (field, value) in [("title", json!(tool.title)), ("outputSchema", json!(tool.output_schema))] {
        if !value.is_null() {
            definition[field] = value;
        }
    }
    definition
}

/// The parts of a definition that differ. The name is ours and no part of it.
fn changes(before: &OfferedTool, now: &OfferedTool) -> Vec<FieldChange> {
    let fields: [(&'static str, Value, Value); 6] = [
        ("server", json!(before.server), json!(now.server)),
        ("title", json!(before.title), json!(now.title)),
        ("description", json!(before.description), json!(now.description)),
        ("inputSchema", json!(before.input_schema), json!(now.input_schema)),
        ("outputSchema", json!(before.output_schema), json!(now.output_schema)),
        ("effects", json!(before.effects), json!(now.effects)),
    ];
    let differing = fields.into_iter().filter(|(_, before, now)| before != now);
    differing
        .map(|(field, before, now)| FieldChange {
            field,
            accepted: before.to_string(),
            offered: now.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sdk::Effects;

    fn tool(origin: &str, description: &str) -> OfferedTool {
        OfferedTool {
            name: origin.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: json!({ "type": "object" }).into(),
            output_schema: None,
            server: None,
            effects: Effects::default(),
            origin: origin.to_owned(),
        }
    }

    fn standings(accepted: &[OfferedTool], offered: Vec<OfferedTool>) -> Vec<(String, ToolStanding)> {
        let accepted: Vec<_> = accepted.iter().cloned().map(Arc::new).collect();
        let offered: Vec<_> = offered.into_iter().map(Arc::new).collect();
        let compared = compare(&accepted, &offered).into_iter();
        compared.map(|found| (found.tool.origin.clone(), found.standing)).collect()
    }

    #[test]
    fn a_tool_is_accepted_only_while_its_whole_definition_is_what_was_accepted() {
        let accepted = [tool("a", "reads"), tool("b", "reads"), tool("c", "reads")];
        let offered = vec![tool("a", "reads"), tool("b", "reads and sends"), tool("d", "new")];
        assert_eq!(
            standings(&accepted, offered),
            [
                ("a".to_owned(), ToolStanding::Accepted),
                ("b".to_owned(), ToolStanding::Changed),
                ("c".to_owned(), ToolStanding::Missing),
                ("d".to_owned(), ToolStanding::New),
            ]
        );
    }

    #[test]
    fn lowered_effects_are_a_change_and_another_name_is_none() {
        let accepted = OfferedTool {
            effects: Effects { destructive: true, ..Effects::default() },
            ..tool("a", "deletes")
        };
        let lowered = OfferedTool { effects: Effects::default(), ..accepted.clone() };
        let renamed = OfferedTool { name: "other".to_owned(), ..accepted.clone() };
        let accepted = [accepted];
        assert_eq!(standings(&accepted, vec![lowered]), [("a".to_owned(), ToolStanding::Changed)]);
        assert_eq!(standings(&accepted, vec![renamed]), [("a".to_owned(), ToolStanding::Accepted)]);
    }
}
