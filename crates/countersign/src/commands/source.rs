//! `source`: tools that live elsewhere, and which of them may be called.
//!
//! Promises: `add` and `accept` at a terminal show what is accepted before they ask, and send the digest of exactly that;
//! nothing but `y` accepts. Without a terminal `add` leaves every tool waiting, and `accept` needs `--yes --digest`.

mod request;
mod view;

use countersign_server::wire::{
    AcceptRequest, Source, SourceConfig, SourceDetail, SourceHealth, SourceOrigin, SourceTool, ToolStanding,
};
use serde_json::json;

use self::view::{Length, counted};
use crate::args::{AcceptArgs, SourceCommand};
use crate::contact::{Contact, Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::invocation::quoted;
use crate::screen::{Format, Screen};
use crate::span::size;
use crate::table::Table;
use crate::terminal::{self, Keyboard};
use crate::{progress, shown};

pub(super) async fn run(ready: Ready, command: SourceCommand) -> anyhow::Result<Exit> {
    // What changes the catalog needs a gateway that runs; where no server does, it is this process's.
    match command {
        SourceCommand::Add(command) => {
            // What cannot be sent is said before a server is looked for.
            let config = request::of(*command)?;
            ready.with_server(Purpose::Act, async |contact| add(contact, &config).await).await
        }
        SourceCommand::List => ready.with_server(Purpose::Look, list).await,
        SourceCommand::Show { name } => {
            ready.with_server(Purpose::Look, async |contact| show(contact, &name).await).await
        }
        SourceCommand::Refresh { name } => {
            ready.with_server(Purpose::Change, async |contact| refresh(contact, &name).await).await
        }
        SourceCommand::Accept(args) => {
            ready.with_server(Purpose::Change, async |contact| accept(contact, &args).await).await
        }
        SourceCommand::Remove { name } => {
            ready.with_server(Purpose::Change, async |contact| remove(contact, &name).await).await
        }
    }
}

/// What a person says to a source that was shown to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddChoice {
    /// Add it and accept its tools as they were shown.
    Accept,
    /// Add it; its tools wait.
    LeaveWaiting,
    Nothing,
}

impl AddChoice {
    /// Only the named letters change anything; the end of input changes nothing.
    fn of(line: Option<&str>) -> Self {
        match line {
            Some("y") => Self::Accept,
            Some("l") => Self::LeaveWaiting,
            _ => Self::Nothing,
        }
    }
}

async fn add(contact: &Contact, config: &SourceConfig) -> anyhow::Result<Exit> {
    let (screen, name) = (contact.screen, config.name.as_str());
    let bytes = document_bytes(config);
    if !screen.can_ask() {
        let added = loading(contact, name, bytes, contact.operator.add_source(config)).await?;
        return report_added(contact, &added);
    }
    let preview = loading(contact, name, bytes, contact.operator.preview_source(config)).await?;
    let question = "Add this source? [y] add it and accept its tools   [l] add it and leave its tools waiting   anything else: \
                    add nothing\n(`l`, then `source accept`, shows every definition whole before you accept it.)\n> ";
    let text = view::source(&preview, Length::Summary, screen.err);
    let line = terminal::answer(&text, question, &mut Keyboard::of_process(), screen).await;
    let choice = AddChoice::of(line.as_deref());
    if choice == AddChoice::Nothing {
        screen.note("Nothing was added.");
        return Ok(Exit::Done);
    }
    let added = loading(contact, name, bytes, contact.operator.add_source(config)).await?;
    if choice == AddChoice::LeaveWaiting || waiting(&added, &[]).is_empty() {
        return report_added(contact, &added);
    }
    // The digest is that of the preview: a source that offers something else by now is added, and its tools wait.
    let request = AcceptRequest { paths: Vec::new(), digest: Some(preview.digest) };
    let accepted = contact.operator.accept_source(name, &request).await;
    report_accepted(contact, &accepted.map_err(|problem| advised(problem, contact, name))?)
}

async fn list(contact: &Contact) -> anyhow::Result<Exit> {
    let sources = contact.operator.sources().await?;
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&json!(sources))?;
        return Ok(Exit::Done);
    }
    if sources.items.is_empty() {
        let help = contact.invocation.command("source add --help");
        screen.note(&format!("There are no sources. `{help}` shows how to add one."));
        return Ok(Exit::Done);
    }
    screen.print(&table(&sources.items, screen).render())?;
    for source in &sources.items {
        if let Some(problem) = &source.problem {
            screen.note(&format!("{}: {}", shown::line(&source.name), shown::line(problem)));
        }
        if source.new + source.changed + source.missing > 0 {
            screen.note(&how_to_accept(contact, &source.name));
        }
    }
    Ok(Exit::Done)
}

