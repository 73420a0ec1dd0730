//! `mcp install`: shows what a client's configuration must say, or with `--write` puts it there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::clients::{Launch, McpClient, NAME};
use super::merge::{self, NotMerged};
use crate::exit::{Exit, Problem};
use crate::invocation::quoted;
use crate::screen::{Format, Screen};

const EXAMPLES: &str = "\
Examples:
  countersign --demo mcp install claude-code                 shows what to add, and where
  countersign --demo mcp install cursor --write              adds it; what was there is kept, and backed up
  countersign mcp --connect https://gate.example.com install codex";

/// What to install, and how.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InstallArgs {
    /// The client
    client: McpClient,
    /// Change the client's file, instead of showing what belongs there
    #[arg(long)]
    write: bool,
}

/// Shows or writes.
pub(super) fn run(
    args: &InstallArgs,
    launch: &Launch,
    home: Option<&Path>,
    screen: Screen,
) -> anyhow::Result<Exit> {
    let client = args.client;
    let project = std::env::current_dir().context("this folder cannot be found")?;
    let home = home.ok_or_else(|| Problem::new("no_home", "there is no home folder").hint("Set HOME."))?;
    let file = client.file(&project, home);
    let state = if args.write { write(client, launch, &file)? } else { State::Shown };
    if screen.format == Format::Json {
        let entry = client.entry(launch);
        let told = json!({ "client": client.title(), "file": file, "name": NAME, "entry": entry, "state": state.word() });
        screen.print_json(&told)?;
    } else {
        screen.print(&told(client, launch, &file, &state))?;
    }
    Ok(Exit::Done)
}

/// What was done.
enum State {
    Shown,
    AlreadyThere,
    Written { backup: Option<PathBuf> },
}

impl State {
    fn word(&self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::AlreadyThere => "already_there",
            Self::Written { .. } => "written",
        }
    }
}

fn told(client: McpClient, launch: &Launch, file: &Path, state: &State) -> String {
    let (title, place) = (client.title(), file.display());
    match state {
        State::AlreadyThere => format!("{place} has it already.\n"),
        State::Written { backup: None } => format!("Written to {place}. Start {title} anew to use it.\n"),
        State::Written { backup: Some(backup) } => {
            format!(
                "Added to {place}; what was there before is in {}. Start {title} anew to use it.\n",
                backup.display()
            )
        }
        State::Shown => {
            let snippet = merge::alone(client.shape(), &client.entry(launch));
            let mut text = format!("For {title}, in {place}:\n\n{}\n", snippet.trim_end());
            if client == McpClient::ClaudeCode {
                let words = std::iter::once(&launch.program).chain(&launch.words);
                let line: Vec<String> = words.map(|word| quoted(word)).collect();
                text.push_str(&format!("\nor, in a shell:\n\nclaude mcp add {NAME} -- {}\n", line.join(" ")));
            }
            text
        }
    }
}

fn write(client: McpClient, launch: &Launch, file: &Path) -> anyhow::Result<State> {
    // A link is kept, and what it points to is changed.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let before = match fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(unusable(&file, &error.to_string()).into()),
    };
    let entry = client.entry(launch);
    let after =
        merge::merged(before.as_deref().unwrap_or_default(), client.shape(), &entry).map_err(|why| {
            let (NotMerged::Unreadable(why) | NotMerged::Unfamiliar(why)) = why;
            unusable(&file, &why)
        })?;
    let Some(after) = after else { return Ok(State::AlreadyThere) };
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let backup = match before {
        None => None,
        Some(_) => {
            let backup = beside(&file, "before-countersign");
            fs::copy(&file, &backup).with_context(|| format!("{} cannot be written", backup.display()))?;
            Some(backup)
        }
    };
    // Whole or not at all, and with the rights that it had.
    let fresh = beside(&file, "new");
    if backup.is_some() {
        fs::copy(&file, &fresh).with_context(|| format!("{} cannot be written", fresh.display()))?;
    }
    fs::write(&fresh, after).with_context(|| format!("{} cannot be written", fresh.display()))?;
    fs::rename(&fresh, &file).with_context(|| format!("{} cannot be written", file.display()))?;
    Ok(State::Written { backup })
}

fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    file.with_file_name(name)
}

fn unusable(file: &Path, why: &str) -> Problem {
    Problem::new("configuration_not_changed", format!("{} was not changed: {why}", file.display()))
        .hint("Leave out --write to see what belongs there, and put it in by hand.")
}
