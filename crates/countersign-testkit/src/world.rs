//! The one fixture of kernel tests: a disk that outlives processes, a clock, a ledger, people, and gateways on top.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::policy::Policy;
use countersign_kernel::ports::{ElicitationFilter, ElicitationRow, Page, ScriptHost, Store};
use countersign_kernel::{
    Answer, CallError, CallRequest, Caller, Decide, DecideError, ExecutionResult, Gateway, GatewayBuilder,
    Patience, Receipt, RunRequest, Settings, Target,
};
use countersign_sdk::{Principal, Remember, SessionId};
use serde_json::Value;

use crate::chance::SeededEntropy;
use crate::clock::TestClock;
use crate::crash::in_a_process;
use crate::faulty_store::{Faults, FaultyStore};
use crate::lab;
use crate::ledger::Ledger;
use crate::memory_store::MemoryStore;

/// A test's world. Clones are one world.
#[derive(Clone)]
pub struct World {
    /// The disk, which survives a crash.
    pub disk: MemoryStore,
    /// The clock of all gateways.
    pub clock: TestClock,
    /// The effects so far.
    pub ledger: Ledger,
    /// The settings of gateways.
    pub settings: Settings,
    /// The policy of gateways.
    pub policy: Policy,
    /// Where scripts run; nowhere, unless a test says so.
    pub scripts: Option<Arc<dyn ScriptHost>>,
    seed: u64,
}

impl World {
    /// A fresh world.
    pub fn new(seed: u64) -> Self {
        Self {
            disk: MemoryStore::default(),
            clock: TestClock::default(),
            ledger: Ledger::default(),
            // The seeds' way, which most scenarios are about; the product's default is one call.
            settings: Settings { remember: Remember::Session, ..Settings::default() },
            policy: Policy::default(),
            scripts: None,
            seed,
        }
    }

    /// The world under rules, written as in `countersign.toml`.
    #[must_use]
    #[expect(clippy::panic, reason = "a test whose rules do not load is a failed test")]
    pub fn under(mut self, rules: &str) -> Self {
        self.policy = Policy::from_toml(rules).unwrap_or_else(|errors| panic!("{errors}"));
        self
    }

    /// The world with other settings.
    #[must_use]
    pub fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// The world with a place for scripts.
    #[must_use]
    pub fn with_scripts(mut self, host: Arc<dyn ScriptHost>) -> Self {
        self.scripts = Some(host);
        self
    }

    /// One process from start to kill: a gateway in a runtime of its own, which dies when `life` returns, at whatever await
    /// its tasks are. Disk, clock and ledger survive; the next life begins a second later.
    pub fn life<T>(&self, life: impl AsyncFnOnce(Gateway) -> T) -> T {
        self.life_with(|builder| builder, life)
    }

    /// A process whose gateway is built otherwise.
    pub fn life_with<T>(
        &self,
        build: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
        life: impl AsyncFnOnce(Gateway) -> T,
    ) -> T {
        self.life_on(&Faults::none(), build, life)
    }

    /// A process whose gateway is built otherwise, on a store that follows a plan of faults.
    pub fn life_on<T>(
        &self,
        faults: &Faults,
        build: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
        life: impl AsyncFnOnce(Gateway) -> T,
    ) -> T {
        in_a_process(async {
            let store = FaultyStore::new(Arc::new(self.disk.clone()), faults.clone());
            let builder = build(self.builder(Arc::new(store)));
            let lived = life(self.start_with(builder).await).await;
            self.clock.end_life();
            self.clock.pass(1_000);
            lived
        })
    }

    /// A process that may die at any commit, also while it starts: then `life` does not begin.
    pub fn life_until_death(&self, faults: &Faults, life: impl AsyncFnOnce(Gateway)) {
        in_a_process(async {
            let store = FaultyStore::new(Arc::new(self.disk.clone()), faults.clone());
            if let Ok(gateway) = self.builder(Arc::new(store)).start().await
                && gateway.open_session(&agent(), "test", Some(session())).await.is_ok()
            {
                life(gateway).await;
            }
            self.clock.end_life();
            self.clock.pass(1_000);
        });
    }