fn table(sources: &[Source], screen: Screen) -> Table {
    let heads = ["NAME", "KIND", "STATUS", "CALLABLE", "WAITING", "CONFIGURED", "TARGET"];
    let mut table = Table::new(screen, &heads);
    for source in sources {
        let status = match source.health {
            SourceHealth::Ready => "ready",
            SourceHealth::Paused => "paused",
            SourceHealth::Loading => "loading",
            SourceHealth::Failing => "failing",
        };
        let painted = match source.health {
            SourceHealth::Failing => screen.out.red(status),
            SourceHealth::Paused => screen.out.yellow(status),
            SourceHealth::Ready | SourceHealth::Loading => status.to_owned(),
        };
        let origin = match source.origin {
            SourceOrigin::File => "in the file",
            SourceOrigin::Added => "added",
        };
        table.row([
            shown::line(&source.name).into(),
            shown::line(&source.kind).into(),
            (status.to_owned(), painted).into(),
            source.callable.to_string().into(),
            (source.new + source.changed + source.missing).to_string().into(),
            origin.to_owned().into(),
            shown::line(&source.target).into(),
        ]);
    }
    table
}

async fn show(contact: &Contact, name: &str) -> anyhow::Result<Exit> {
    let shown = contact.operator.source(name).await.map_err(|problem| advised(problem, contact, name))?;
    report(contact, &shown, Length::Whole)
}

async fn refresh(contact: &Contact, name: &str) -> anyhow::Result<Exit> {
    let refreshed = loading(contact, name, None, contact.operator.refresh_source(name)).await?;
    report(contact, &refreshed, Length::Summary)
}

async fn accept(contact: &Contact, args: &AcceptArgs) -> anyhow::Result<Exit> {
    let (screen, name) = (contact.screen, args.name.as_str());
    let advise = |problem| advised(problem, contact, name);
    let detail = contact.operator.source(name).await.map_err(advise)?;
    let paths = named(&detail, &args.tools).map_err(advise)?;
    let tools = waiting(&detail, &paths);
    if tools.is_empty() {
        screen.note(&format!("Nothing waits to be accepted in {}.", shown::line(name)));
        return report_accepted(contact, &detail);
    }
    if args.digest.as_ref().is_some_and(|digest| *digest != detail.digest) {
        let message = "the source offers something else than what has this digest";
        return Err(advise(Problem::new("not_what_was_shown", message)).into());
    }
    if !args.yes {
        if !screen.can_ask() {
            return Err(not_confirmed(contact, name).into());
        }
        let question =
            format!("Accept {}? [y] yes   anything else: leave it waiting\n> ", counted(tools.len(), "tool"));
        let text = view::waiting(&tools, screen.err);
        let line = terminal::answer(&text, &question, &mut Keyboard::of_process(), screen).await;
        if line.as_deref() != Some("y") {
            screen.note("Nothing was accepted.");
            return Ok(Exit::Done);
        }
    }
    let request = AcceptRequest { paths, digest: Some(detail.digest.clone()) };
    let accepted = contact.operator.accept_source(name, &request).await.map_err(advise)?;
    report_accepted(contact, &accepted)
}

async fn remove(contact: &Contact, name: &str) -> anyhow::Result<Exit> {
    contact.operator.remove_source(name).await.map_err(|problem| advised(problem, contact, name))?;
    match contact.screen.format {
        Format::Json => contact.screen.print_json(&json!({ "name": name, "removed": true }))?,
        Format::Text => {
            contact.screen.note(&format!("{} and its tools are removed.", shown::line(name)));
        }
    }
    Ok(Exit::Done)
}

/// How large the document of a source is, where it is a file of this machine.
fn document_bytes(config: &SourceConfig) -> Option<u64> {
    let file = config.document.as_ref().or(config.schema.as_ref())?;
    std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|facts| facts.len())
}

/// Waits for the server while it reads a source.
async fn loading(
    contact: &Contact,
    name: &str,
    bytes: Option<u64>,
    request: impl Future<Output = Result<SourceDetail, Problem>>,
) -> Result<SourceDetail, Problem> {
    let size = bytes.map(|bytes| format!(" ({})", size(bytes))).unwrap_or_default();
    let words = format!("reading what {} offers{size}", shown::line(name));
    let answer = progress::while_waiting(contact.screen, words, request).await;
    answer.map_err(|problem| advised(problem, contact, name))
}

fn report(contact: &Contact, detail: &SourceDetail, length: Length) -> anyhow::Result<Exit> {
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&json!(detail))?;
        return Ok(Exit::Done);
    }
    screen.print(&view::source(detail, length, screen.out))?;
    if !waiting(detail, &[]).is_empty() {
        screen.note(&how_to_accept(contact, &detail.source.name));
    }
    Ok(Exit::Done)
}

