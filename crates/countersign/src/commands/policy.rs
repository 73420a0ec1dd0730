//! `policy`: whether a file's rules are sound, and what they say of a call. Nothing runs.

use std::path::Path;

use countersign_core::policy::{RuleOutcome, Subject};
use countersign_sdk::{Principal, SessionId};
use serde_json::{Value, json};

use super::call::not_found;
use super::tools::catalog;
use super::{Given, input};
use crate::args::{ExplainArgs, Shared};
use crate::config::Config;
use crate::exit::{Exit, Problem};
use crate::local::Setup;
use crate::screen::Format;
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

pub(super) fn explain(setup: Setup, given: &ExplainArgs) -> anyhow::Result<Exit> {
    let path = given.path.as_str();
    let args = input::json(given.input.as_deref(), "the arguments")?;
    let session = SessionId::parse(&given.session).map_err(|e| Problem::usage(format!("--session: {e}")))?;
    let catalog = catalog(setup.plugins)?;
    let tool = catalog.get(path).ok_or_else(|| not_found(path, &catalog, &setup.invocation))?;
    // Rules see what would run: defaults filled in. What does not fit would never come to them, which is worth a word,
    // but a rule can be tried out without every argument.
    let (args, unfit) = match tool.tool().admit(args.clone()) {
        Ok(admitted) => (admitted, Vec::new()),
        Err(violations) => (args, violations),
    };
    let explanation = setup.config.policy.explain(&Subject {
        path: tool.path(),
        effects: tool.effects(),
        source: tool.source(),
        args: &args,
        principal: &Principal::agent("local-agent")?,
        session: &session,
    });
    let screen = setup.screen;
    for violation in unfit {
        screen.note(&format!(
            "note: the call would be refused before any rule: {}",
            shown::line(&violation.to_string())
        ));
    }
    if screen.format == Format::Text {
        for line in explanation.to_string().lines() {
            screen.print(&shown::line(line))?;
        }
        return Ok(Exit::Done);
    }
    let rules: Vec<Value> = explanation
        .rules
        .iter()
        .map(|rule| {
            let (outcome, problem) = outcome_words(&rule.outcome);
            json!({
                "number": rule.number, "line": rule.line, "match": rule.pattern.as_str(), "when": rule.when,
                "effect": rule.effect.to_string(), "outcome": outcome, "problem": problem,
            })
        })
        .collect();
    let verdict = &explanation.verdict;
    screen.print_json(&json!({
        "path": explanation.path,
        "effect": verdict.effect.to_string(),
        "source": verdict.source.to_string(),
        "reason": verdict.reason,
        "rules": rules,
    }))?;
    Ok(Exit::Done)
}

fn outcome_words(outcome: &RuleOutcome) -> (&'static str, Option<&str>) {
    match outcome {
        RuleOutcome::Matches => ("matches", None),
        RuleOutcome::PatternMisses => ("pattern_misses", None),
        RuleOutcome::WhenIsFalse => ("when_is_false", None),
        RuleOutcome::WhenFailed(problem) => ("when_failed", Some(problem)),
        RuleOutcome::NotReached => ("not_reached", None),
    }
}
