//! `doctor`: what is configured, what is there, what is reachable, what is wrong, and what to do about it. It makes and
//! changes nothing.

mod in_force;

use std::path::Path;

use countersign_kernel::ports::{Credentials as _, EnvCredentials};
use countersign_sandbox::RequiredIsolation;
use countersign_sdk::{Plugin, Principal};
use countersign_server::wire::{ExecutionSummary, Status};
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::{Given, audit};
use crate::client::{Part, UNREACHABLE};
use crate::config::ConfigErrors;
use crate::contact::{Contact, Purpose, Ready, Serves};
use crate::exit::{Exit, Problem};
use crate::key_files::{ADMIN_TOKEN, AGENT_TOKEN};
use crate::local::script_host;
use crate::screen::{Format, Paint, Screen};
use crate::serving::Notice;
use crate::shown;
use crate::target::{DATABASE, DEMO_FOLDER, Owner, Target};
use in_force::Whose;

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
    // Without a readable configuration the default counts, which is the strict one.
    let required = given.setup.as_ref().map_or_else(|_| RequiredIsolation::default(), |s| s.config.isolation);
    scripts(required, &mut findings).await;
    let screen = given.screen;
    match given.setup {
        Err(errors) => bad_configuration(&errors, &mut findings),
        Ok(setup) => {
            let ready = Ready { setup, environment: given.environment };
            let target = Target::find(&ready.setup.config, &ready.environment).await;
            match &target {
                Target::Given { url } => findings.good("server", format!("{url}, as COUNTERSIGN_URL says")),
                Target::Running { url, folder, owner } => {
                    data_folder(folder, &mut findings);
                    running(url, folder, *owner, &mut findings);
                }
                Target::Folder(folder) => {
                    in_force::report(&ready.setup.config.in_force(), Whose::Commands, &mut findings);
                    findings.good("listen", format!("{}, for the server", ready.setup.config.listen));
                    data_folder(folder, &mut findings);
                    let found = "none runs for this data folder; commands work directly on the data folder";
                    findings.good("server", found);
                    tools(&ready.setup.plugins, &mut findings).await?;
                    in_force::shells(None, &mut findings);
                }
            }
            if !matches!(&target, Target::Folder(folder) if !folder.join(DATABASE).exists()) {
                ask(ready, &mut findings).await;
            }
        }
    }
    let install = given.invocation.command("mcp install --help");
    findings.good("MCP clients", format!("how to connect one: `{install}`"));
    print(&findings, screen)?;
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

/// Starts a script's child and hears what it could shut itself off from.
async fn scripts(required: RequiredIsolation, findings: &mut Findings) {
    let isolation = match script_host(0, required) {
        Ok(host) => host.isolation().await.map_err(|fault| fault.to_string()),
        Err(error) => Err(format!("{error:#}")),
    };
    let isolation = match isolation {
        Ok(isolation) => isolation,
        Err(problem) => {
            return findings.bad("scripts", problem, "Calls work; scripts cannot run until this is mended.");
        }
    };
    match (isolation.missing().is_empty(), required) {
        (false, RequiredIsolation::Strict) => {
            let advice = "Calls work; scripts are refused. Linux 5.13 or later offers what is missing; a container's own \
                          filter may hide it. `allow_weaker = true` under [sandbox] runs scripts all the same: a flaw in the \
                          script engine could then reach further than the script.";
            findings.bad("scripts", format!("DO NOT RUN, sandbox lacks protection: {isolation}"), advice);
        }
        (false, RequiredIsolation::AllowWeaker) => {
            let advice = "sandbox.allow_weaker lets scripts run all the same. Run no scripts of strangers here: a flaw in \
                          the script engine could reach further than the script.";
            findings.odd("scripts", format!("NOT FULLY ISOLATED: {isolation}"), advice);
        }
        (true, RequiredIsolation::AllowWeaker) => {
            let advice = "Set sandbox.allow_weaker = false: nothing here needs it, and elsewhere it weakens the sandbox.";
            findings.odd("scripts", format!("weaker isolation is allowed, not needed: {isolation}"), advice);
        }
        (true, RequiredIsolation::Strict) => findings.good("scripts", isolation.to_string()),
    }
}

