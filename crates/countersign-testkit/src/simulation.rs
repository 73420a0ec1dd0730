//! Seeded simulation: gateways, people, a faulty disk and a jumping clock, in virtual time.
//!
//! One seed is one schedule. A schedule is a few processes in a row on one disk; in each, an agent calls, people decide,
//! cancel and settle at random, the store fails or the process dies at random, and the clock jumps. At the end the
//! faults stop, all open questions are decided, and the rules are checked. A failure names its seed.
//!
//! A [`Feature`] adds one kind of trouble. Each has a random sequence of its own, so that what a seed does without features does
//! not change when one is added.

mod moves;

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::Settlement;
use countersign_core::execution::Status;
use countersign_kernel::Gateway;
use countersign_kernel::ports::{Clock as _, ElicitationFilter, ExecutionFilter, Page};

use crate::chance::Chance;
use crate::crash::in_a_process;
use crate::faulty_store::{Fault, Faults, FaultyStore};
use crate::history::History;
use crate::invariants::{Moment, violations};
use crate::lab::awkward;
use crate::ledger::CrashAt;
use crate::line_scripts::LineScripts;
use crate::world::{World, agent, session};
use moves::{answer_everything, make_a_featured_move, make_a_move, settle_everything};

/// How much happens in one process.
const MOVES_PER_LIFE: u64 = 24;
/// No schedule takes this long unless something waits for what never comes.
const LONGEST_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many processes a schedule has before the last, quiet one.
const MAX_LIVES: u64 = 3;
/// The most processes that handlers may bring down before the gateway must have given up on them.
const MOST_DEATHS: usize = 60;
/// After this long without faults, all executions have gone on as far as they can.
const HEALING: Duration = Duration::from_secs(120);

/// A kind of trouble that a schedule may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// The store's reads fail, too.
    FailingReads,
    /// The store fails in the last process as well, and then heals. Nothing restarts after that.
    FaultyLastLife,
    /// Scripts with several calls, and their cancels.
    Scripts,
    /// The same keys again and again, in every process.
    Keys,
    /// In the last process no question is answered: all expire.
    Expiry,
    /// Processes die right after an effect, and doubts are settled by running the call again.
    Retries,
    /// Handlers that act before they ask.
    AskingAfterActing,
    /// Handlers that bring the process down.
    FatalHandlers,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::FailingReads,
        Self::FaultyLastLife,
        Self::Scripts,
        Self::Keys,
        Self::Expiry,
        Self::Retries,
        Self::AskingAfterActing,
        Self::FatalHandlers,
    ];
}

/// Runs one schedule without features; the violations it found, empty where all is well.
pub fn run(seed: u64) -> Vec<String> {
    run_with(seed, &[])
}

/// Runs one schedule with features.
pub fn run_with(seed: u64, features: &[Feature]) -> Vec<String> {
    Schedule::new(seed, features).run()
}

/// The disk that a schedule left, as text: the same for the same seed.
pub fn trace(seed: u64) -> String {
    trace_with(seed, &[])
}

/// The same for a schedule with features.
pub fn trace_with(seed: u64, features: &[Feature]) -> String {
    let mut schedule = Schedule::new(seed, features);
    schedule.run();
    in_a_process(async { crate::invariants::dump(&schedule.world.disk).await })
}

struct Schedule<'a> {
    world: World,
    history: History,
    chance: Chance,
    /// The random numbers of the features.
    extra: Chance,
    features: &'a [Feature],
    /// Doubts were settled by a retry once; a handler that brings the process down would do so for ever.
    retried: bool,
    /// Calls were made in the last process. Where handlers bring it down, the next one makes no more: each could be another that
    /// does (seed 13 with all features).
    made_last_moves: bool,
}