/// A source that was added. A person has seen its tools already.
fn report_added(contact: &Contact, detail: &SourceDetail) -> anyhow::Result<Exit> {
    let screen = contact.screen;
    if !screen.can_ask() {
        return report(contact, detail, Length::Summary);
    }
    let name = &detail.source.name;
    screen.note(&format!("{} is added. {} callable.", shown::line(name), callable(detail)));
    if !waiting(detail, &[]).is_empty() {
        screen.note(&how_to_accept(contact, name));
    }
    Ok(Exit::Done)
}

fn report_accepted(contact: &Contact, detail: &SourceDetail) -> anyhow::Result<Exit> {
    let screen = contact.screen;
    if screen.format == Format::Json {
        screen.print_json(&json!(detail))?;
        return Ok(Exit::Done);
    }
    let name = shown::line(&detail.source.name);
    screen.print(&format!("{name}: {} callable", callable(detail)))?;
    let next = contact.invocation.command(&format!("tools {}", quoted(&detail.source.name)));
    screen.note(&format!("`{next}` lists them."));
    Ok(Exit::Done)
}

fn callable(detail: &SourceDetail) -> String {
    let noun = counted(detail.source.callable, "tool");
    if detail.source.callable == 1 { format!("{noun} is") } else { format!("{noun} are") }
}

fn how_to_accept(contact: &Contact, name: &str) -> String {
    let accept = contact.invocation.command(&format!("source accept {}", quoted(name)));
    format!("New and changed tools cannot be called yet. See and accept them: `{accept}`")
}

/// The tools that wait to be accepted, of these paths; all where none is named.
fn waiting<'d>(detail: &'d SourceDetail, paths: &[String]) -> Vec<&'d SourceTool> {
    let waits = |tool: &&SourceTool| {
        matches!(tool.standing, ToolStanding::New | ToolStanding::Changed | ToolStanding::Missing)
            && (paths.is_empty() || paths.contains(&tool.path))
    };
    detail.tools.iter().filter(waits).collect()
}

/// The paths of tools that wait, as they were named: whole, or without the source's name.
fn named(detail: &SourceDetail, tools: &[String]) -> Result<Vec<String>, Problem> {
    let all = waiting(detail, &[]);
    let path = |wanted: &String| {
        let below = format!("{}.{wanted}", detail.source.name);
        let found = all.iter().find(|tool| tool.path == *wanted || tool.path == below);
        found.map(|tool| tool.path.clone()).ok_or_else(|| {
            Problem::new("nothing_to_accept", format!("{wanted:?} does not wait to be accepted"))
        })
    };
    tools.iter().map(path).collect()
}

/// The digest is not offered here: whoever pasted it would accept what nobody has read.
fn not_confirmed(contact: &Contact, name: &str) -> Problem {
    let show = contact.invocation.command(&format!("source show {} --json", quoted(name)));
    let hint = format!(
        "Run it in a terminal. A program that has read the tools from `{show}` passes their digest: --yes --digest DIGEST"
    );
    Problem::new("not_confirmed", "nobody is at this terminal to read what would be accepted").hint(hint)
}

/// What to do about a refusal.
fn advised(problem: Problem, contact: &Contact, name: &str) -> Problem {
    let command = |rest: &str| format!("`{}`", contact.invocation.command(rest));
    let name = quoted(name);
    let hint = match problem.code.as_ref() {
        "source_not_found" => format!("{} lists them.", command("source list")),
        "source_exists" => format!(
            "{} shows it. To configure it anew, remove it first: {}",
            command(&format!("source show {name}")),
            command(&format!("source remove {name}"))
        ),
        "source_in_file" => {
            "Change its [[source]] in countersign.toml and restart the server.".to_owned()
        }
        "source_unreachable" => {
            "Check the address and the credentials, where the server runs. An address of this machine or a private network \
             needs --allow-private."
                .to_owned()
        }
        "invalid_source" => format!("{} shows examples.", command("source add --help")),
        "source_conflict" => "Choose another name for the source, or leave tools out with --exclude.".to_owned(),
        "not_what_was_shown" => {
            format!("See what it offers now: {}", command(&format!("source accept {name}")))
        }
        "nothing_to_accept" => format!("{} shows its tools.", command(&format!("source show {name}"))),
        "sources_not_available" => "Use a server that `countersign serve` of this version started.".to_owned(),
        _ => return problem,
    };
    problem.hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_the_named_letters_adds_or_accepts() {
        assert_eq!(AddChoice::of(Some("y")), AddChoice::Accept);
        assert_eq!(AddChoice::of(Some("l")), AddChoice::LeaveWaiting);
        for line in [None, Some(""), Some("Y"), Some("yes"), Some("n"), Some("yl")] {
            assert_eq!(AddChoice::of(line), AddChoice::Nothing, "{line:?}");
        }
    }
}
