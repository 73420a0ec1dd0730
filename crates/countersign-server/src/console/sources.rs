//! Sources: where tools come from, what each of them offers, and what of it an admin accepted.
//!
//! Promises: everything that a source says is text of the source, labelled and made visible, and never a heading; what is
//! accepted is the offer whose digest the page was made with; who may not change sources finds nothing to change them with.

mod add;
mod changes;
mod detail;
mod list;

use std::collections::BTreeSet;

use maud::{Markup, html};

pub(super) use add::{page as add, preview};
pub(super) use detail::page as one;
pub(super) use list::page as list;

use super::text::{json, text};
use crate::wire::{self, SourceHealth, SourceTool, ToolEffect, ToolStanding};

const EFFECTS: [ToolEffect; 3] = [ToolEffect::Destroys, ToolEffect::Writes, ToolEffect::Reads];
/// A description that is longer is folded.
const LONG_CHARS: usize = 400;
/// How much of it stands above the fold.
const BEGINNING_CHARS: usize = 160;
/// How many operations without a tool are listed.
const UNMAPPED_LISTED: usize = 200;

/// What to do about a refusal, by its code.
const ADVICE: [(&str, &str); 9] = [
    ("source_not_found", "It may have been removed meanwhile. Go back to the list of sources."),
    (
        "source_exists",
        "Choose another name, or open the source of that name. To configure it anew, remove it there first.",
    ),
    ("source_in_file", "Change its [[source]] in countersign.toml and restart the server."),
    (
        "source_unreachable",
        "Check the address and the credentials, where the server runs. An address of the server's own machine or of a private \
         network needs “Allow private addresses”.",
    ),
    ("invalid_source", "Correct the field and try again. Nothing was changed."),
    ("source_conflict", "Choose another name for the source, or leave tools out under “More settings”."),
    ("not_what_was_shown", "Nothing was accepted. Read what the source offers now, then accept it."),
    ("nothing_to_accept", "Somebody else may have accepted it already. Reload the page."),
    ("sources_not_available", "Use a server that `countersign serve` of this version started."),
];

/// The advice that fits a refusal.
fn advice(code: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(of, _)| *of == code).map(|(_, advice)| *advice)
}

