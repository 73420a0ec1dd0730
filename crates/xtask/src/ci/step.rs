//! One step of CI: its name and what it does.

use crate::machine::Invocation;

#[derive(Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) enum Action {
    Run(Invocation),
    /// In this process: a second `cargo xtask` would only wait for the first one's lock.
    Tidy,
    Skip(&'static str),
}

impl Step {
    pub(super) fn command(name: &'static str, command_line: &'static str) -> Step {
        Step::run(name, Invocation::new(command_line))
    }

    pub(super) fn run(name: &'static str, invocation: Invocation) -> Step {
        Step { name, action: Action::Run(invocation) }
    }

    pub(super) fn tidy(name: &'static str) -> Step {
        Step { name, action: Action::Tidy }
    }

    /// Turns the step into a skip where there is a reason for one.
    pub(super) fn unless(self, reason: Option<&'static str>) -> Step {
        match reason {
            Some(why) => Step { action: Action::Skip(why), ..self },
            None => self,
        }
    }

    /// The command that shows the same result without the other steps.
    pub(super) fn reproduction(&self) -> String {
        match &self.action {
            Action::Run(invocation) => invocation.to_string(),
            Action::Tidy => "cargo xtask tidy".to_owned(),
            Action::Skip(why) => format!("(skipped: {why})"),
        }
    }
}
