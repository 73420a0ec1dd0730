//! Types as text: in one line where it fits, else broken over lines with two blanks of indent.
//!
//! What is broken as a choice begins with a line break; everything else begins on the line it is put on.

use super::text::{WIDTH, comment, property, short_comment};
use super::types::{Field, Item, Member, More, Presence, Type};

/// How far what stands inside is indented.
pub(super) const STEP: usize = 2;

/// What follows `before` of a function's signature. Where it does not fit one line, the longer half is broken first.
pub(super) fn signature(before: &str, input: &Type, output: &Type, indent: usize) -> String {
    const BETWEEN: &str = "): Promise<";
    let long = |ty: &Type| in_line(ty).map_or(usize::MAX / 4, |line| width(&line));
    let whole = indent + width(before) + long(input) + BETWEEN.len() + long(output) + 2;
    let taken = if whole > WIDTH && long(input) > long(output) {
        joined(before, &broken(input, indent, indent + width(before)), BETWEEN, indent)
    } else {
        enclosed(before, input, BETWEEN, indent, indent)
    };
    let given = enclosed("", output, ">;", indent, reached(&taken, indent));
    taken + &given
}

/// `before`, a blank, the type, and `;`.
pub(super) fn statement(before: &str, ty: &Type, indent: usize) -> String {
    let text = write(ty, indent, indent + width(before) + 1, 1);
    let gap = if text.starts_with('\n') { "" } else { " " };
    format!("{before}{gap}{text};")
}

pub(super) fn pad(indent: usize) -> String {
    " ".repeat(indent)
}

/// A type that begins after `column` characters, in a block with this indent, with `after` characters to follow it.
fn write(ty: &Type, indent: usize, column: usize, after: usize) -> String {
    match in_line(ty) {
        Some(line) if column + width(&line) + after <= WIDTH => line,
        _ => broken(ty, indent, column),
    }
}

/// `before`, the type, `after`: with the line breaks between them that the type asks for.
fn enclosed(before: &str, ty: &Type, after: &str, indent: usize, column: usize) -> String {
    joined(before, &write(ty, indent, column + width(before), width(after)), after, indent)
}

fn joined(before: &str, text: &str, after: &str, indent: usize) -> String {
    if text.starts_with('\n') {
        format!("{before}{text}\n{}{after}", pad(indent))
    } else {
        format!("{before}{text}{after}")
    }
}