    /// A process that ends between a decision and its start: the call is approved, that is on the disk, and nothing ran.
    #[expect(clippy::expect_used, reason = "a fixture whose decision is refused is a failed test")]
    pub fn life_up_to_the_start(
        &self,
        build: impl FnOnce(GatewayBuilder) -> GatewayBuilder,
        path: &str,
        args: Value,
    ) -> ExecutionResult {
        self.life_with(build, async |gateway| {
            let waiting = gateway.asks(path, args).await;
            // A gateway that is about to end takes decisions and starts nothing.
            gateway.close(Duration::from_secs(1)).await;
            gateway.ann_says(&waiting, yes()).await.expect("the decision is taken");
            waiting
        })
    }

    /// A gateway in the making, on any store, with the lab's tools.
    pub fn builder(&self, store: Arc<dyn Store>) -> GatewayBuilder {
        self.clock.begin_life();
        let builder = match &self.scripts {
            Some(host) => Gateway::on(store).scripts(Arc::clone(host)),
            None => Gateway::on(store),
        };
        builder
            .plugin(lab::plugin(&self.ledger))
            .clock(self.clock.clone())
            .entropy(SeededEntropy::new(
                self.seed ^ countersign_kernel::ports::Clock::now(&self.clock).as_millis(),
            ))
            .settings(self.settings.clone())
            .policy(self.policy.clone())
    }

    /// A running gateway on the world's disk, with the agent's session open.
    pub async fn start(&self) -> Gateway {
        self.start_with(self.builder(Arc::new(self.disk.clone()))).await
    }

    /// A running gateway from a builder, with the agent's session open.
    #[expect(clippy::expect_used, reason = "a fixture that cannot start is a failed test")]
    pub async fn start_with(&self, builder: GatewayBuilder) -> Gateway {
        let gateway = builder.start().await.expect("the gateway starts");
        gateway.open_session(&agent(), "test", Some(session())).await.expect("the session opens");
        gateway
    }
}

/// The agent that calls.
#[expect(clippy::expect_used, reason = "constant input")]
pub fn agent() -> Caller {
    Principal::agent("agent-1").expect("a good id").into()
}

/// A person who may decide.
#[expect(clippy::expect_used, reason = "constant input")]
pub fn ann() -> Caller {
    Principal::approver("ann").expect("a good id").into()
}

/// Another person who may decide.
#[expect(clippy::expect_used, reason = "constant input")]
pub fn bob() -> Caller {
    Principal::approver("bob").expect("a good id").into()
}

/// A person who may do everything.
#[expect(clippy::expect_used, reason = "constant input")]
pub fn admin() -> Caller {
    Principal::admin("root").expect("a good id").into()
}

/// A service account.
#[expect(clippy::expect_used, reason = "constant input")]
pub fn service() -> Caller {
    Principal::service("cron").expect("a good id").into()
}

/// The agent's session.
#[expect(clippy::expect_used, reason = "constant input")]
pub fn session() -> SessionId {
    SessionId::parse("ses_test").expect("a good id")
}

/// A call by the agent that returns when it pauses or ends.
pub fn request(path: &str, args: Value) -> CallRequest {
    CallRequest {
        path: path.into(),
        args,
        caller: agent(),
        session: session(),
        key: None,
        patience: Patience::UntilPaused,
    }
}

/// A script of the agent that returns when it pauses or ends.
pub fn script(source: &str) -> RunRequest {
    RunRequest {
        source: source.into(),
        caller: agent(),
        session: session(),
        key: None,
        patience: Patience::UntilPaused,
    }
}

/// Yes, for as long as the question says.
pub fn yes() -> Answer {
    Answer::Approve { covers: None, data: None }
}

