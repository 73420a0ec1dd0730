//! Crash-everywhere: a scenario is run once for every journal append and every effect, and killed there.
//!
//! The process is a tokio runtime of its own; killing it is dropping it. The disk, the clock, the ledger and the history
//! survive. Then another process takes up what is left, possibly to be killed in its recovery too, and a last one brings
//! everything to rest before the rules are checked.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::Settlement;
use countersign_core::execution::{Execution, Phase, Status};
use countersign_core::ids::{CallNo, ExecutionId};
use countersign_kernel::ports::{ElicitationFilter, ElicitationRow, ExecutionFilter, Page, ScriptHost};
use countersign_kernel::{Answer, Decide, Gateway, Patience, RunRequest, Target};
use serde_json::Value;

use crate::faulty_store::{Fault, Faults, FaultyStore};
use crate::history::History;
use crate::invariants::{Moment, violations};
use crate::ledger::CrashAt;
use crate::world::{World, agent, ann, request, script, session};

/// Something an agent and a person do together.
pub struct Scenario {
    /// The agent's calls, all at once.
    pub calls: Vec<(&'static str, Value)>,
    /// The agent's scripts, at the same time as its calls.
    pub scripts: Vec<&'static str>,
    /// Where scripts run.
    pub host: Option<Arc<dyn ScriptHost>>,
    /// The person's answer; with none the question expires.
    pub person: fn(&ElicitationRow) -> Option<Answer>,
    /// How many effects there are when nothing crashes.
    pub effects: usize,
    /// The rules of every process after the first one; those of the first if none.
    pub later_rules: Option<&'static str>,
}

impl Default for Scenario {
    /// No calls and no answers.
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            scripts: Vec::new(),
            host: None,
            person: |_| None,
            effects: 0,
            later_rules: None,
        }
    }
}

/// The result of crash-everywhere.
#[derive(Debug, Default)]
pub struct Report {
    /// How many times the scenario was run.
    pub runs: usize,
    /// How many of the runs left a call in doubt.
    pub doubts: usize,
    /// The violations, each with the place of the crash.
    pub violations: Vec<String>,
}

impl Report {
    /// Fails the test that found something, or that crashed nowhere that matters.
    #[must_use]
    pub fn checked(self) -> Self {
        println!("{} runs, {} left a doubt", self.runs, self.doubts);
        let found: Vec<_> = self.violations.iter().take(10).collect();
        assert!(found.is_empty(), "{} violations, the first: {found:#?}", self.violations.len());
        assert!(self.runs > 10, "the scenario was crashed at few places: {}", self.runs);
        self
    }
}

/// Where the processes of a run die.
#[derive(Debug, Clone, Copy)]
struct Deaths {
    first: Death,
    recovery: Option<(u64, Fault)>,
}

#[derive(Debug, Clone, Copy)]
enum Death {
    None,
    AtCommit(u64, Fault),
    AtEffect(CrashAt),
}

/// Runs a scenario with a crash at every place there is.
pub fn everywhere(scenario: &Scenario) -> Report {
    let mut report = Report::default();
    let (commits, _) = run(scenario, Deaths { first: Death::None, recovery: None }, &mut report);
    let mut deaths = Vec::new();
    for n in 1..=commits {
        deaths.extend([Death::AtCommit(n, Fault::CrashBefore), Death::AtCommit(n, Fault::CrashAfter)]);
        deaths.extend([Death::AtCommit(n, Fault::Refuse), Death::AtCommit(n, Fault::LoseAnswer)]);
    }
    for n in 0..scenario.effects as u64 {
        deaths.extend([Death::AtEffect(CrashAt::BeforeEffect(n)), Death::AtEffect(CrashAt::AfterEffect(n))]);
    }
    for first in deaths {
        let (_, recovery_commits) = run(scenario, Deaths { first, recovery: None }, &mut report);
        for n in 1..=recovery_commits {
            for fault in [Fault::CrashBefore, Fault::CrashAfter] {
                run(scenario, Deaths { first, recovery: Some((n, fault)) }, &mut report);
            }
        }
    }
    report
}

/// One run: how many commits its first and its second process made.
fn run(scenario: &Scenario, deaths: Deaths, report: &mut Report) -> (u64, u64) {
    let mut world = World::new(7);
    world.scripts.clone_from(&scenario.host);
    world.settings.expires = Duration::from_secs(60);
    world.settings.park_after = Duration::from_millis(200);
    let history = History::default();
    let first = match deaths.first {
        Death::AtCommit(n, fault) => Faults::at(n, fault),
        Death::None | Death::AtEffect(_) => Faults::none(),
    };
    if let Death::AtEffect(at) = deaths.first {
        world.ledger.crash_at(at);
    }
    process(&world, &history, scenario, &first);
    world.clock.pass(1_000);
    if let Some(rules) = scenario.later_rules {
        world = world.under(rules);
    }
    let second = match deaths.recovery {
        Some((n, fault)) => Faults::at(n, fault),
        None => Faults::none(),
    };
    process(&world, &history, scenario, &second);
    world.clock.pass(1_000);
    let found = bring_to_rest(&world, &history, scenario, report);
    report.violations.extend(found.into_iter().map(|v| format!("{deaths:?}: {v}")));
    report.runs += 1;
    (first.commits(), second.commits())
}