/// The column after a text that began at `column`.
fn reached(text: &str, column: usize) -> usize {
    match text.rsplit_once('\n') {
        Some((_, last)) => width(last),
        None => column + width(text),
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A type in one line, unless that would be too long for any line or it has comments of several lines.
fn in_line(ty: &Type) -> Option<String> {
    let line = match ty {
        Type::Word(word) => (*word).to_owned(),
        Type::Literal { text, .. } => text.clone(),
        // A definition stands for itself only before names are settled.
        Type::Definition(_) => "unknown".to_owned(),
        Type::Named(name) => name.clone(),
        Type::Array(inner) => format!("{}[]", operand(inner, in_line(inner)?)),
        Type::Record(inner) => format!("Record<string, {}>", in_line(inner)?),
        Type::Tuple { items, rest } => {
            let rest = rest.as_ref().map(|rest| Some(format!("...{}[]", operand(rest, in_line(rest)?))));
            let items: Option<Vec<String>> = items.iter().map(item_in_line).chain(rest).collect();
            format!("[{}]", items?.join(", "))
        }
        Type::Object { fields, more } => {
            let fields = fields.iter().map(field_in_line);
            let all: Option<Vec<String>> = fields.chain(rest_of(*more).map(|m| Some(m.to_owned()))).collect();
            let all = all?;
            if all.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", all.join("; ")) }
        }
        Type::Union(members) => {
            let members: Option<Vec<String>> = members.iter().map(member_in_line).collect();
            members?.join(" | ")
        }
        Type::Intersection(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(|p| Some(operand(p, in_line(p)?))).collect();
            parts?.join(" & ")
        }
    };
    Some(line).filter(|line| width(line) <= WIDTH)
}

/// In parentheses, where something binds it more tightly than it holds together.
fn operand(ty: &Type, text: String) -> String {
    if matches!(ty, Type::Union(_) | Type::Intersection(_)) { format!("({text})") } else { text }
}

fn item_in_line(item: &Item) -> Option<String> {
    let text = in_line(&item.ty)?;
    Some(match item.presence {
        Presence::Required => text,
        Presence::Optional => format!("{}?", operand(&item.ty, text)),
    })
}

fn field_in_line(field: &Field) -> Option<String> {
    Some(format!("{}{} {}", remark(&field.doc)?, key(field), in_line(&field.ty)?))
}

fn member_in_line(member: &Member) -> Option<String> {
    Some(format!("{}{}", remark(&member.doc)?, in_line(&member.ty)?))
}

/// A comment in front of what it speaks of, on the same line.
fn remark(doc: &str) -> Option<String> {
    if doc.is_empty() { Some(String::new()) } else { Some(format!("{} ", short_comment(doc)?)) }
}

fn key(field: &Field) -> String {
    let mark = if field.presence == Presence::Optional { "?" } else { "" };
    format!("{}{mark}:", property(&field.name))
}

fn rest_of(more: More) -> Option<&'static str> {
    (more == More::Unknown).then_some("[key: string]: unknown")
}

fn broken(ty: &Type, indent: usize, column: usize) -> String {
    let inside = indent + STEP;
    match ty {
        Type::Array(inner) if matches!(**inner, Type::Union(_) | Type::Intersection(_)) => {
            enclosed("Array<", inner, ">", indent, column)
        }
        Type::Array(inner) => format!("{}[]", broken(inner, indent, column)),
        Type::Record(inner) => enclosed("Record<string, ", inner, ">", indent, column),
        Type::Tuple { items, rest } => {
            let items = items.iter().map(|item| {
                let text = write_operand(&item.ty, inside, inside);
                if item.presence == Presence::Optional { format!("{text}?") } else { text }
            });
            let rest = rest.iter().map(|rest| format!("...{}[]", write_operand(rest, inside, inside + 3)));
            let lines: String = items.chain(rest).map(|i| format!("{}{i},\n", pad(inside))).collect();
            format!("[\n{lines}{}]", pad(indent))
        }
        Type::Object { fields, more } => {
            let fields = fields.iter().map(|field| {
                let line = statement(&key(field), &field.ty, inside);
                format!("{}{}{line}\n", comment(&field.doc, inside), pad(inside))
            });
            let rest = rest_of(*more).map(|rest| format!("{}{rest};\n", pad(inside)));
            let lines: String = fields.chain(rest).collect();
            format!("{{\n{lines}{}}}", pad(indent))
        }
        Type::Union(members) => broken_union(members, indent, column),
        Type::Intersection(parts) => parts.iter().fold(String::new(), |before, part| {
            let before = if before.is_empty() { before } else { format!("{before} & ") };
            let after = write_operand(part, indent, reached(&before, column));
            before + &after
        }),
        // What cannot be broken is written whole, however long.
        Type::Literal { text, .. } | Type::Named(text) => text.clone(),
        Type::Word(_) | Type::Definition(_) => in_line(ty).unwrap_or_else(|| "unknown".to_owned()),
    }
}

/// One big type or something small keeps its line; several types stand under one another.
fn broken_union(members: &[Member], indent: usize, column: usize) -> String {
    let small = |m: &Member| m.doc.is_empty() && matches!(m.ty, Type::Word(_));
    if let [first, rest @ ..] = members
        && first.doc.is_empty()
        && matches!(first.ty, Type::Object { .. } | Type::Array(_) | Type::Record(_) | Type::Tuple { .. })
        && rest.iter().all(small)
    {
        let rest: String = rest.iter().filter_map(|m| Some(format!(" | {}", in_line(&m.ty)?))).collect();
        return format!("{}{rest}", broken(&first.ty, indent, column));
    }
    let inside = indent + STEP;
    let member = |m: &Member| {
        let text = write(&m.ty, inside, inside + 2, 1);
        let text = if text.starts_with('\n') { format!("({text}\n{})", pad(inside)) } else { text };
        let doc = if m.doc.is_empty() { String::new() } else { comment(&m.doc, inside) };
        format!("\n{doc}{}| {text}", pad(inside))
    };
    members.iter().map(member).collect()
}

/// A type that something is attached to.
fn write_operand(ty: &Type, indent: usize, column: usize) -> String {
    match ty {
        Type::Union(_) | Type::Intersection(_) => enclosed("(", ty, ")", indent, column),
        _ => write(ty, indent, column, 3),
    }
}
