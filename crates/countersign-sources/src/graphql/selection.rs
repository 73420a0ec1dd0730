//! What is asked of an answer: a default by depth and size, or the caller's own choice.
//!
//! Promise: the caller's text never reaches a request. It is parsed alone, must be one selection of the tool's own field,
//! every field and argument in it must be in the schema, and what is sent is written anew from what was understood.
//! `id } } deleteIssue(…) { x` is refused.

use apollo_parser::Parser;
use apollo_parser::cst::{self, CstNode, Definition};

use super::schema::{Field, Schema, TypeDefinition, is_name};

/// The deepest nesting of a selection below the tool's field.
pub const MAX_SELECTION_DEPTH: usize = 6;
/// The longest selection that a caller may write.
pub const MAX_SELECTION_BYTES: usize = 8 * 1024;
/// The most fields of a default selection.
const MAX_DEFAULT_FIELDS: usize = 80;
/// The most members of a union that a default selection covers.
const MAX_DEFAULT_MEMBERS: usize = 8;
/// Enough for every selection within its depth, with values as arguments.
const MAX_RECURSION: usize = 32;
const MAX_TOKENS: usize = 4000;
/// Asks which type an answer is; every composite type has it.
const TYPENAME: &str = "__typename";

/// How far a default selection goes into the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The leaves of the answer.
    Leaves,
    /// The leaves of the answer's members too: a mutation's payload has hardly a leaf of its own.
    Members,
}

/// The selection for an answer of this type where the caller chose none; nothing for a leaf.
pub(super) fn by_default(schema: &Schema, type_name: &str, reach: Reach) -> Option<String> {
    if !schema.is_composite(type_name) {
        return None;
    }
    let mut budget = MAX_DEFAULT_FIELDS;
    let mut chosen = if is_connection(schema, type_name) {
        connection(schema, type_name, &mut budget)
    } else {
        composite(schema, type_name, reach, &mut budget)
    };
    if chosen.is_empty() {
        chosen = composite(schema, type_name, Reach::Members, &mut budget);
    }
    if chosen.is_empty() {
        chosen.push(TYPENAME.to_owned());
    }
    Some(chosen.join(" "))
}

fn composite(schema: &Schema, type_name: &str, reach: Reach, budget: &mut usize) -> Vec<String> {
    if let Some(TypeDefinition::Union { members }) = schema.types.get(type_name) {
        let mut chosen = vec![TYPENAME.to_owned()];
        for member in members.iter().take(MAX_DEFAULT_MEMBERS) {
            // Members of one name and different types would make the whole selection invalid.
            let leaf =
                schema.fields(member).iter().find(|field| field.name == "id" && is_plain_leaf(schema, field));
            chosen.extend(leaf.map(|leaf| format!("... on {member} {{ {} }}", leaf.name)));
        }
        return chosen;
    }
    let fields = schema.fields(type_name);
    let mut chosen = Vec::new();
    if matches!(schema.types.get(type_name), Some(TypeDefinition::Interface { .. })) {
        chosen.push(TYPENAME.to_owned());
    }
    for field in fields.iter().filter(|field| is_plain_leaf(schema, field)) {
        if *budget == 0 {
            return chosen;
        }
        *budget -= 1;
        chosen.push(field.name.clone());
    }
    if reach == Reach::Leaves {
        return chosen;
    }
    for field in fields.iter().filter(|field| !field.is_deprecated && !field.has_required_arguments()) {
        let inner = field.kind.inner();
        // Connections want to be told how many; that is the caller's choice.
        if !schema.is_composite(inner) || is_connection(schema, inner) {
            continue;
        }
        let below = composite(schema, inner, Reach::Leaves, budget);
        if !below.is_empty() {
            chosen.push(format!("{} {{ {} }}", field.name, below.join(" ")));
        }
    }
    chosen
}

fn is_plain_leaf(schema: &Schema, field: &Field) -> bool {
    !field.is_deprecated && !field.has_required_arguments() && !schema.is_composite(field.kind.inner())
}