impl<'a> Schedule<'a> {
    fn new(seed: u64, features: &'a [Feature]) -> Self {
        let mut chance = Chance::new(seed);
        let mut world = World::new(seed);
        world.settings.park_after = Duration::from_millis(50 + chance.below(2_000));
        world.settings.expires = Duration::from_millis(500 + chance.below(20_000));
        let schedule = Self {
            world,
            history: History::default(),
            chance,
            extra: Chance::new(!seed),
            features,
            retried: false,
            made_last_moves: false,
        };
        match schedule.has(Feature::Scripts) {
            true => Self { world: schedule.world.with_scripts(Arc::new(LineScripts)), ..schedule },
            false => schedule,
        }
    }

    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    fn run(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let lives = 1 + self.chance.below(MAX_LIVES);
        for _ in 0..lives {
            let faults = self.any_faults();
            self.plan_a_crash_at_an_effect();
            found.extend(self.life(&faults));
            let pause = self.chance.below(3_000);
            self.world.clock.pass(pause);
        }
        found.extend(self.last_lives());
        found
    }

    fn any_faults(&mut self) -> Faults {
        let chance = &mut self.chance;
        let mut faults = Faults::none().yielding_at_random(3, chance.draw());
        if chance.one_in(2) {
            let fault = if chance.one_in(2) { Fault::CrashBefore } else { Fault::CrashAfter };
            faults = faults.and_at(1 + chance.below(40), fault);
        }
        if chance.one_in(2) {
            faults = faults.failing_one_in(4 + chance.below(20), chance.draw());
        }
        self.with_failing_reads(faults)
    }

    fn with_failing_reads(&mut self, faults: Faults) -> Faults {
        match self.has(Feature::FailingReads) {
            true => faults.failing_reads_one_in(3 + self.extra.below(20), self.extra.draw()),
            false => faults,
        }
    }

    /// A crash right after an effect is what leaves a doubt; without it, retries would be rare.
    fn plan_a_crash_at_an_effect(&mut self) {
        if self.has(Feature::Retries) && self.extra.one_in(2) {
            let nth = self.world.ledger.begun() + self.extra.below(6);
            self.world.ledger.crash_at(CrashAt::AfterEffect(nth));
        }
    }

    /// One process, until it is done or dies.
    fn life(&mut self, faults: &Faults) -> Option<String> {
        let ledger = self.world.ledger.clone();
        in_a_process(async {
            let moves = async {
                if let Ok(gateway) = self.started(faults).await {
                    self.make_moves(&gateway, MOVES_PER_LIFE).await;
                }
            };
            let hung = tokio::select! {
                biased;
                () = moves => None,
                () = faults.until_crashed() => None,
                () = ledger.crashed() => None,
                () = tokio::time::sleep(LONGEST_LIFE) => Some("liveness: a process hung".to_owned()),
            };
            self.world.clock.end_life();
            hung
        })
    }

    async fn started(&self, faults: &Faults) -> Result<Gateway, NotStarted> {
        let store = Arc::new(FaultyStore::new(Arc::new(self.world.disk.clone()), faults.clone()));
        let mut builder = self.world.builder(store);
        if self.has(Feature::AskingAfterActing) || self.has(Feature::FatalHandlers) {
            builder = builder.plugin(awkward::plugin(&self.world.ledger));
        }
        let gateway = builder.start().await.map_err(|_| NotStarted)?;
        gateway.open_session(&agent(), "sim", Some(session())).await.map_err(|_| NotStarted)?;
        Ok(gateway)
    }

    async fn make_moves(&mut self, gateway: &Gateway, count: u64) {
        for _ in 0..count {
            make_a_move(gateway, &self.world, &self.history, &mut self.chance).await;
            if let Some(feature) = self.extra.pick(self.features).copied() {
                make_a_featured_move(feature, gateway, &self.history, &mut self.extra).await;
            }
        }
    }

    /// The last process, and as many more as handlers bring down.
    fn last_lives(&mut self) -> Vec<String> {
        for _ in 0..MOST_DEATHS {
            if let Some(found) = self.last_life() {
                return found;
            }
            self.world.clock.pass(1_000);
        }
        vec![format!(
            "liveness: handlers brought down {MOST_DEATHS} processes and were entered again each time"
        )]
    }

