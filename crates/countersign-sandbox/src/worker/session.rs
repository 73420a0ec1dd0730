//! One script, order by order: the part that a child and the in-process host share.

use countersign_kernel::ports::ScriptFault;

use crate::engine::Engine;
use crate::limits::Limits;
use crate::message::{Answer, Order};
use crate::strip::strip;

/// One script's engine and limits.
pub(crate) struct Session {
    engine: Engine,
    limits: Limits,
}

impl Session {
    /// A session whose engine is made already.
    pub(crate) fn new(limits: Limits) -> Result<Self, ScriptFault> {
        Ok(Self { engine: Engine::new(&limits)?, limits })
    }

    pub(crate) fn execute(&mut self, order: Order) -> Result<Answer, ScriptFault> {
        match order {
            Order::Strip { source } => strip(&source, &self.limits).map(Answer::Stripped),
            Order::Start(program) => self.engine.start(&program).map(Answer::Turn),
            Order::Deliver { completions } => self.engine.deliver(&completions).map(Answer::Turn),
        }
    }
}
