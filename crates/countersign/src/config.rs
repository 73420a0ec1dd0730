//! What the operator wants: `countersign.toml`, overridden by the environment, overridden by flags.
//!
//! Promises: a key that nobody knows is an error, and so is a value that makes no sense; everything that is wrong is said
//! at once, with file and line or with the name of the variable. What cannot be read stops the command (R2). The file is the one
//! that was named, or the one in the operator's configuration folder; never one that lies in the current folder, because that
//! may be anybody's repository (R18).

mod environment;
mod file;
mod folders;
mod in_force;
mod sources;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_core::digest::Digest;
use countersign_core::policy::{Policy, Writes, parse_duration};
use countersign_kernel::Settings;
use countersign_kernel::ports::SourceConfig;
use countersign_sandbox::RequiredIsolation;
use countersign_sdk::Remember;
use countersign_server::mcp::{ClientElicitation, Surface};
use countersign_server::wire::Setting;

pub(crate) use environment::{Environment, credentials};
pub(crate) use in_force::{CONFIGURATION_LOADED, line as in_force_line, unix_user};
pub(crate) use sources::is_url;

use crate::args::Shared;
use file::{Entry, Origin};

const FILE: &str = "countersign.toml";
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);

/// The configuration in force.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The file it came from; none where there is none.
    pub(crate) file: Option<PathBuf>,
    /// Who chose that file.
    pub(crate) file_choice: Choice,
    /// The SHA-256 of that file as it was read.
    pub(crate) file_digest: Option<Digest>,
    /// Every key that was set, and what set it.
    pub(crate) chosen: Vec<Setting>,
    /// Where the server will listen.
    pub(crate) listen: SocketAddr,
    /// Where executions and approvals are kept.
    pub(crate) data_dir: PathBuf,
    /// Who chose that folder.
    pub(crate) folder_choice: Choice,
    /// The address people reach the server at, where that is another than it listens on.
    pub(crate) public_url: Option<String>,
    /// Names besides the listening address under which requests may come.
    pub(crate) hosts: Vec<String>,
    /// Origins besides the server's own whose pages may call it.
    pub(crate) origins: Vec<String>,
    /// What MCP clients see.
    pub(crate) surface: Surface,
    /// How long a call is held for an MCP client that cannot be asked.
    pub(crate) hold: Option<Duration>,
    /// How approvals behave.
    pub(crate) approvals: Approvals,
    /// How isolated a script's process must be.
    pub(crate) isolation: RequiredIsolation,
    /// The rules.
    pub(crate) policy: Policy,
    /// The sources of the file.
    pub(crate) sources: Vec<SourceConfig>,
}

/// Who chose a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The command line or the environment of this command.
    Named,
    /// The configuration file, or nobody: it is the platform's.
    Usual,
}

/// How approvals behave.
#[derive(Debug, Clone)]
pub(crate) struct Approvals {
    /// How long a question waits.
    pub(crate) expires: Duration,
    /// How long a yes counts for tools that say nothing.
    pub(crate) remember: Remember,
    /// Whether an agent's `resume` may decide.
    pub(crate) agent_may_decide: bool,
    /// Whose prompts count as the user's decision: those of attended clients, or nobody's.
    pub(crate) client_elicitation: ClientElicitation,
    /// How long a remembered yes counts at most.
    pub(crate) remember_for: Duration,
    /// How long what waits is kept in memory.
    pub(crate) park_after: Duration,
}

impl Default for Approvals {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            expires: settings.expires,
            remember: settings.remember,
            agent_may_decide: false,
            client_elicitation: ClientElicitation::Attended,
            remember_for: settings.remember_for,
            park_after: settings.park_after,
        }
    }
}

/// Everything that is wrong with a configuration. Never empty.
#[derive(Debug)]
pub(crate) struct ConfigErrors {
    errors: Vec<ConfigError>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// The file, `FILE:LINE`, or the variable.
    pub(crate) place: String,
    /// What is wrong, and what to write instead.
    pub(crate) reason: String,
}