    /// A process in which the faults stop and everybody decides what is left; then the rules must hold. Nothing where a handler
    /// brought it down.
    fn last_life(&mut self) -> Option<Vec<String>> {
        let ledger = self.world.ledger.clone();
        in_a_process(async {
            let ended = tokio::select! {
                biased;
                found = self.come_to_rest() => Some(found),
                () = ledger.crashed() => None,
                () = tokio::time::sleep(LONGEST_LIFE) => Some(vec!["liveness: the last process hung".to_owned()]),
            };
            self.world.clock.end_life();
            ended
        })
    }

    async fn come_to_rest(&mut self) -> Vec<String> {
        let faults = self.last_faults();
        let Some(gateway) = self.started_at_last(&faults).await else {
            return vec!["liveness: the last process does not start".to_owned()];
        };
        let mut found = Vec::new();
        if self.has(Feature::FaultyLastLife) {
            if !self.made_last_moves {
                self.made_last_moves = true;
                self.make_moves(&gateway, MOVES_PER_LIFE / 2).await;
            }
            faults.heal();
            tokio::time::sleep(HEALING).await;
            found.extend(self.stuck(&gateway).await);
        }
        if self.has(Feature::Expiry) {
            tokio::time::sleep(self.world.settings.expires + HEALING).await;
            found.extend(still_open(&gateway).await);
        } else {
            self.answer_until_nothing_is_open(&gateway).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if self.has(Feature::Retries) && !self.retried {
            self.retried = true;
            settle_everything(&gateway, &Settlement::Retry).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        // A script goes on from a settled doubt, and may ask or be in doubt again.
        for _ in 0..3 {
            settle_everything(&gateway, &Settlement::Failed { message: "looked: it did not happen".into() })
                .await;
            self.answer_until_nothing_is_open(&gateway).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        found.extend(still_open(&gateway).await);
        found.extend(violations(&self.world.disk, &self.world.ledger, &self.history, Moment::AtRest).await);
        found
    }

    fn last_faults(&mut self) -> Faults {
        match self.has(Feature::FaultyLastLife) {
            true => {
                let faults = Faults::none().yielding_at_random(3, self.extra.draw());
                let faults = faults.failing_one_in(3 + self.extra.below(8), self.extra.draw());
                self.with_failing_reads(faults)
            }
            false => Faults::none(),
        }
    }

    /// A gateway that cannot start says so and is started again; that is no restart.
    async fn started_at_last(&self, faults: &Faults) -> Option<Gateway> {
        for _ in 0..100 {
            if let Ok(gateway) = self.started(faults).await {
                return Some(gateway);
            }
        }
        None
    }

    async fn answer_until_nothing_is_open(&mut self, gateway: &Gateway) {
        for _ in 0..20 {
            if !answer_everything(gateway, &self.history, &mut self.chance).await {
                break;
            }
        }
    }

    /// Executions that should have gone on by themselves once the store worked again.
    async fn stuck(&self, gateway: &Gateway) -> Vec<String> {
        let mut found = Vec::new();
        let running = ExecutionFilter { status: vec![Status::Running], ..ExecutionFilter::default() };
        if let Ok(rows) = gateway.executions(running, Page::first(100)).await {
            found.extend(rows.items.iter().map(|row| {
                format!(
                    "R9: {}: the store works again, and it neither ended, nor waits, nor is in doubt",
                    row.id
                )
            }));
        }
        let open = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
        if let Ok(rows) = gateway.elicitations(open, Page::first(100)).await {
            let now = self.world.clock.now();
            let overdue = rows.items.iter().filter(|row| row.elicitation.expires_at.after(HEALING / 2) < now);
            found.extend(
                overdue.map(|row| format!("R7: {} is overdue and did not expire", row.elicitation.id)),
            );
        }
        found
    }
}

/// The store failed too early.
struct NotStarted;

async fn still_open(gateway: &Gateway) -> Vec<String> {
    let open = ElicitationFilter { open_only: true, ..ElicitationFilter::default() };
    let Ok(rows) = gateway.elicitations(open, Page::first(10)).await else { return Vec::new() };
    rows.items.iter().map(|row| format!("liveness: {} is still open", row.elicitation.id)).collect()
}
