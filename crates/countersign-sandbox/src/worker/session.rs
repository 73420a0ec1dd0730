//! One script, order by order: what a child and the host without children have in common.

use countersign_kernel::ports::{Completion, Program, ScriptFault, Stripped, Turn};

use crate::engine::Engine;
use crate::limits::Limits;
use crate::message::{self, Order, Part, Reply, Then};
use crate::strip::strip;

/// One script's engine and limits.
pub(crate) struct Session {
    engine: Engine,
    limits: Limits,
}

/// What is left to do after an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Wait for the next one.
    Wait,
    /// Nothing: the script has ended, or was ended.
    End,
}

impl Session {
    /// A session whose engine is made already.
    pub(crate) fn new(limits: Limits) -> Result<Self, ScriptFault> {
        Ok(Self { engine: Engine::new(&limits)?, limits })
    }

    /// Does what it is told, and says how it went, piece by piece.
    pub(crate) fn obey(&mut self, order: Order) -> (Vec<Reply>, After) {
        let done = match order {
            Order::Strip { source } => self.strip(&source).map(|stripped| vec![Reply::Stripped(stripped)]),
            Order::Start { stripped, seed, now } => {
                self.start(&Program { stripped, seed, now }).and_then(|turn| self.told(turn))
            }
            Order::Deliver { completions } => {
                let completions: Vec<Completion> = completions.into_iter().map(|wire| wire.0).collect();
                self.deliver(&completions).and_then(|turn| self.told(turn))
            }
        };
        match done {
            Ok(replies) => {
                let ended =
                    replies.iter().any(|reply| matches!(reply, Reply::Part(Part { end: Some(_), .. })));
                (replies, if ended { After::End } else { After::Wait })
            }
            Err(fault) => (vec![Reply::Fault(fault)], After::End),
        }
    }

    /// Strips the types of a source.
    pub(crate) fn strip(&self, source: &str) -> Result<Stripped, ScriptFault> {
        strip(source, &self.limits)
    }

    /// Starts the script.
    pub(crate) fn start(&mut self, program: &Program) -> Result<Turn, ScriptFault> {
        self.engine.start(program)
    }

    /// Gives the script what it waits for.
    pub(crate) fn deliver(&mut self, completions: &[Completion]) -> Result<Turn, ScriptFault> {
        self.engine.deliver(completions)
    }

    /// What a turn asks for lies in memory too; more than the script may take does not leave this process.
    fn told(&self, turn: Turn) -> Result<Vec<Reply>, ScriptFault> {
        if message::turn_bytes(&turn) > self.limits.memory_bytes {
            return Err(out_of_memory(&self.limits));
        }
        let parts = message::parts(turn);
        debug_assert!(parts.last().is_some_and(|part| part.then == Then::Nothing));
        Ok(parts.into_iter().map(Reply::Part).collect())
    }
}

/// The fault of a script that took more memory than it may.
pub(crate) fn out_of_memory(limits: &Limits) -> ScriptFault {
    ScriptFault::OutOfMemory { bound_mib: u64::try_from(limits.memory_bytes >> 20).unwrap_or(u64::MAX) }
}

/// The fault of a script that computed longer than it may.
pub(crate) fn cpu_limit(limits: &Limits) -> ScriptFault {
    ScriptFault::CpuLimit { bound_ms: u64::try_from(limits.cpu.as_millis()).unwrap_or(u64::MAX) }
}
