//! A script's calls as they happen, and other work that takes a while: a spinner where a person watches, plain lines elsewhere, nothing for `--json`.

use std::collections::HashSet;
use std::time::Duration;

use countersign_server::wire::{CallSummary, ExecutionResult, Status};
use indicatif::{ProgressBar, ProgressStyle};

use crate::screen::{Audience, Format, Paint, Screen};
use crate::shown;

/// How often the spinner turns.
const TURN: Duration = Duration::from_millis(80);

/// What was shown so far.
pub(crate) struct Progress {
    screen: Screen,
    spinner: Option<ProgressBar>,
    told: HashSet<usize>,
}

impl Progress {
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, spinner: None, told: HashSet::new() }
    }

    /// Tells of the calls that ended since, and shows which run.
    pub(crate) fn show(&mut self, result: &ExecutionResult) {
        if self.screen.format == Format::Json {
            return;
        }
        for (no, call) in result.calls.iter().enumerate() {
            if is_over(call) && self.told.insert(no) {
                self.say(&line(no, call, self.screen.err));
            }
        }
        if ended(result.status) || self.screen.audience != Audience::Person {
            return;
        }
        let running = result.calls.iter().filter(|call| !is_over(call)).map(|call| shown::line(&call.path));
        let running: Vec<String> = running.collect();
        let words = if running.is_empty() { "computing".to_owned() } else { running.join(", ") };
        self.spinner.get_or_insert_with(spinner).set_message(words);
    }

    /// Leaves the line to somebody else, for as long as nothing new is shown.
    pub(crate) fn step_aside(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| self.screen.note(line)),
            None => self.screen.note(line),
        }
    }
}

/// Waits for something that takes a while, with a spinner and the time it took so far where a person watches.
pub(crate) async fn while_waiting<T>(screen: Screen, words: String, work: impl Future<Output = T>) -> T {
    let shows = screen.format == Format::Text && screen.audience == Audience::Person;
    let spinner = shows.then(spinner);
    if let Some(spinner) = &spinner {
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}") {
            spinner.set_style(style);
        }
        spinner.set_message(words);
    }
    let done = work.await;
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    done
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(TURN);
    spinner
}

fn ended(status: Status) -> bool {
    matches!(status, Status::Succeeded | Status::Failed | Status::Cancelled)
}

fn is_over(call: &CallSummary) -> bool {
    matches!(call.status.as_str(), "succeeded" | "failed" | "in_doubt")
}

fn line(no: usize, call: &CallSummary, paint: Paint) -> String {
    let status = match call.status.as_str() {
        done @ "succeeded" => paint.green(done),
        doubt @ "in_doubt" => paint.yellow(doubt),
        other => paint.red(other),
    };
    format!("{} {} {status}", paint.dim(&format!("call {no}")), shown::line(&call.path))
}
