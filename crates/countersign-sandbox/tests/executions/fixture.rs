//! The one fixture: a world of the testkit with a real engine in it, driven in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use countersign_core::event::{Event, EventBody};
use countersign_kernel::ports::{
    Completion, ElicitationRow, Program, ScriptFault, ScriptHost, Stripped, Turn, Vm,
};
use countersign_kernel::{Answer, ExecutionResult, Gateway};
use countersign_sandbox::{InProcessHost, Limits};
use countersign_testkit::world::{InTests as _, World};

/// An engine whose turns take no virtual time: while it runs, nothing else does, so that a test's clock stands still.
pub(crate) struct Inline(InProcessHost);

struct InlineVm(Box<dyn Vm>);

#[async_trait]
impl ScriptHost for Inline {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        Ok(Box::new(InlineVm(pollster::block_on(self.0.open())?)))
    }
}

#[async_trait]
impl Vm for InlineVm {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        pollster::block_on(self.0.strip(source))
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        pollster::block_on(self.0.start(program))
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        pollster::block_on(self.0.deliver(completions))
    }
}

/// An engine whose VMs die when they are given something, for a number of times.
pub(crate) struct Fragile {
    inner: Inline,
    deaths: Arc<AtomicU32>,
}

struct FragileVm(Box<dyn Vm>, Arc<AtomicU32>);

impl Fragile {
    pub(crate) fn dying(times: u32) -> Arc<dyn ScriptHost> {
        let inner = Inline(InProcessHost::new(Limits::default()));
        Arc::new(Self { inner, deaths: Arc::new(AtomicU32::new(times)) })
    }
}

#[async_trait]
impl ScriptHost for Fragile {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        Ok(Box::new(FragileVm(self.inner.open().await?, Arc::clone(&self.deaths))))
    }
}

#[async_trait]
impl Vm for FragileVm {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        self.0.strip(source).await
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        self.0.start(program).await
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        let spend = |left: u32| left.checked_sub(1);
        if self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend).is_ok() {
            return Err(ScriptFault::Crashed { cause: "the test wanted it".into() });
        }
        self.0.deliver(completions).await
    }
}

/// Where the tests' scripts run.
pub(crate) fn host() -> Arc<dyn ScriptHost> {
    Arc::new(Inline(InProcessHost::new(Limits::default())))
}

/// A world in which scripts run.
pub(crate) fn world(seed: u64) -> World {
    World::new(seed).with_scripts(host())
}

/// Runs a script, has Ann answer every question the same, and waits for the end.
pub(crate) async fn through(gateway: &Gateway, source: &str, answer: &Answer) -> ExecutionResult {
    let mut result = gateway.runs(source).await;
    while result.paused().is_some() {
        for pending in result.pending.clone() {
            let target = countersign_kernel::Target::Elicitation(pending.elicitation.id);
            let says =
                countersign_testkit::world::says(countersign_testkit::world::ann(), target, answer.clone());
            gateway.decide(says).await.unwrap();
        }
        let waited = gateway.wait(result.execution, countersign_kernel::Patience::UntilPaused).await;
        result = waited.unwrap().unwrap();
    }
    result
}

/// Questions in the order of their calls: those of one moment come in no order of their own.
pub(crate) fn by_call(mut open: Vec<ElicitationRow>) -> Vec<ElicitationRow> {
    open.sort_by_key(|row| row.elicitation.call);
    open
}

/// The numbers of the calls that were let run, in order.
pub(crate) fn started(journal: &[Event]) -> Vec<u32> {
    let started = journal.iter().filter_map(|event| match &event.body {
        EventBody::CallStarted { call, .. } => Some(call.0),
        _ => None,
    });
    started.collect()
}