/// A page of a list as Relay describes it.
fn is_connection(schema: &Schema, type_name: &str) -> bool {
    let has = |name: &str| schema.fields(type_name).iter().any(|field| field.name == name);
    has("pageInfo") && (has("nodes") || has("edges"))
}

fn connection(schema: &Schema, type_name: &str, budget: &mut usize) -> Vec<String> {
    let mut chosen = composite(schema, type_name, Reach::Leaves, budget);
    let find = |owner: &str, name: &str| schema.fields(owner).iter().find(|field| field.name == name);
    let below = |field: &Field, budget: &mut usize| {
        let inner = composite(schema, field.kind.inner(), Reach::Leaves, budget);
        let inner = if inner.is_empty() { vec![TYPENAME.to_owned()] } else { inner };
        format!("{} {{ {} }}", field.name, inner.join(" "))
    };
    chosen.extend(find(type_name, "pageInfo").map(|field| below(field, budget)));
    if let Some(nodes) = find(type_name, "nodes") {
        chosen.push(below(nodes, budget));
    } else if let Some(edges) = find(type_name, "edges") {
        let node = find(edges.kind.inner(), "node").filter(|node| schema.is_composite(node.kind.inner()));
        chosen.extend(node.map(|node| format!("edges {{ {} }}", below(node, budget))));
    }
    chosen
}

/// The caller's selection on a type, checked and written anew; the error says what is wrong with it.
pub(super) fn chosen(schema: &Schema, type_name: &str, text: &str) -> Result<String, String> {
    if text.len() > MAX_SELECTION_BYTES {
        return Err(format!("is longer than {MAX_SELECTION_BYTES} bytes"));
    }
    if !schema.is_composite(type_name) {
        return Err(format!("cannot be used: the answer is a {type_name} and has no fields"));
    }
    let text = text.trim();
    let braced = if text.starts_with('{') { text.to_owned() } else { format!("{{ {text}\n}}") };
    let document = format!("{{ root {braced} }}");
    let tree = Parser::new(&document).recursion_limit(MAX_RECURSION).token_limit(MAX_TOKENS).parse();
    if let Some(error) = tree.errors().next() {
        return Err(format!("is not a GraphQL selection: {}", error.message()));
    }
    let selections = only_selection(&tree.document())?;
    write_set(schema, type_name, &selections, MAX_SELECTION_DEPTH)
}

/// Demands that the text was a selection and nothing beside it: one operation, one root field, no fragment there.
fn only_selection(document: &cst::Document) -> Result<cst::SelectionSet, String> {
    let beside = || "must be one selection and nothing beside it".to_owned();
    let definitions: Vec<Definition> = document.definitions().collect();
    let [Definition::OperationDefinition(operation)] = definitions.as_slice() else { return Err(beside()) };
    let is_plain = operation.operation_type().is_none()
        && operation.variable_definitions().is_none()
        && operation.directives().is_none();
    let roots: Vec<cst::Selection> =
        operation.selection_set().map(|set| set.selections().collect()).unwrap_or_default();
    let [cst::Selection::Field(root)] = roots.as_slice() else { return Err(beside()) };
    let is_ours = root.name().is_some_and(|name| name.text() == "root")
        && root.alias().is_none()
        && root.arguments().is_none()
        && root.directives().is_none();
    match root.selection_set() {
        Some(set) if is_plain && is_ours => Ok(set),
        _ => Err(beside()),
    }
}

fn write_set(
    schema: &Schema,
    type_name: &str,
    set: &cst::SelectionSet,
    levels: usize,
) -> Result<String, String> {
    if levels == 0 {
        return Err(format!("is nested more than {MAX_SELECTION_DEPTH} levels deep"));
    }
    let mut written = Vec::new();
    for selection in set.selections() {
        written.push(match selection {
            cst::Selection::Field(field) => write_field(schema, type_name, &field, levels)?,
            cst::Selection::InlineFragment(fragment) => write_fragment(schema, type_name, &fragment, levels)?,
            cst::Selection::FragmentSpread(_) => return Err("must not use named fragments".to_owned()),
        });
    }
    if written.is_empty() {
        return Err(format!("selects nothing of {type_name}"));
    }
    Ok(written.join(" "))
}

