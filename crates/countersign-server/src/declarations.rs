//! TypeScript declarations of tools, for whoever writes scripts: `await tools.github.issues.create({ … })`.
//!
//! Promises: the text parses as TypeScript whatever the schemas say; the same tools give the same text; nothing that an
//! author wrote leaves its comment or literal, hides, or goes on without end. A type may say less than its schema
//! (TypeScript knows no bounds; they stand in comments), never more.

mod definitions;
mod layout;
mod notes;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod types;

use std::borrow::Cow;
use std::collections::BTreeMap;

use countersign_sdk::{Effects, Remember};
use serde_json::Value;

use countersign_kernel::CatalogTool;
use definitions::{Definitions, Settled};
use layout::{STEP, pad, signature, statement};
use schema::Side;
use text::{comment, cut, method};
use types::{NOTHING, Presence, Type};

/// The longest description of a tool that is written out, in characters.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

const ABOUT_TOOLS: &str =
    "A call that is denied or fails throws an error with a `code`, such as \"denied\" or \"invalid_input\".";
const SLEEP: &str = "/** Waits. */\ndeclare function sleep(ms: number): Promise<void>;\n";

/// Declarations of these tools, by path, and of what else a script can call.
pub fn declarations<'a>(tools: impl IntoIterator<Item = &'a CatalogTool>) -> String {
    text_of(tools.into_iter().map(|tool| {
        let definition = tool.tool().definition();
        Entry {
            path: tool.path().as_str(),
            name: &definition.name,
            description: &definition.description,
            effects: definition.effects,
            remember: definition.remember,
            input: Cow::Owned(tool.input_schema()),
            output: Cow::Owned(tool.output_schema()),
        }
    }))
}

/// What is declared of a tool.
struct Entry<'a> {
    path: &'a str,
    name: &'a str,
    description: &'a str,
    effects: Effects,
    remember: Option<Remember>,
    input: Cow<'a, Value>,
    output: Cow<'a, Value>,
}

fn text_of<'a>(entries: impl Iterator<Item = Entry<'a>>) -> String {
    let by_path: BTreeMap<&str, Entry<'a>> = entries.map(|entry| (entry.path, entry)).collect();
    let mut definitions = Definitions::default();
    let mut root = Namespace::default();
    for entry in by_path.into_values() {
        let input = definitions.add(&entry.input, Side::Input, entry.path);
        let output = definitions.add(&entry.output, Side::Output, entry.path);
        let place = root.at(entry.path);
        place.tool = Some(Function { entry, input, output });
    }
    let settled = definitions.settle();
    let types: String = settled
        .declared()
        .into_iter()
        .map(|(name, shown)| {
            let line = statement(&format!("type {name} ="), &shown.ty, 0);
            format!("{}{line}\n\n", comment(&shown.doc, 0))
        })
        .collect();
    let mut tools = String::new();
    root.write(&mut tools, &settled, STEP);
    format!("{}declare const tools: {{\n{tools}}};\n\n{types}{SLEEP}", comment(ABOUT_TOOLS, 0))
}

/// A part of the paths: what is below it, and the tool that stands at it. It can be both.
#[derive(Default)]
struct Namespace<'a> {
    tool: Option<Function<'a>>,
    below: BTreeMap<&'a str, Namespace<'a>>,
}

struct Function<'a> {
    entry: Entry<'a>,
    input: usize,
    output: usize,
}

impl<'a> Namespace<'a> {
    fn at(&mut self, path: &'a str) -> &mut Self {
        path.split('.').fold(self, |at, segment| at.below.entry(segment).or_default())
    }

    fn write(&self, out: &mut String, settled: &Settled, indent: usize) {
        for (segment, at) in &self.below {
            if at.below.is_empty() {
                at.tool.iter().for_each(|tool| tool.write(out, &method(segment), settled, indent));
                continue;
            }
            out.push_str(&format!("{}{segment}: {{\n", pad(indent)));
            at.tool.iter().for_each(|tool| tool.write(out, "", settled, indent + STEP));
            at.write(out, settled, indent + STEP);
            out.push_str(&format!("{}}};\n", pad(indent)));
        }
    }
}

impl Function<'_> {
    /// A method, or without a name the signature of what can be called and has more below it.
    fn write(&self, out: &mut String, name: &str, settled: &Settled, indent: usize) {
        let (input, output) = (settled.at(self.input), settled.at(self.output));
        let mark = if may_be_left_out(self.input, settled) { "?" } else { "" };
        let call = signature(&format!("{name}(input{mark}: "), &input.ty, &output.ty, indent);
        // Of an argument that says nothing there is nothing to say.
        let about_input = if input.ty == NOTHING { "" } else { &input.doc };
        out.push_str(&comment(&self.doc(about_input, &output.doc), indent));
        out.push_str(&format!("{}{call}\n", pad(indent)));
    }

    fn doc(&self, input: &str, output: &str) -> String {
        let Entry { name, description, effects, remember, .. } = self.entry;
        let description = cut(description.trim(), MAX_DESCRIPTION_CHARS);
        let name = cut(name.trim(), MAX_DESCRIPTION_CHARS).replace('\n', " ");
        let mut lines = vec![match (name.is_empty(), description.starts_with(name.as_str())) {
            (true, _) | (_, true) => description,
            _ if description.is_empty() => name,
            _ => format!("{}. {description}", name.trim_end_matches('.')),
        }];
        let lasting = match remember {
            Some(Remember::Session) => ", which can then count for the rest of the session",
            Some(Remember::Call) => ", each time",
            None => "",
        };
        lines.extend(effects.destructive.then(|| format!("Waits for a person's approval{lasting}.")));
        lines.extend((!input.is_empty()).then(|| format!("@param input {input}")));
        lines.extend((!output.is_empty()).then(|| format!("@returns {output}")));
        lines.join("\n")
    }
}

/// Whether a tool can be called without an argument: the gateway takes nothing for an empty object.
fn may_be_left_out(input: usize, settled: &Settled) -> bool {
    fn takes_nothing(ty: &Type) -> bool {
        match ty {
            Type::Object { fields, .. } => fields.iter().all(|f| f.presence == Presence::Optional),
            Type::Record(_) => true,
            Type::Union(members) => members.iter().any(|m| takes_nothing(&m.ty)),
            Type::Intersection(parts) => parts.iter().all(takes_nothing),
            _ => false,
        }
    }
    takes_nothing(&settled.body(input).ty)
}