/// Yes, with the fields of a form.
pub fn fill(data: Value) -> Answer {
    Answer::Approve { covers: None, data: Some(data) }
}

/// A decision on its way, through the channel `test`.
pub fn says(by: Caller, target: Target, answer: Answer) -> Decide {
    Decide { target, by, channel: "test".into(), answer, comment: None }
}

/// Shorthands of tests for a gateway.
pub trait InTests {
    /// Calls as the agent, until it pauses or ends.
    fn ask(&self, path: &str, args: Value)
    -> impl Future<Output = Result<ExecutionResult, CallError>> + Send;
    /// Runs a script as the agent, until it pauses or ends.
    fn runs(&self, source: &str) -> impl Future<Output = ExecutionResult> + Send;
    /// Calls as the agent what must come to wait for a person.
    fn asks(&self, path: &str, args: Value) -> impl Future<Output = ExecutionResult> + Send;
    /// Decides as Ann what the execution waits for.
    fn ann_says(
        &self,
        waiting: &ExecutionResult,
        answer: Answer,
    ) -> impl Future<Output = Result<Receipt, DecideError>> + Send;
    /// Waits for the end.
    fn end_of(&self, execution: &ExecutionResult) -> impl Future<Output = ExecutionResult> + Send;
    /// Calls as the agent, has Ann say yes to what is asked, and waits for the end.
    fn approved(&self, path: &str, args: Value) -> impl Future<Output = ExecutionResult> + Send;
    /// The open questions, oldest first.
    fn open(&self) -> impl Future<Output = Vec<ElicitationRow>> + Send;
    /// The names of an execution's journal events, in order.
    fn story(&self, execution: &ExecutionResult) -> impl Future<Output = Vec<&'static str>> + Send;
}

impl InTests for Gateway {
    async fn ask(&self, path: &str, args: Value) -> Result<ExecutionResult, CallError> {
        self.call(request(path, args)).await
    }

    #[expect(clippy::expect_used, reason = "a fixture whose script is refused is a failed test")]
    async fn runs(&self, source: &str) -> ExecutionResult {
        self.run(script(source)).await.expect("the script is accepted")
    }

    #[expect(clippy::expect_used, reason = "a fixture whose call is refused is a failed test")]
    async fn asks(&self, path: &str, args: Value) -> ExecutionResult {
        let waiting = self.ask(path, args).await.expect("the call is accepted");
        assert!(waiting.paused().is_some(), "{path} asks");
        waiting
    }

    async fn ann_says(&self, waiting: &ExecutionResult, answer: Answer) -> Result<Receipt, DecideError> {
        self.decide(says(ann(), Target::Execution(waiting.execution), answer)).await
    }

    #[expect(clippy::expect_used, reason = "a fixture that finds nothing is a failed test")]
    async fn end_of(&self, execution: &ExecutionResult) -> ExecutionResult {
        let result = self.wait(execution.execution, Patience::Unlimited).await;
        result.expect("the store answers").expect("the execution is there")
    }

    #[expect(clippy::expect_used, reason = "a fixture whose call is refused is a failed test")]
    async fn approved(&self, path: &str, args: Value) -> ExecutionResult {
        let waiting = self.ask(path, args).await.expect("the call is accepted");
        if waiting.paused().is_some() {
            self.ann_says(&waiting, yes()).await.expect("the decision is taken");
        }
        self.end_of(&waiting).await
    }

    #[expect(clippy::expect_used, reason = "a fixture that cannot read is a failed test")]
    async fn open(&self) -> Vec<ElicitationRow> {
        let filter = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        self.elicitations(filter, Page::first(1_000)).await.expect("the store answers").items
    }

    #[expect(clippy::expect_used, reason = "a fixture that cannot read is a failed test")]
    async fn story(&self, execution: &ExecutionResult) -> Vec<&'static str> {
        let journal = self.journal(execution.execution).await.expect("the store answers");
        journal.iter().map(|event| event.body.name()).collect()
    }
}