async fn tools(plugins: &[Plugin], findings: &mut Findings) -> anyhow::Result<()> {
    if plugins.is_empty() {
        let advice = "Add --demo for the demo tools, or build your own binary with plugins (see README).";
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

fn data_folder(folder: &Path, findings: &mut Findings) {
    if !folder.exists() {
        findings
            .good("data folder", format!("{} is not there yet; the first call makes it", folder.display()));
        return;
    }
    findings.good("data folder", folder.display().to_string());
    others_may_look(folder, 0o077, findings);
    let file = folder.join(DATABASE);
    match schema_version(&file) {
        _ if !file.exists() => findings.good("store", "there is none yet; the first call makes it"),
        Some(version) => findings.good("store", format!("SQLite, schema version {version}")),
        None => {}
    }
    for name in [ADMIN_TOKEN, AGENT_TOKEN] {
        let path = folder.join(name);
        if path.exists() {
            findings.good("tokens", format!("{name} is there"));
            others_may_look(&path, 0o177, findings);
        } else {
            findings.good("tokens", format!("{name} is not there yet; the first start makes it"));
        }
    }
}

#[cfg(unix)]
fn others_may_look(path: &Path, too_much: u32, findings: &mut Findings) {
    use std::os::unix::fs::PermissionsExt as _;
    let Ok(facts) = path.metadata() else { return };
    let mode = facts.permissions().mode() & 0o777;
    if mode & too_much != 0 {
        let about = if facts.is_dir() { "data folder" } else { "tokens" };
        let advice = format!(
            "Whoever can read or write there can decide: chmod {:o} {}",
            0o777 & !too_much,
            crate::invocation::quoted(&path.to_string_lossy())
        );
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        findings.odd(about, format!("others may look into {name} (mode {mode:o})"), advice);
    }
}

#[cfg(not(unix))]
fn others_may_look(_: &Path, _: u32, _: &mut Findings) {}

/// Read beside whoever has the folder open.
fn schema_version(file: &Path) -> Option<i64> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).ok()
}

/// The server that runs for a folder.
fn running(url: &str, folder: &Path, owner: Owner, findings: &mut Findings) {
    let version = Notice::read(folder).map(|notice| notice.version).unwrap_or_default();
    let whose = if owner == Owner::Demo { "is the demo's server" } else { "runs for this data folder" };
    findings.good("server", format!("{url} {whose}, countersign {version}"));
    if owner == Owner::OwnBesideDemo {
        let advice = format!("Ask it with --data-dir {}.", folder.join(DEMO_FOLDER).display());
        findings.odd("server", "the demo's server runs too", advice);
    }
    if version != env!("CARGO_PKG_VERSION") {
        findings.odd("server", "it has another version than this program", "Restart it.");
    }
}

/// What the server says of what it keeps.
async fn ask(ready: Ready, findings: &mut Findings) {
    let here = ready.setup.paths();
    let mut seen = Findings::default();
    let asked =
        ready.with_server(Purpose::Look, async |contact| Ok(state(contact, &here, &mut seen).await?)).await;
    findings.0.append(&mut seen.0);
    if let Err(error) = asked {
        unusable(&error, findings);
    }
}

fn unusable(error: &anyhow::Error, findings: &mut Findings) {
    match error.downcast_ref::<Problem>() {
        Some(problem) => {
            let hint = problem.hint.clone().unwrap_or_default();
            match problem.code.as_ref() {
                "data_folder_in_use" => {
                    findings.odd("lock", problem.message.clone(), "Executions and audit were not looked at.");
                }
                UNREACHABLE | "unauthenticated" | "no_token" => {
                    findings.bad("server", problem.message.clone(), hint);
                }
                _ => findings.bad("store", problem.message.clone(), hint),
            }
        }
        None => findings.bad("store", format!("{error:#}"), "The log says more: COUNTERSIGN_LOG=debug"),
    }
}

