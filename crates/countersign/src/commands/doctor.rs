//! `doctor`: what is configured, what is there, what is wrong, and what to do about it. It makes and changes nothing.

use std::path::Path;

use countersign_core::execution::Status;
use countersign_kernel::ports::{Clock as _, Credentials as _, EnvCredentials, SystemClock};
use countersign_sdk::{Plugin, Principal};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::{Given, audit};
use crate::config::{Config, ConfigErrors};
use crate::data_folder::DataFolder;
use crate::exit::Exit;
use crate::local::{Setup, script_host};
use crate::screen::{Format, Paint, Screen};
use crate::shown;
use crate::span::span;

/// The store's file; opening a folder without one would make it.
const DATABASE: &str = "countersign.db";

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// Works, and somebody should look at it.
    Odd,
    Bad,
}

/// One thing that was looked at.
struct Finding {
    health: Health,
    about: &'static str,
    found: String,
    advice: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn good(&mut self, about: &'static str, found: impl Into<String>) {
        self.0.push(Finding { health: Health::Good, about, found: found.into(), advice: None });
    }

    fn odd(&mut self, about: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { health: Health::Odd, about, found: found.into(), advice: Some(advice.into()) });
    }

    fn bad(&mut self, about: &'static str, found: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Finding { health: Health::Bad, about, found: found.into(), advice: Some(advice.into()) });
    }
}

