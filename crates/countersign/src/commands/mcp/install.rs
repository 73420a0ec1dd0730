//! `mcp install`: shows what a client's configuration must say, or with `--write` puts it there.
//!
//! Promise: a file that a repository commits gets no secret and no path of this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use countersign_sdk::ExposeSecret as _;
use countersign_server::wire::CreateTokenRequest;
use serde_json::json;

use super::clients::{Launch, McpClient, NAME, Scope};
use super::merge::{self, NotMerged};
use crate::client::Client;
use crate::config::Choice;
use crate::contact::{Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::invocation::quoted;
use crate::key_files::{client_token, keep_client_token, read_token};
use crate::screen::{Format, Screen};
use crate::terminal::Keyboard;

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
    /// Prompts in this client reach a person: an approval there counts as yours, for that one call
    #[arg(long, conflicts_with = "unattended")]
    attended: bool,
    /// Prompts in this client do not count; decide in the console or at the terminal [default, unless you say yes when asked]
    #[arg(long)]
    unattended: bool,
}

impl InstallArgs {
    /// The client's name.
    pub(super) fn client(&self) -> &'static str {
        self.client.name()
    }
}

/// What being attended means, said before it is chosen.
const ATTENDED: &str = "\
Can you be sure that a prompt in this client is answered by a person?
  yes: where the client asks you whether to approve a call, your answer counts, for that one call.
  no:  approvals are given in the console or at the terminal, and this client only waits.
Say no where the client runs unattended or answers prompts by itself, or where its agent has a shell of yours.";

/// Makes the client a token of its own, so that no two clients share a principal, a session or remembered approvals. One that
/// is there is kept, unless whether it is attended is to change.
pub(super) async fn ensure_token(mut ready: Ready, args: &InstallArgs) -> anyhow::Result<()> {
    // The token is kept in the data folder, so it must be of that folder's server and not of the demo's.
    ready.setup.config.folder_choice = Choice::Named;
    let (client, folder) = (args.client, ready.setup.config.data_dir.clone());
    let chosen = match (args.attended, args.unattended) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    };
    ready
        .with_server(Purpose::Keep, async |contact| {
            let known = match read_token(&folder, &client_token(client.name()))? {
                Some(secret) => {
                    Client::new(contact.operator.url(), secret.expose_secret())?.whoami().await.ok()
                }
                None => None,
            };
            if known.as_ref().is_some_and(|me| chosen.is_none_or(|chosen| me.attended == chosen)) {
                return Ok(());
            }
            let attended = match chosen {
                Some(chosen) => chosen,
                None if contact.screen.can_ask() => asked(client, contact.screen).await,
                None => false,
            };
            let request = CreateTokenRequest {
                name: client.title().to_owned(),
                role: "agent".to_owned(),
                user: None,
                attended,
                expires_in_ms: None,
            };
            let created = contact.operator.create_token(&request).await?;
            keep_client_token(&folder, client.name(), &created.secret)?;
            if let Some(replaced) = known {
                contact.operator.revoke_token(&replaced.principal).await?;
            }
            let kind = if attended { "attended" } else { "unattended" };
            contact.screen.note(&format!(
                "{} has its own {kind} agent token {} in {}.",
                client.title(),
                created.token.token_id,
                folder.join(client_token(client.name())).display()
            ));
            Ok(())
        })
        .await
}

async fn asked(client: McpClient, screen: Screen) -> bool {
    screen.note(&format!("{}: {ATTENDED}", client.title()));
    let mut keyboard = Keyboard::of_process();
    // What was typed before it could be read is no answer to it.
    keyboard.forget_typed_ahead().await;
    screen.ask("[y] yes, attended   anything else: no\n> ");
    keyboard.line().await.as_deref() == Some("y")
}

/// How the bridge is started, by who reads the file that says so.
pub(super) struct Launches {
    /// From a file of this user's: whole paths.
    pub(super) user: Launch,
    /// From a file that a repository commits: by name, and nothing of this machine.
    pub(super) project: Launch,
    /// The data folder, where it is not the one that `mcp` finds by itself.
    pub(super) other_folder: Option<String>,
    /// The configuration file that was named, which `mcp` does not take.
    pub(super) named_file: Option<PathBuf>,
}

impl Launches {
    /// Has the bridge speak with this client's own token.
    pub(super) fn speak_as(&mut self, client: &str) {
        for launch in [&mut self.user, &mut self.project] {
            launch.words.extend(["--client".to_owned(), client.to_owned()]);
        }
    }

    fn of(&self, scope: Scope) -> &Launch {
        match scope {
            Scope::Project => &self.project,
            Scope::User => &self.user,
        }
    }
}

/// Shows or writes.
pub(super) fn run(
    args: &InstallArgs,
    launches: &Launches,
    home: Option<&Path>,
    screen: Screen,
) -> anyhow::Result<Exit> {
    let client = args.client;
    let project = std::env::current_dir().context("the current folder cannot be found")?;
    let home = home.ok_or_else(|| Problem::new("no_home", "there is no home folder").hint("Set HOME."))?;
    let file = client.file(&project, home);
    let launch = launches.of(client.scope());
    let state = if args.write { write(client, launch, &file)? } else { State::Shown };
    if screen.format == Format::Json {
        let entry = client.entry(launch);
        let told = json!({ "client": client.title(), "file": file, "name": NAME, "entry": entry, "state": state.word() });
        screen.print_json(&told)?;
    } else {
        screen.print(&told(client, launches, &file, &state))?;
    }
    for note in notes(client.scope(), launches) {
        screen.note(&note);
    }
    Ok(Exit::Done)
}

/// What the person has to do besides.
fn notes(scope: Scope, launches: &Launches) -> Vec<String> {
    let mut notes = Vec::new();
    if scope == Scope::Project {
        let name = &launches.project.program;
        notes.push(format!(
            "Note: the entry starts `{name}` by name, so it must be on the PATH of the client."
        ));
    }
    match (&launches.other_folder, scope) {
        (Some(folder), Scope::Project) => notes.push(format!(
            "Note: a repository's file does not name your data folder {folder}; `mcp` uses your usual one there."
        )),
        (Some(folder), Scope::User) => notes.push(format!(
            "Note: `mcp` starts no server for {folder}. Start it with `countersign --data-dir {} serve`.",
            quoted(folder)
        )),
        (None, _) => {}
    }
    if let Some(file) = &launches.named_file {
        notes.push(format!(
            "Note: `mcp` takes no --config. Start the server with `countersign --config {} serve`.",
            quoted(&file.to_string_lossy())
        ));
    }
    notes
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

fn told(client: McpClient, launches: &Launches, file: &Path, state: &State) -> String {
    let (title, place) = (client.title(), file.display());
    match state {
        State::AlreadyThere => format!("{place} has it already.\n"),
        State::Written { backup: None } => format!("Written to {place}. Restart {title}.\n"),
        State::Written { backup: Some(backup) } => {
            format!("Added to {place}; the file as it was before is {}. Restart {title}.\n", backup.display())
        }
        State::Shown => {
            let snippet = merge::alone(client.shape(), &client.entry(launches.of(client.scope())));
            let mut text = format!("For {title}, in {place}:\n\n{}\n", snippet.trim_end());
            if client == McpClient::ClaudeCode {
                let words = std::iter::once(&launches.user.program).chain(&launches.user.words);
                let line: Vec<String> = words.map(|word| quoted(word)).collect();
                text.push_str(&format!(
                    "\nor, for yourself in every folder:\n\nclaude mcp add --scope user {NAME} -- {}\n",
                    line.join(" ")
                ));
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
