//! One source: its tools by standing, what changed in them, and the forms that accept, refresh, set effects and remove.
//!
//! A page lists a bounded number of tools, and says how many it does not list; a filter and the standings lead to the rest.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::super::api::{query, segment};
use super::super::frame::{Place, Reader, Trouble};
use super::super::text::text;
use super::changes::changes;
use super::{
    EFFECTS, advice, all_advice, badge, by_effect, counted, definition, described, health, kind, left_out,
    servers, waiting, waits, words,
};
use crate::rest::body::{Named, Params};
use crate::wire::{SourceDetail, SourceHealth, SourceOrigin, SourceTool, ToolStanding};

/// How many tools of each standing are listed where all are.
const LISTED: usize = 25;
/// How many are listed where one standing is.
const LISTED_OF_ONE: usize = 100;
/// From how many tools on there is a filter.
const FILTERED: usize = 10;

/// Every standing: its name in the address, its heading, what it means.
const STANDINGS: [(ToolStanding, &str, &str, &str); 5] = [
    (ToolStanding::New, "new", "New", "Not accepted yet. They cannot be called."),
    (
        ToolStanding::Changed,
        "changed",
        "Changed",
        "The source offers another definition than the accepted one. They cannot be called until the change is accepted.",
    ),
    (
        ToolStanding::Missing,
        "missing",
        "Missing",
        "They were accepted, and the source no longer offers them. Accepting forgets them.",
    ),
    (ToolStanding::Accepted, "accepted", "Accepted", "They can be called."),
    (ToolStanding::Excluded, "excluded", "Excluded", "The source’s settings leave them out."),
];

/// Which of its tools.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    /// Those with all these words in path, origin or description.
    query: Option<String>,
    /// Those of one standing.
    standing: Option<String>,
    /// From this one on, of one standing.
    from: Option<usize>,
}

/// The page.
pub(crate) async fn page(
    reader: Reader,
    Named(name): Named<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Trouble> {
    let detail = reader.source(&name).await?;
    let view = View {
        detail: &detail,
        wanted: &wanted,
        role: if reader.is_admin() { Role::Admin } else { Role::Reader },
    };
    Ok(reader.page(Place::Sources, &name, &view.markup()))
}

/// Who reads the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// May change sources.
    Admin,
    /// May only look.
    Reader,
}

struct View<'p> {
    detail: &'p SourceDetail,
    wanted: &'p Wanted,
    role: Role,
}

/// The tools of one standing that fit the filter, and which of them are listed.
struct Group<'p> {
    standing: &'static (ToolStanding, &'static str, &'static str, &'static str),
    tools: Vec<&'p SourceTool>,
    from: usize,
    listed: usize,
}

impl<'p> Group<'p> {
    fn listed(&self) -> &[&'p SourceTool] {
        let from = self.from.min(self.tools.len());
        &self.tools[from..(from + self.listed).min(self.tools.len())]
    }
}

