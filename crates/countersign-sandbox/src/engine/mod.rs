//! The VM: one script's world.

use countersign_kernel::ports::{Completion, Program, ScriptFault, Turn};

use crate::limits::Limits;

/// One script's world.
pub(crate) struct Engine;

impl Engine {
    /// A fresh world, in which nothing runs yet: it can be made ahead of its script.
    pub(crate) fn new(limits: &Limits) -> Result<Self, ScriptFault> {
        let _ = limits;
        Ok(Self)
    }

    /// Starts the script and lets it run until it can only wait.
    pub(crate) fn start(&mut self, program: &Program) -> Result<Turn, ScriptFault> {
        let _ = program;
        Err(ScriptFault::Crashed { cause: "not built yet".to_owned() })
    }

    /// Gives the script what it waits for, one by one, and lets it run until it can only wait.
    pub(crate) fn deliver(&mut self, completions: &[Completion]) -> Result<Turn, ScriptFault> {
        let _ = completions;
        Err(ScriptFault::Crashed { cause: "not built yet".to_owned() })
    }
}