pub(super) async fn run(given: Given) -> anyhow::Result<Exit> {
    let mut findings = Findings::default();
    findings.good("program", format!("countersign {}", env!("CARGO_PKG_VERSION")));
    for stranger in given.environment.strangers() {
        findings.odd("environment", format!("{stranger} is set and means nothing"), "Is it misspelt?");
    }
    scripts(&mut findings).await;
    match &given.setup {
        Err(errors) => bad_configuration(errors, &mut findings),
        Ok(setup) => {
            configuration(&setup.config, &mut findings);
            tools(&setup.plugins, &mut findings).await?;
            data_folder(setup, &mut findings).await?;
        }
    }
    print(&findings, given.screen)?;
    let bad = findings.0.iter().any(|finding| finding.health == Health::Bad);
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn bad_configuration(errors: &ConfigErrors, findings: &mut Findings) {
    for error in errors.iter() {
        findings.bad(
            "configuration",
            format!("{}: {}", error.place, error.reason),
            "No command runs until it is mended.",
        );
    }
}

fn configuration(config: &Config, findings: &mut Findings) {
    match &config.file {
        Some(file) => findings.good("configuration", file.display().to_string()),
        None => findings.good("configuration", "no countersign.toml found; built-in defaults"),
    }
    let approvals = &config.approvals;
    let remember = format!("{:?}", approvals.remember).to_lowercase();
    let (expires, park_after) = (span(approvals.expires), span(approvals.park_after));
    findings.good(
        "approvals",
        format!("expire after {expires}; remember \"{remember}\"; park after {park_after}"),
    );
    findings.good("listen", format!("{}, for the server", config.listen));
    if approvals.agent_may_decide {
        let advice = "Set approvals.agent_may_decide = false, unless the agent is meant to approve itself.";
        findings.odd("approvals", "agents may decide what they themselves asked for", advice);
    }
    if !approvals.client_elicitation {
        findings.good("approvals", "an accept in the agent's own client does not count");
    }
    let rules = match config.policy.rules().len() {
        0 => "no rules: reading is allowed, destructive tools ask".to_owned(),
        1 => "1 rule".to_owned(),
        number => format!("{number} rules"),
    };
    findings.good("policy", rules);
}

/// Starts a script's child and hears what it could shut itself off from.
async fn scripts(findings: &mut Findings) {
    let isolation = match script_host(0) {
        Ok(host) => host.isolation().await.map_err(|fault| fault.to_string()),
        Err(error) => Err(format!("{error:#}")),
    };
    match isolation {
        Ok(isolation) if isolation.is_full() => findings.good("scripts", isolation.to_string()),
        Ok(isolation) => {
            let advice = "Run no scripts of strangers on this system: a flaw in the script engine could reach further \
                          than the script. A newer Linux offers landlock and seccomp.";
            findings.odd("scripts", format!("NOT FULLY ISOLATED: {isolation}"), advice);
        }
        Err(problem) => {
            findings.bad("scripts", problem, "Calls work; scripts cannot run until this is mended.");
        }
    }
}

async fn tools(plugins: &[Plugin], findings: &mut Findings) -> anyhow::Result<()> {
    if plugins.is_empty() {
        let advice = "Say --demo for the demo tools, or add plugins in a main of your own.";
        findings.odd("tools", "there are none", advice);
    }
    let anybody = Principal::agent("local-agent")?;
    for plugin in plugins {
        match plugin.check() {
            Ok(()) => {
                findings.good("tools", format!("plugin {} with {} tools", plugin.id(), plugin.tools().len()));
            }
            Err(errors) => {
                for error in errors {
                    findings.bad("tools", format!("plugin {}: {error}", plugin.id()), "Mend the plugin.");
                }
            }
        }
        for provider in plugin.providers() {
            let variable = provider.id.to_ascii_uppercase().replace(['-', '.'], "_");
            match EnvCredentials.token(provider, &anybody).await? {
                Some(_) => findings.good("credentials", format!("there is one for {}", provider.id)),
                None => {
                    let advice = format!("Set {variable}_TOKEN; tools that need it fail until then.");
                    findings.odd("credentials", format!("there is none for {}", provider.id), advice);
                }
            }
        }
    }
    Ok(())
}

async fn data_folder(setup: &Setup, findings: &mut Findings) -> anyhow::Result<()> {
    let folder = setup.config.data_dir.as_path();
    if !folder.exists() {
        findings
            .good("data folder", format!("{} is not there yet; the first call makes it", folder.display()));
        return Ok(());
    }
    findings.good("data folder", folder.display().to_string());
    others_may_look(folder, findings);
    let file = folder.join(DATABASE);
    if !file.exists() {
        findings.good("store", "there is none yet; the first call makes it");
        return Ok(());
    }
    if let Some(version) = schema_version(&file) {
        findings.good("store", format!("SQLite, schema version {version}"));
    }
    match DataFolder::open(folder) {
        Err(problem) if problem.code == "data_folder_in_use" => {
            findings.odd("lock", problem.message, "Executions and audit were not looked at.");
        }
        Err(problem) => findings.bad("store", problem.message, problem.hint.unwrap_or_default()),
        Ok(open) => {
            findings.good("lock", "free");
            executions(&open, setup, findings).await?;
            match audit::verified(&open.store).await? {
                Ok((records, _)) => findings.good("audit", format!("{records} records, unbroken")),
                Err(broken) => {
                    findings.bad("audit", broken.to_string(), "Keep a copy and compare it with a backup.");
                }
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn others_may_look(folder: &Path, findings: &mut Findings) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(facts) = folder.metadata() else { return };
    let mode = facts.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let advice = format!(
            "Whoever can write there can decide: chmod 700 {}",
            crate::invocation::quoted(&folder.to_string_lossy())
        );
        findings.odd("data folder", format!("others may look into it (mode {mode:o})"), advice);
    }
}

#[cfg(not(unix))]
fn others_may_look(_: &Path, _: &mut Findings) {}

/// Read beside whoever has the folder open.
fn schema_version(file: &Path) -> Option<i64> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).ok()
}

async fn executions(folder: &DataFolder, setup: &Setup, findings: &mut Findings) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let waiting =
        folder.open_questions().await?.iter().filter(|row| now < row.elicitation.expires_at).count();
    match waiting {
        0 => findings.good("inbox", "empty"),
        number => {
            findings.good("inbox", format!("{number} waiting: `{}`", setup.invocation.command("inbox")));
        }
    }
    for row in folder.executions_in(Status::InDoubt).await? {
        let advice = format!(
            "Look at it with `{}`, then settle it.",
            setup.invocation.command(&format!("executions {}", row.id))
        );
        findings.odd("in doubt", row.id.to_string(), advice);
    }
    let interrupted = folder.executions_in(Status::Running).await?.len();
    if interrupted > 0 {
        let advice = "The next call or decision goes on with them, or finds them in doubt.";
        findings.odd("interrupted", format!("{interrupted} executions"), advice);
    }
    for row in folder.stranded(&setup.paths()).await? {
        let tool = row.tool.as_ref().map(ToString::to_string).unwrap_or_default();
        let advice = crate::local::missing_tool_hint(&tool, &setup.invocation);
        findings.odd("interrupted", format!("{} needs {tool}, which is not here", row.id), advice);
    }
    Ok(())
}

fn print(findings: &Findings, screen: Screen) -> anyhow::Result<()> {
    if screen.format == Format::Json {
        let all = findings.0.iter().map(|finding| {
            let health = match finding.health {
                Health::Good => "good",
                Health::Odd => "odd",
                Health::Bad => "bad",
            };
            json!({ "about": finding.about, "health": health, "found": finding.found, "advice": finding.advice })
        });
        let ok = findings.0.iter().all(|finding| finding.health != Health::Bad);
        return screen.print_json(&json!({ "ok": ok, "findings": all.collect::<Vec<_>>() }));
    }
    for finding in &findings.0 {
        screen.print(&line(finding, screen.out))?;
    }
    Ok(())
}

fn line(finding: &Finding, paint: Paint) -> String {
    let mark = match finding.health {
        Health::Good => paint.green("ok   "),
        Health::Odd => paint.yellow("look "),
        Health::Bad => paint.red("wrong"),
    };
    let advice = finding.advice.as_deref().filter(|advice| !advice.is_empty());
    let advice = advice.map(|advice| format!("\n{:21}→ {}", "", shown::line(advice))).unwrap_or_default();
    format!("{mark}  {:<13} {}{advice}", finding.about, shown::line(&finding.found))
}