impl Config {
    /// Finds and reads the configuration: flags over the environment over the file over defaults.
    pub(crate) fn load(shared: &Shared, environment: &Environment) -> Result<Self, ConfigErrors> {
        match find(shared, environment)? {
            None => Self::assemble(None, "", shared, environment),
            Some(path) => {
                let text = std::fs::read_to_string(&path).map_err(|e| {
                    ConfigErrors::one(path.display().to_string(), format!("the file cannot be read: {e}"))
                })?;
                Self::assemble(Some(&path), &text, shared, environment)
            }
        }
    }

    /// How the gateway is to behave.
    pub(crate) fn settings(&self) -> Settings {
        let Approvals { expires, remember, remember_for, park_after, .. } = self.approvals;
        Settings { expires, remember, remember_for, park_after, ..Settings::default() }
    }

    fn assemble(
        path: Option<&Path>,
        text: &str,
        shared: &Shared,
        environment: &Environment,
    ) -> Result<Self, ConfigErrors> {
        let mut errors = Vec::new();
        let place = |line: usize| format!("{}:{line}", path.unwrap_or(Path::new(FILE)).display());
        let (entries, unread) = file::read(text);
        errors.extend(unread.into_iter().map(|(line, reason)| ConfigError { place: place(line), reason }));
        let policy = Policy::from_toml(text).unwrap_or_else(|problems| {
            errors.extend(problems.iter().map(|(line, reason)| ConfigError { place: place(line), reason }));
            Policy::default()
        });
        let mut config = Self {
            file: path.map(Path::to_owned),
            file_choice: match named_file(shared, environment) {
                Some(_) => Choice::Named,
                None => Choice::Usual,
            },
            file_digest: path.map(|_| Digest::of(text.as_bytes())),
            chosen: Vec::new(),
            listen: DEFAULT_LISTEN,
            data_dir: PathBuf::new(),
            folder_choice: Choice::Usual,
            public_url: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            surface: Surface::default(),
            hold: None,
            approvals: Approvals::default(),
            isolation: RequiredIsolation::default(),
            policy,
            sources: Vec::new(),
        };
        let (sources, unread) = sources::read(text, path);
        errors.extend(unread.into_iter().map(|(line, reason)| ConfigError { place: place(line), reason }));
        for source in sources {
            config.add_source(source.config, place(source.line));
        }
        let base = path.and_then(Path::parent).unwrap_or(Path::new(""));
        let overrides = file::KEYS.iter().filter_map(|key| {
            let variable = key.variable();
            Some(Entry {
                key: key.name,
                text: environment.text(&variable)?.into_owned(),
                origin: Origin::Variable,
            })
        });
        for entry in entries.into_iter().chain(overrides) {
            let place = match entry.origin {
                Origin::Line(line) => place(line),
                Origin::Variable => file::variable_of(entry.key),
            };
            match config.set(&entry, base) {
                Ok(()) => config.note(&entry, place),
                Err(reason) => errors.push(ConfigError { place, reason }),
            }
        }
        errors.extend(config.choose_folder(shared, environment));
        if errors.is_empty() { Ok(config) } else { Err(ConfigErrors { errors }) }
    }

    /// The data folder: the flag's, else the one that was set, else the platform's.
    fn choose_folder(&mut self, shared: &Shared, environment: &Environment) -> Option<ConfigError> {
        if let Some(folder) = &shared.data_dir {
            self.data_dir.clone_from(folder);
            self.folder_choice = Choice::Named;
        }
        if !self.data_dir.as_os_str().is_empty() {
            return None;
        }
        match folders::data(environment) {
            Some(folder) => {
                self.data_dir = folder;
                None
            }
            None => Some(ConfigError {
                place: "HOME".into(),
                reason: "there is no home folder to keep data in; say where with --data-dir FOLDER".into(),
            }),
        }
    }

