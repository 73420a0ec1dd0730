//! A place for scripts without an engine, for tests that are not about JavaScript.
//!
//! A script is a list of calls, one a line: `lab.put {"what":"x"}`. It makes them one after another; lines that begin with `&` go
//! together with the one before. A call that fails ends the script with its failure. The same lines given the same completions make
//! the same requests, as the port wants it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::event::CallOutcome;
use countersign_kernel::ports::{
    Completion, Program, Request, ScriptEnd, ScriptFault, ScriptHost, Stripped, Turn, Vm, Wanted,
};

/// Runs scripts that are lists of calls.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineScripts;

#[async_trait]
impl ScriptHost for LineScripts {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        Ok(Box::new(Lines::default()))
    }
}

#[derive(Default)]
struct Lines {
    /// Calls that are made together.
    groups: Vec<Vec<(u32, Wanted)>>,
    made: u32,
    waits_for: BTreeSet<u32>,
}

#[async_trait]
impl Vm for Lines {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        parse(source)?;
        Ok(Stripped { code: source.to_owned(), mappings: String::new() })
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        self.groups = parse(&program.stripped.code)?;
        self.groups.reverse();
        Ok(self.next_group())
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        let mut turn = Turn::default();
        for completion in completions {
            let request = completion.request;
            if turn.end.is_some() {
                break;
            }
            if !self.waits_for.remove(&request) {
                return Err(ScriptFault::NotAsked { request });
            }
            if let CallOutcome::Failed(failure) = completion.outcome {
                turn.end = Some(ScriptEnd::Threw(failure));
            } else if self.waits_for.is_empty() {
                let Turn { requests, end, .. } = self.next_group();
                turn.requests.extend(requests);
                turn.end = end;
            }
        }
        Ok(turn)
    }
}

impl Lines {
    fn next_group(&mut self) -> Turn {
        let Some(group) = self.groups.pop() else {
            return Turn { end: Some(ScriptEnd::Returned(Verbatim::null())), ..Turn::default() };
        };
        let mut requests = Vec::with_capacity(group.len());
        for (line, wanted) in group {
            self.waits_for.insert(self.made);
            requests.push(Request { no: self.made, line: Some(line), wanted });
            self.made += 1;
        }
        Turn { requests, ..Turn::default() }
    }
}

fn parse(source: &str) -> Result<Vec<Vec<(u32, Wanted)>>, ScriptFault> {
    let mut groups: Vec<Vec<(u32, Wanted)>> = Vec::new();
    for (line, text) in (1..).zip(source.lines()) {
        let invalid = |message: &str| ScriptFault::Invalid { message: message.to_owned(), line, column: 1 };
        let (together, text) = text.strip_prefix('&').map_or((false, text), |rest| (true, rest));
        let (path, args) = text.trim().split_once(' ').ok_or_else(|| invalid("no arguments"))?;
        let args = serde_json::from_str(args).map_err(|_| invalid("the arguments are not JSON"))?;
        let args = Canonical::of(&args).map_err(|_| invalid("the arguments are too large"))?;
        let call = (line, Wanted::Call { path: path.to_owned(), args });
        match groups.last_mut().filter(|_| together) {
            Some(group) => group.push(call),
            None => groups.push(vec![call]),
        }
    }
    Ok(groups)
}