async fn state(contact: &Contact, here: &[String], findings: &mut Findings) -> Result<(), Problem> {
    let client = &contact.operator;
    if contact.serves == Serves::Elsewhere {
        let ready = client.probe("readyz").await?;
        let who = client.whoami().await?;
        let roles = who.roles.join(", ");
        let name = contact.names().await.of(&who.principal);
        in_force::of_server(contact, findings).await;
        findings.good("server", format!("{}; you are {name} with the role {roles}", ready.trim()));
        findings.good("tools", format!("the server has {}", client.tools("").await?.items.len()));
    }
    identities(contact, findings).await?;
    waiting(contact, findings).await?;
    in_status(contact, Status::Paused, findings).await?;
    for item in in_status(contact, Status::InDoubt, findings).await? {
        let show = contact.invocation.command(&format!("executions {}", item.execution_id));
        findings.odd("in doubt", item.execution_id, format!("Look at it with `{show}`, then settle it."));
    }
    if contact.serves == Serves::Here {
        interrupted(contact, here, findings).await?;
    }
    match audit::verified(client).await? {
        Ok((records, _)) => findings.good("audit", format!("{records} records, unbroken")),
        Err(broken) => {
            findings.bad("audit", broken.to_string(), "Keep a copy and compare it with a backup.");
        }
    }
    Ok(())
}

/// Users and tokens whose records are damaged: they may do nothing.
async fn identities(contact: &Contact, findings: &mut Findings) -> Result<(), Problem> {
    let (users, tokens) = (contact.operator.users().await?, contact.operator.tokens().await?);
    for (about, damaged) in [("users", users.damaged), ("tokens", tokens.damaged)] {
        for row in damaged {
            findings.bad(about, format!("{} is damaged", row.id), row.message);
        }
    }
    Ok(())
}

async fn waiting(contact: &Contact, findings: &mut Findings) -> Result<(), Problem> {
    let (mut number, mut without_tool, mut part) = (0, 0, Some(Part::default()));
    while let Some(wanted) = part {
        let list = contact.operator.elicitations(&wanted).await?;
        without_tool += list.items.iter().filter(|asked| asked.cannot_approve.is_some()).count();
        number +=
            list.items.iter().filter(|asked| crate::report::time_left(&asked.question).is_some()).count();
        for damaged in &list.damaged {
            findings.bad("inbox", format!("{} is damaged", damaged.id), damaged.message.clone());
        }
        part = Part::after(&list);
    }
    if without_tool > 0 {
        let found = format!("{without_tool} waiting for a tool that is not loaded");
        findings.odd("inbox", found, "Load its source or plugin to approve; they can be denied now.");
    }
    match number {
        0 => findings.good("inbox", "empty"),
        number => {
            findings.good("inbox", format!("{number} waiting: `{}`", contact.invocation.command("inbox")));
        }
    }
    Ok(())
}

/// What a process left behind that no longer runs. One that runs now brings its own to their end.
async fn interrupted(contact: &Contact, here: &[String], findings: &mut Findings) -> Result<(), Problem> {
    let running = in_status(contact, Status::Running, findings).await?;
    if !running.is_empty() {
        let advice = "The next call or decision goes on with them, or finds them in doubt.";
        findings.odd("interrupted", format!("{} executions", running.len()), advice);
    }
    for item in running {
        let Some(tool) = item.tool.filter(|tool| !here.contains(tool)) else { continue };
        let found = format!("{} needs {tool}, which is not here", item.execution_id);
        findings.odd("interrupted", found, contact.missing_tool_hint(&tool));
    }
    Ok(())
}

/// The executions in a status; those whose record is damaged are findings.
async fn in_status(
    contact: &Contact,
    status: Status,
    findings: &mut Findings,
) -> Result<Vec<ExecutionSummary>, Problem> {
    let (mut all, mut part) = (Vec::new(), Some(Part::default()));
    while let Some(wanted) = part {
        let list = contact.operator.executions(&[status], &wanted).await?;
        part = Part::after(&list);
        for damaged in &list.damaged {
            findings.bad("executions", format!("{} is damaged", damaged.id), damaged.message.clone());
        }
        all.extend(list.items);
    }
    Ok(all)
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