/// One process: the agent calls under keys of its own, so that calling again is the same call; the person answers.
fn process(world: &World, history: &History, scenario: &Scenario, faults: &Faults) {
    in_a_process(async {
        let store = Arc::new(FaultyStore::new(Arc::new(world.disk.clone()), faults.clone()));
        let life = async {
            let Ok(gateway) = world.builder(store).start().await else { return };
            if gateway.open_session(&agent(), "test", Some(session())).await.is_err() {
                return;
            }
            agent_calls(&gateway, history, scenario).await;
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(500)).await;
                person_answers(&gateway, history, scenario).await;
            }
            tokio::time::sleep(Duration::from_secs(70)).await;
        };
        tokio::select! {
            biased;
            () = life => {}
            () = faults.until_crashed() => {}
            () = world.ledger.crashed() => {}
        }
        world.clock.end_life();
    });
}

fn bring_to_rest(world: &World, history: &History, scenario: &Scenario, report: &mut Report) -> Vec<String> {
    in_a_process(async {
        let gateway = world.start().await;
        agent_calls(&gateway, history, scenario).await;
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            person_answers(&gateway, history, scenario).await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        let doubts = settle_doubts(&gateway).await;
        report.doubts += usize::from(doubts > 0);
        for _ in 0..5 {
            // A script goes on from a settled doubt, and may ask again.
            tokio::time::sleep(Duration::from_secs(2)).await;
            person_answers(&gateway, history, scenario).await;
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        let mut found = violations(&world.disk, &world.ledger, history, Moment::AtRest).await;
        let effects = world.ledger.effects().len();
        if doubts == 0 && effects < scenario.effects {
            found.push(format!(
                "lost: {effects} of {} effects, and no doubt to account for it",
                scenario.effects
            ));
        }
        found
    })
}

async fn agent_calls(gateway: &Gateway, history: &History, scenario: &Scenario) {
    let calls = scenario.calls.iter().enumerate().map(|(n, (path, args))| async move {
        let mut call = request(path, args.clone());
        call.key = Some(format!("call-{n}"));
        call.patience = Patience::UntilPaused;
        if let Ok(result) = gateway.call(call).await {
            history.told(&result);
        }
    });
    let scripts = scenario.scripts.iter().enumerate().map(|(n, source)| async move {
        let run = RunRequest { key: Some(format!("script-{n}")), ..script(source) };
        if let Ok(result) = gateway.run(run).await {
            history.told(&result);
        }
    });
    futures_util::future::join(
        futures_util::future::join_all(calls),
        futures_util::future::join_all(scripts),
    )
    .await;
}

async fn person_answers(gateway: &Gateway, history: &History, scenario: &Scenario) {
    let open = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
    let Ok(rows) = gateway.elicitations(open, Page::first(100)).await else { return };
    for row in &rows.items {
        let Some(answer) = (scenario.person)(row) else { continue };
        let target = Target::Elicitation(row.elicitation.id);
        if let Ok(receipt) =
            gateway.decide(Decide { target, by: ann(), channel: "test".into(), answer, comment: None }).await
        {
            history.decided(&receipt);
        }
    }
}

async fn settle_doubts(gateway: &Gateway) -> usize {
    let in_doubt = ExecutionFilter { status: vec![Status::InDoubt], ..ExecutionFilter::default() };
    let Ok(rows) = gateway.executions(in_doubt, Page::first(100)).await else { return 0 };
    for row in &rows.items {
        for call in calls_in_doubt(gateway, row.id).await {
            let failed = Settlement::Failed { message: "settled by the test".into() };
            // A call that cannot be settled shows as a violation of R9 right after.
            let _ = gateway.settle(row.id, call, failed, &ann()).await;
        }
    }
    rows.items.len()
}

pub(crate) async fn calls_in_doubt(gateway: &Gateway, id: ExecutionId) -> Vec<CallNo> {
    let journal = gateway.journal(id).await.unwrap_or_default();
    let Ok(execution) = Execution::replay(&journal) else { return Vec::new() };
    let doubts = execution.unsettled().filter(|call| matches!(call.phase(), Phase::InDoubt(_)));
    doubts.map(|call| call.no).collect()
}

/// A runtime of its own: dropping it is the death of the process, at whatever await its tasks are.
pub(crate) fn in_a_process<T>(life: impl Future<Output = T>) -> T {
    #[expect(clippy::expect_used, reason = "without a runtime there is no test")]
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(life)
}
