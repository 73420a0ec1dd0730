//! `policy`: whether a file's rules are sound, and what rules say of a call: those of a file that was named, else the server's.
//! Nothing runs.

use std::path::Path;

use countersign_server::wire::{ExplainRequest, Explanation};
use serde_json::json;

use super::call::{not_found, session};
use super::{Given, input};
use crate::args::{ExplainArgs, Shared};
use crate::config::{Choice, Config};
use crate::contact::{Purpose, Ready};
use crate::exit::{Exit, Problem};
use crate::screen::{Format, Screen};
use crate::shown;

pub(super) fn check(file: &Path, given: &Given) -> anyhow::Result<Exit> {
    // Where data is kept is not asked about; a machine without a home folder may check rules too.
    let shared = Shared { config: Some(file.to_owned()), data_dir: Some(".".into()), ..Shared::default() };
    let config = Config::load(&shared, &given.environment)
        .map_err(|errors| Problem::new("bad_configuration", errors.to_string()))?;
    let (rules, version) = (config.policy.rules().len(), config.policy.version());
    let screen = given.screen;
    match screen.format {
        Format::Json => screen.print_json(&json!({ "ok": true, "rules": rules, "version": version }))?,
        Format::Text => {
            let rules = if rules == 1 { "1 rule".to_owned() } else { format!("{rules} rules") };
            screen.print(&format!("{} is sound: {rules}, and all examples hold.", file.display()))?;
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn explain(ready: Ready, given: &ExplainArgs) -> anyhow::Result<Exit> {
    let path = given.path.as_str();
    let args = input::json(given.input.as_deref(), "the arguments")?;
    let session_id = given.session.as_deref().map(session).transpose()?;
    let request = ExplainRequest { tool: path.to_owned(), args: Some(args), session_id };
    let config = &ready.setup.config;
    let purpose = match (&config.file, config.file_choice) {
        (Some(file), Choice::Named) => {
            let line = format!("Explaining with the rules of {}; no server is asked.", file.display());
            if !ready.setup.invocation.is_quiet() {
                ready.setup.screen.note(&ready.setup.screen.err.dim(&line));
            }
            Purpose::NamedRules
        }
        _ => Purpose::Catalog,
    };
    ready
        .with_server(purpose, async |contact| {
            let explained = match contact.agent.explain(&request).await {
                Ok(explained) => explained,
                Err(problem) if problem.code == "tool_not_found" => {
                    return Err(not_found(problem, path, contact).await.into());
                }
                Err(problem) => return Err(problem.into()),
            };
            print(&explained, contact.screen)
        })
        .await
}

fn print(explained: &Explanation, screen: Screen) -> anyhow::Result<Exit> {
    for violation in &explained.violations {
        screen.note(&format!("note: the call would be refused before any rule: {}", shown::line(violation)));
    }
    if screen.format == Format::Json {
        screen.print_json(&serde_json::to_value(explained)?)?;
        return Ok(Exit::Done);
    }
    for line in explained.text.lines() {
        screen.print(&shown::line(line))?;
    }
    Ok(Exit::Done)
}