impl<'p> View<'p> {
    fn markup(&self) -> Markup {
        let source = &self.detail.source;
        let groups = self.groups();
        html! {
            a.back href="/sources" { "← Sources" }
            article #source data-name=(source.name) data-digest=(self.detail.digest) data-health=(format!("{:?}", source.health).to_lowercase()) {
                div.heading {
                    h1.path { (text(&source.name)) }
                    (health(source.health))
                    @if self.is_admin() { div.tools { (self.upkeep()) } }
                }
                div #told role="alert" {}
                (self.problem())
                (self.facts())
                @if self.is_admin() { (self.acceptance(&groups)) }
                @else if waiting(source).is_some() { p.warning { "Tools wait to be accepted by an admin. They cannot be called until then." } }
                (left_out(self.detail))
                (self.filter())
                div #offered {
                    @if groups.iter().all(|group| group.tools.is_empty()) { p.faint { @if self.detail.tools.is_empty() { "It offers no tools." } @else { "No tool fits." } } }
                    @for group in groups.iter().filter(|group| !group.tools.is_empty()) { (self.group(group)) }
                }
                (all_advice())
            }
        }
    }

    fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    fn at(&self) -> String {
        format!("/api/sources/{}", segment(&self.detail.source.name))
    }

    /// This page with other parameters.
    fn address(&self, standing: Option<&str>, from: Option<&str>) -> String {
        let path = format!("/sources/{}", segment(&self.detail.source.name));
        query(&path, &[("query", self.wanted.query.as_deref()), ("standing", standing), ("from", from)])
    }

    fn groups(&self) -> Vec<Group<'p>> {
        let filter = self.wanted.query.as_deref().unwrap_or_default().to_lowercase();
        let fits = |tool: &&SourceTool| {
            let text = format!("{} {} {}", tool.path, tool.origin, tool.description).to_lowercase();
            filter.split_whitespace().all(|word| text.contains(word))
        };
        let fitting: Vec<&SourceTool> = self.detail.tools.iter().filter(fits).collect();
        let chosen = self.wanted.standing.as_deref();
        let wanted = STANDINGS.iter().filter(|(_, name, ..)| chosen.is_none_or(|chosen| chosen == *name));
        let group = |standing: &'static (ToolStanding, &'static str, &'static str, &'static str)| Group {
            standing,
            tools: fitting.iter().copied().filter(|tool| tool.standing == standing.0).collect(),
            from: chosen.and(self.wanted.from).unwrap_or(0),
            listed: if chosen.is_some() { LISTED_OF_ONE } else { LISTED },
        };
        wanted.map(group).collect()
    }

    fn problem(&self) -> Markup {
        let source = &self.detail.source;
        html! {
            @match (source.health, &source.problem) {
                (SourceHealth::Loading, _) => p.warning { "The source is being read. This page shows its tools as soon as they are known." },
                (SourceHealth::Paused, Some(problem)) => p.warning { "Calls are refused for a while: " (text(problem)) "." },
                (_, Some(problem)) => div.refused role="alert" {
                    p { strong { "It cannot be read: " } (text(problem)) }
                    @if let Some(advice) = advice("source_unreachable") { p { (advice) } }
                },
                _ => {}
            }
        }
    }

    fn facts(&self) -> Markup {
        let source = &self.detail.source;
        let excluded =
            self.detail.tools.iter().filter(|tool| tool.standing == ToolStanding::Excluded).count();
        let counts = [
            (source.callable, "callable"),
            (source.new, "new"),
            (source.changed, "changed"),
            (source.missing, "missing"),
            (excluded, "excluded"),
        ];
        let taken = self.detail.tools.iter().filter(|tool| tool.standing != ToolStanding::Excluded);
        let calls = source.calls;
        html! {
            dl.facts {
                dt { "Kind" } dd { (kind(&source.kind)) }
                dt { "Target" } dd { code { (text(&source.target)) } }
                @for server in servers(self.detail) { dt { "Calls go to" } dd { code { (text(server)) } } }
                dt { "Configured" } dd {
                    @match source.origin {
                        SourceOrigin::Added => { "by an admin, here or with " code { "countersign source" } }
                        SourceOrigin::File => { "in the configuration file. To change it, edit its " code { "[[source]]" } " in countersign.toml and restart the server." }
                    }
                }
                dt { "Tools" } dd { (words(&counts).unwrap_or_else(|| "none".to_owned())) " (" (by_effect(&taken)) ")" }
                dt { "Calls" } dd {
                    @if calls.calls == 0 { "none since the server started" }
                    @else { (counted(usize::try_from(calls.calls).unwrap_or(usize::MAX), "call")) ", " (calls.errors) " failed, " (calls.mean_ms) " ms on average since the server started" }
                }
            }
        }
    }

    /// Refresh and remove.
    fn upkeep(&self) -> Markup {
        let (at, name) = (self.at(), &self.detail.source.name);
        html! {
            form method="post" data-source="refresh" data-api={ "POST " (at) "/refresh" } { button { "Refresh" } }
            @if self.detail.source.origin == SourceOrigin::Added {
                form method="post" data-source="remove" data-api={ "DELETE " (at) } data-sure={ "Remove the source “" (name) "” and its tools? Calls that wait for them fail, and what was accepted is forgotten." } {
                    button.destructive { "Remove" }
                }
            }
        }
    }

    fn acceptance(&self, groups: &[Group<'_>]) -> Markup {
        let Some(words) = waiting(&self.detail.source) else { return html! {} };
        let all = self.detail.tools.iter().filter(|tool| waits(tool)).count();
        let listed = groups.iter().flat_map(Group::listed).filter(|tool| waits(tool)).count();
        let unlisted = all - listed;
        let api = format!("POST {}/accept", self.at());
        let sure = format!(
            "Accept all {all} tools? {unlisted} of them are not listed on this page, so that you have not read them here."
        );
        html! {
            section.accept aria-labelledby="waiting" {
                h2 #waiting { "Waiting to be accepted: " (words) }
                p { "They cannot be called until then. Read each one: a description tells the agent what to do, and it is the source’s text, not ours." }
                @if unlisted > 0 { p.faint { (unlisted) " of the " (all) " are not listed below. Choose a standing or filter to list them." } }
                div.actions {
                    form method="post" data-source="accept" data-api=(api) data-sure=[(unlisted > 0).then_some(sure)] {
                        input type="hidden" name="digest" data-type="string" value=(self.detail.digest);
                        button.primary { "Accept all " (all) }
                    }
                    form #chosen method="post" data-source="accept" data-needs="paths" data-api=(api) {
                        input type="hidden" name="digest" data-type="string" value=(self.detail.digest);
                        button { "Accept selected" }
                    }
                }
            }
        }
    }

    fn filter(&self) -> Markup {
        let wanted = self.wanted;
        let count = |standing| self.detail.tools.iter().filter(|tool| tool.standing == standing).count();
        html! {
            @if self.detail.tools.len() >= FILTERED || wanted.query.is_some() {
                form.search role="search" action={ "/sources/" (segment(&self.detail.source.name)) } data-filter {
                    label.hidden for="query" { "Filter the tools" }
                    input #query type="search" name="query" placeholder="Filter by path or description" value=[wanted.query.as_deref()] autocomplete="off";
                    @if let Some(standing) = &wanted.standing { input type="hidden" name="standing" value=(standing); }
                    button { "Filter" }
                }
            }
            nav.filters aria-label="By standing" {
                a href=(self.address(None, None)) aria-current=[wanted.standing.is_none().then_some("true")] { "All (" (self.detail.tools.len()) ")" }
                @for (standing, name, heading, _) in &STANDINGS {
                    @if count(*standing) > 0 {
                        a href=(self.address(Some(name), None)) aria-current=[(wanted.standing.as_deref() == Some(name)).then_some("true")] { (heading) " (" (count(*standing)) ")" }
                    }
                }
            }
        }
    }

    fn group(&self, group: &Group<'_>) -> Markup {
        let (standing, name, heading, meaning) = group.standing;
        let listed = group.listed();
        let next = group.from + listed.len();
        html! {
            section aria-labelledby={ "standing-" (name) } data-standing=(name) {
                h2 id={ "standing-" (name) } { (heading) " (" (group.tools.len()) ")" }
                p.faint { (meaning) }
                @if group.from > 0 { p.faint { "From number " (group.from + 1) " on." } }
                ul.offers { @for tool in listed { (self.tool(tool, *standing)) } }
                @if next < group.tools.len() {
                    p { a.button rel="next" href=(self.address(Some(name), Some(&next.to_string()))) { "Show more (" (group.tools.len() - next) ")" } }
                }
            }
        }
    }

    fn tool(&self, tool: &SourceTool, standing: ToolStanding) -> Markup {
        let may_choose = self.is_admin() && waits(tool);
        let path = html! { code.path { (text(&tool.path)) } };
        html! {
            li data-path=(tool.path) {
                div.line {
                    @if may_choose {
                        label.check { input type="checkbox" form="chosen" name="paths" data-type="choices" value=(serde_json::json!(tool.path).to_string()); " " (path) }
                    } @else if standing == ToolStanding::Accepted {
                        a href={ "/tools/" (segment(&tool.path)) } { (path) }
                    } @else { (path) }
                    (badge(tool.effect))
                    @if tool.effect != tool.offered_effect { span.faint.small { "set by an admin; the source’s protocol says: " (tool.offered_effect.label()) } }
                    span.origin { (text(&tool.origin)) }
                }
                (described(&tool.description))
                @if !tool.changes.is_empty() { (changes(&tool.changes)) }
                (definition(tool))
                @if self.is_admin() && self.detail.source.origin == SourceOrigin::Added && standing != ToolStanding::Missing { (self.effect(tool)) }
            }
        }
    }

    fn effect(&self, tool: &SourceTool) -> Markup {
        let is_set = tool.effect != tool.offered_effect;
        html! {
            details.effect {
                summary { "Change effect" }
                form method="post" data-source="effect" data-api={ "PUT " (self.at()) "/effects" }
                    data-sure={ "Change the effect of " (tool.path) "? A tool that reads or writes runs without approval unless a rule asks for it. Open requests about this tool are withdrawn." } {
                    input type="hidden" name="tool" data-type="string" value=(tool.path);
                    label { "Effect" select name="effect" data-type="json" {
                        @for effect in EFFECTS { option value=(serde_json::json!(effect).to_string()) selected[effect == tool.effect] { (effect.label()) } }
                        @if is_set { option value="null" { "As the source’s protocol says (" (tool.offered_effect.label()) ")" } }
                    } }
                    button { "Save" }
                    p.violation role="alert" {}
                }
            }
        }
    }
}