fn write_field(
    schema: &Schema,
    type_name: &str,
    field: &cst::Field,
    levels: usize,
) -> Result<String, String> {
    let name = field.name().map(|name| name.text().to_string()).unwrap_or_default();
    if field.directives().is_some() {
        return Err(format!("must not use directives (at {name})"));
    }
    let alias = field.alias().and_then(|alias| alias.name()).map(|alias| format!("{}: ", alias.text()));
    let alias = alias.unwrap_or_default();
    if name == TYPENAME {
        return Ok(format!("{alias}{name}"));
    }
    let Some(known) = schema.fields(type_name).iter().find(|known| known.name == name) else {
        return Err(format!("asks for {name:?}, which {type_name} does not have"));
    };
    let arguments = write_arguments(known, field.arguments())?;
    let inner = known.kind.inner();
    match (schema.is_composite(inner), field.selection_set()) {
        (true, Some(set)) => {
            Ok(format!("{alias}{name}{arguments} {{ {} }}", write_set(schema, inner, &set, levels - 1)?))
        }
        (false, None) => Ok(format!("{alias}{name}{arguments}")),
        (true, None) => Err(format!("must say which fields of {name:?} are wanted ({inner})")),
        (false, Some(_)) => Err(format!("asks for fields of {name:?}, which is a {inner}")),
    }
}

fn write_fragment(
    schema: &Schema,
    type_name: &str,
    fragment: &cst::InlineFragment,
    levels: usize,
) -> Result<String, String> {
    if fragment.directives().is_some() {
        return Err("must not use directives".to_owned());
    }
    let condition = fragment.type_condition().and_then(|condition| condition.named_type()?.name());
    let on = condition.map_or_else(|| type_name.to_owned(), |name| name.text().to_string());
    if !is_name(&on) || !schema.is_composite(&on) {
        return Err(format!("names the type {on:?}, which has no fields"));
    }
    if !schema.can_be_both(type_name, &on) {
        return Err(format!("names the type {on:?}, and a {type_name} is never one"));
    }
    let set = fragment.selection_set().ok_or_else(|| format!("selects nothing of {on}"))?;
    Ok(format!("... on {on} {{ {} }}", write_set(schema, &on, &set, levels - 1)?))
}

fn write_arguments(known: &Field, given: Option<cst::Arguments>) -> Result<String, String> {
    let mut written = Vec::new();
    let mut names = Vec::new();
    for argument in given.into_iter().flat_map(|given| given.arguments()) {
        let name = argument.name().map(|name| name.text().to_string()).unwrap_or_default();
        if !known.arguments.iter().any(|one| one.name == name) {
            return Err(format!("gives {:?} the argument {name:?}, which it does not have", known.name));
        }
        let value = argument.value().ok_or_else(|| format!("gives no value for {name:?}"))?;
        written.push(format!("{name}: {}", write_value(value)?));
        names.push(name);
    }
    let missing = known.arguments.iter().find(|one| one.is_required() && !names.contains(&one.name));
    match missing {
        Some(missing) => Err(format!("leaves out the argument {:?} of {:?}", missing.name, known.name)),
        None if written.is_empty() => Ok(String::new()),
        None => Ok(format!("({})", written.join(", "))),
    }
}

fn write_value(value: cst::Value) -> Result<String, String> {
    match value {
        cst::Value::Variable(_) => Err("must not use variables".to_owned()),
        cst::Value::ListValue(list) => {
            let items: Result<Vec<String>, String> = list.values().map(write_value).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        cst::Value::ObjectValue(object) => {
            let mut members = Vec::new();
            for field in object.object_fields() {
                let (Some(name), Some(value)) = (field.name(), field.value()) else {
                    return Err("has an unreadable value".to_owned());
                };
                members.push(format!("{}: {}", name.text(), write_value(value)?));
            }
            Ok(format!("{{{}}}", members.join(", ")))
        }
        // One token each, as the lexer understood it.
        scalar => match scalar.syntax().first_token() {
            Some(_) => Ok(scalar.source_string().trim().to_owned()),
            None => Err("has an unreadable value".to_owned()),
        },
    }
}