    fn set(&mut self, entry: &Entry, base: &Path) -> Result<(), String> {
        let text = entry.text.as_str();
        let approvals = &mut self.approvals;
        match entry.key {
            "listen" => self.listen = address(text)?,
            "data_dir" => self.data_dir = folder(text, base, entry.origin)?,
            "public_url" => self.public_url = Some(url(text)?),
            "hosts" => self.hosts = list(text),
            "origins" => self.origins = list(text),
            "mcp.surface" => self.surface = surface(text)?,
            "mcp.hold" => self.hold = Some(parse_duration(text).map_err(|e| e.to_string())?),
            "approvals.expires" => approvals.expires = parse_duration(text).map_err(|e| e.to_string())?,
            "approvals.park_after" => {
                approvals.park_after = parse_duration(text).map_err(|e| e.to_string())?;
            }
            "approvals.remember_for" => {
                approvals.remember_for = parse_duration(text).map_err(|e| e.to_string())?;
            }
            "approvals.remember" => approvals.remember = remember(text)?,
            "approvals.writes" => self.policy = self.policy.with_writes(writes(text)?),
            "approvals.agent_may_decide" => approvals.agent_may_decide = truth(text)?,
            "approvals.client_elicitation" => approvals.client_elicitation = client_elicitation(text)?,
            "sandbox.allow_weaker" => self.isolation = isolation(text)?,
            other => return Err(format!("there is no key `{other}`")),
        }
        Ok(())
    }
}

/// The file to read, if there is one. One that was named must be there. The current folder is not looked at (R18).
fn find(shared: &Shared, environment: &Environment) -> Result<Option<PathBuf>, ConfigErrors> {
    if let Some(path) = named_file(shared, environment) {
        return Ok(Some(path));
    }
    let Some(usual) = folders::configuration(environment).map(|folder| folder.join(FILE)) else {
        return Ok(None);
    };
    match usual.try_exists() {
        Ok(true) => Ok(Some(usual)),
        Ok(false) => Ok(None),
        // Going on without it would silently drop the operator's rules.
        Err(e) => Err(ConfigErrors::one(usual.display().to_string(), format!("it cannot be looked at: {e}"))),
    }
}

fn named_file(shared: &Shared, environment: &Environment) -> Option<PathBuf> {
    shared.config.clone().or_else(|| environment.path("COUNTERSIGN_CONFIG"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no address; write an address and a port, such as \"127.0.0.1:7420\"")
    })
}

fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(char::is_whitespace) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(format!(
            "{text:?} is no address of a server; write something like \"https://gate.example.com\""
        )),
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(ToOwned::to_owned).collect()
}

fn client_elicitation(text: &str) -> Result<ClientElicitation, String> {
    match text {
        "attended" => Ok(ClientElicitation::Attended),
        "never" => Ok(ClientElicitation::Never),
        _ => Err("expected \"attended\" or \"never\"".to_owned()),
    }
}

fn surface(text: &str) -> Result<Surface, String> {
    match text {
        "both" => Ok(Surface::Both),
        "tools" => Ok(Surface::Tools),
        "script" => Ok(Surface::Script),
        other => {
            Err(format!("mcp.surface cannot be {other:?}; there are \"both\", \"tools\" and \"script\""))
        }
    }
}

fn folder(text: &str, base: &Path, origin: Origin) -> Result<PathBuf, String> {
    if text.trim().is_empty() {
        return Err("the folder is empty; leave the key out for the default".into());
    }
    if text.starts_with('~') {
        return Err(format!("{text:?}: `~` is not expanded here; write the whole path"));
    }
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err("the path is not valid Unicode; use --data-dir for it".into());
    }
    Ok(match origin {
        Origin::Line(_) => base.join(text),
        Origin::Variable => text.into(),
    })
}

fn remember(text: &str) -> Result<Remember, String> {
    match text {
        "call" => Ok(Remember::Call),
        "session" => Ok(Remember::Session),
        other => Err(format!("remember cannot be {other:?}; there are \"call\" and \"session\"")),
    }
}

fn isolation(text: &str) -> Result<RequiredIsolation, String> {
    let allowed = truth(text)?;
    Ok(if allowed { RequiredIsolation::AllowWeaker } else { RequiredIsolation::Strict })
}

fn writes(text: &str) -> Result<Writes, String> {
    match text {
        "allow" => Ok(Writes::Allow),
        "ask" => Ok(Writes::Ask),
        other => Err(format!("approvals.writes cannot be {other:?}; there are \"allow\" and \"ask\"")),
    }
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("{other:?} is neither true nor false")),
    }
}

impl ConfigErrors {
    fn one(place: String, reason: String) -> Self {
        Self { errors: vec![ConfigError { place, reason }] }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.errors.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration cannot be used:")?;
        self.errors.iter().try_for_each(|error| write!(f, "\n  {}: {}", error.place, error.reason))
    }
}

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests;