/// All advice, for refusals that the script gets.
fn all_advice() -> Markup {
    html! { div #advice hidden { @for (code, advice) in ADVICE { p data-code=(code) { (advice) } } } }
}

/// A refusal: what happened, what to do, and its code.
fn refusal(problem: &wire::Problem) -> Markup {
    html! {
        div.refused role="alert" {
            p { (text(&problem.detail)) }
            @if let Some(advice) = advice(&problem.code) { p { (advice) } }
            p.faint.small { "Code " code { (problem.code) } }
        }
    }
}

/// Whether a source could be read, as a label.
fn health(health: SourceHealth) -> Markup {
    let (class, word) = match health {
        SourceHealth::Loading => ("loading", "loading"),
        SourceHealth::Ready => ("succeeded", "ready"),
        SourceHealth::Paused => ("loading", "paused"),
        SourceHealth::Failing => ("failing", "failing"),
    };
    html! { span class={ "stands " (class) } { (word) } }
}

/// What a tool does to the world, as a label.
fn badge(effect: ToolEffect) -> Markup {
    html! { span.badge.destructive[effect == ToolEffect::Destroys] { (effect.label()) } }
}

/// What a source is, for people.
fn kind(kind: &str) -> Markup {
    match kind {
        "mcp" => html! { "MCP server" },
        "openapi" => html! { "OpenAPI" },
        "graphql" => html! { "GraphQL" },
        other => text(other),
    }
}

/// `3 new, 1 changed`, without what there is none of; nothing where nothing waits.
fn waiting(source: &wire::Source) -> Option<String> {
    words(&[(source.new, "new"), (source.changed, "changed"), (source.missing, "missing")])
}

fn words(counts: &[(usize, &str)]) -> Option<String> {
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = some.map(|(count, word)| format!("{count} {word}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `1 tool`, `2 tools`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `2 read, 1 destroys`.
fn by_effect<'t>(tools: &(impl Iterator<Item = &'t SourceTool> + Clone)) -> String {
    let count = |effect| tools.clone().filter(|tool| tool.effect == effect).count();
    let of = |effect, one, many| {
        let count = count(effect);
        (count, if count == 1 { one } else { many })
    };
    let all = [
        of(ToolEffect::Reads, "reads", "read"),
        of(ToolEffect::Writes, "writes", "write"),
        of(ToolEffect::Destroys, "destroys", "destroy"),
    ];
    words(&all).unwrap_or_else(|| "none".to_owned())
}

/// Whether a tool waits to be accepted.
fn waits(tool: &SourceTool) -> bool {
    matches!(tool.standing, ToolStanding::New | ToolStanding::Changed | ToolStanding::Missing)
}

/// The source's own words about a tool, whole; folded where they are long.
fn described(description: &str) -> Markup {
    let beginning = |most: usize| description.char_indices().nth(most).map(|(at, _)| &description[..at]);
    html! {
        @match (description.trim(), beginning(LONG_CHARS)) {
            ("", _) => p.faint { "The source says nothing about it." },
            (_, None) => div.says { span.whose { "Source’s text" } (text(description)) },
            (_, Some(_)) => details.says {
                summary { span.whose { "Source’s text" } (text(beginning(BEGINNING_CHARS).unwrap_or(description))) "… " span.more { "(" (description.chars().count()) " characters)" } }
                div { (text(description)) }
            },
        }
    }
}

/// What else agents would read of a new tool: its title and schemas, whole and folded.
fn definition(tool: &SourceTool) -> Markup {
    html! {
        @if let Some(definition) = &tool.definition {
            details.whole { summary { "Title and schemas" } pre tabindex="0" { (json(&definition.to_value())) } }
        }
    }
}

/// Where calls go: a document says that, and it need not be where the document is.
fn servers(detail: &wire::SourceDetail) -> BTreeSet<&str> {
    detail.tools.iter().filter_map(|tool| tool.server.as_deref()).collect()
}

/// Operations without a tool, and what else is odd.
fn left_out(detail: &wire::SourceDetail) -> Markup {
    let unmapped = &detail.unmapped;
    html! {
        @if !detail.warnings.is_empty() {
            section aria-labelledby="warnings" {
                h2 #warnings { "Warnings" }
                ul.plain { @for warning in &detail.warnings { li { (text(warning)) } } }
            }
        }
        @if !unmapped.is_empty() {
            details.unmapped {
                summary { (counted(unmapped.len(), "operation")) " cannot be called" }
                ul.plain { @for operation in unmapped.iter().take(UNMAPPED_LISTED) { li { code { (text(&operation.origin)) } ": " (text(&operation.reason)) } } }
                @if unmapped.len() > UNMAPPED_LISTED {
                    p.faint { "And " (unmapped.len() - UNMAPPED_LISTED) " more. " code { "countersign source show " (detail.source.name) } " lists them all." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_folded_and_whole() {
        let long = format!("{}\u{202e}<b>end", "é".repeat(LONG_CHARS));
        let page = described(&long).into_string();
        assert!(page.contains("<details") && page.contains("(407 characters)"), "{page}");
        assert!(page.contains("⟦U+202E⟧</mark>&lt;b&gt;end"), "{page}");
        assert!(!described("Short.").into_string().contains("<details"));
    }

    #[test]
    fn a_new_tool_is_shown_with_its_schemas_made_visible() {
        let mut tool = SourceTool {
            path: "hub.list".into(),
            origin: "list".into(),
            server: None,
            effect: ToolEffect::Reads,
            offered_effect: ToolEffect::Reads,
            description: String::new(),
            standing: ToolStanding::New,
            changes: vec![],
            definition: Some(serde_json::json!({ "title": "\u{202e}<b>keys" }).into()),
        };
        let page = definition(&tool).into_string();
        assert!(page.contains("⟦U+202E⟧</mark>&lt;b&gt;keys"), "{page}");
        tool.definition = None;
        assert_eq!(definition(&tool).into_string(), "");
    }

    #[test]
    fn every_refusal_of_sources_has_advice() {
        for code in ["source_exists", "source_in_file", "source_unreachable", "invalid_source"] {
            assert!(advice(code).is_some(), "{code}");
        }
        assert_eq!(advice("other"), None);
    }
}
