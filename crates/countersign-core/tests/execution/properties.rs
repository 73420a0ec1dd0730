//! What holds in every history: random ones, mostly legal, with crooked events, jumping clocks and crashes in between.

use std::collections::BTreeMap;

use countersign_core::commit::{Commit, StoredCommit};
use countersign_core::event::{CallOutcome, Event, EventBody, Kind, Settlement};
use countersign_core::execution::{ApplyError, Execution, Next, Phase, Status, Terms};
use countersign_core::time::Timestamp;
use countersign_sdk::Effects;
use proptest::prelude::{Just, ProptestConfig, Strategy, TestCaseError, any, prop, prop_oneof};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use proptest::{prop_assert, prop_assert_eq, proptest};

use crate::ledger::Ledger;
use crate::offers::{Offer, crooked, fitting};
use crate::sample::{
    CALL, DELETES, OVERWRITES, READS, REFRESHES, decided, fingerprint, issued, ms, policy_version, started,
    withdrawal,
};

/// One turn of a history: what to pick, and how the clock moves before it.
#[derive(Debug, Clone)]
struct Turn {
    pick: usize,
    mood: Mood,
    clock: i64,
}

#[derive(Debug, Clone, Copy)]
enum Mood {
    /// An event that fits the phase.
    Honest,
    /// Any event kind, fitting in itself.
    Careless,
    /// An event that is wrong in itself.
    Crooked,
    /// The process dies, and the execution is read back from its journal.
    Crash,
}

fn turn() -> impl Strategy<Value = Turn> {
    let mood = prop_oneof![
        16 => Just(Mood::Honest),
        2 => Just(Mood::Careless),
        2 => Just(Mood::Crooked),
        1 => Just(Mood::Crash),
    ];
    let clock = prop_oneof![12 => 0_i64..=3, 1 => Just(400), 1 => Just(-200), 1 => Just(1_000)];
    (any::<prop::sample::Index>(), mood, clock).prop_map(|(pick, mood, clock)| Turn {
        pick: pick.index(1_000_000),
        mood,
        clock,
    })
}

fn effects() -> impl Strategy<Value = Effects> {
    prop_oneof![4 => Just(DELETES), 1 => Just(READS), 1 => Just(OVERWRITES), 1 => Just(REFRESHES)]
}

/// A history as it unfolds, and the books kept beside it.
struct History {
    live: Execution,
    journal: Vec<Event>,
    ledger: Ledger,
    /// The wall clock, which may jump back; events come no earlier than the last all the same.
    now: Timestamp,
    permits: usize,
}

impl History {
    fn begin(kind: Kind, effects: Effects) -> Self {
        let body = [EventBody::Started(started(kind)), EventBody::CallIssued(issued(CALL, effects))];
        let journal: Vec<_> = body.map(|body| Event { at: ms(1_000), body }).into();
        let live = Execution::replay(&journal).unwrap();
        let mut ledger = Ledger::default();
        for event in &journal {
            ledger.note(event).unwrap();
        }
        Self { live, journal, ledger, now: ms(1_000), permits: 0 }
    }

    /// The time an honest kernel gives the next event.
    fn stamp(&self) -> Timestamp {
        self.now.max(self.live.latest())
    }

    fn fits(&self, offer: &Offer) -> bool {
        self.live.clone().apply(&offer.event).is_ok()
    }

    /// What this turn brings: nothing where nothing of its kind is left.
    fn choose(&self, turn: &Turn) -> Option<Offer> {
        let mut offers = match turn.mood {
            Mood::Honest => fitting(&self.live, self.stamp()),
            Mood::Careless => fitting(&self.live, self.now),
            Mood::Crooked => crooked(&self.live, self.stamp()),
            Mood::Crash => return None,
        };
        if matches!(turn.mood, Mood::Honest) {
            offers.retain(|offer| self.fits(offer));
            // Ends are rare, or no history would become long.
            if !turn.pick.is_multiple_of(12) && !offers.iter().all(ends) {
                offers.retain(|offer| !ends(offer));
            }
        }
        let index = turn.pick.checked_rem(offers.len())?;
        Some(offers.swap_remove(index))
    }

    fn take(&mut self, turn: &Turn) -> Result<(), TestCaseError> {
        self.now = ms(self.now.as_millis().saturating_add_signed(turn.clock));
        if let Mood::Crash = turn.mood {
            self.live = Execution::replay(&self.journal).unwrap();
            prop_assert!(self.live.take_permit(CALL).is_none(), "a start is not entered twice");
        }
        if let Some(offer) = self.choose(turn) {
            self.try_event(&offer, turn.mood)?;
        }
        if turn.pick.is_multiple_of(2) {
            self.enter()?;
        }
        self.check()
    }

    fn try_event(&mut self, offer: &Offer, mood: Mood) -> Result<(), TestCaseError> {
        let mut after = self.live.clone();
        if let Err(error) = after.apply(&offer.event) {
            prop_assert!(!matches!(mood, Mood::Honest), "{}: {error}", offer.name);
            return self.refused(&after, &error);
        }
        prop_assert!(!matches!(mood, Mood::Crooked), "{} was accepted", offer.name);
        self.live = after;
        self.now = self.now.max(offer.event.at);
        self.journal.push(offer.event.clone());
        let noted = self.ledger.note(&offer.event);
        noted.map_err(|problem| TestCaseError::fail(format!("{}: {problem}", offer.name)))
    }

    /// A refused event poisons, and changes nothing else.
    fn refused(&self, after: &Execution, error: &ApplyError) -> Result<(), TestCaseError> {
        prop_assert!(matches!(error, ApplyError::Illegal { .. }), "{error}");
        prop_assert_eq!(after.calls(), self.live.calls());
        prop_assert_eq!(after.asked(), self.live.asked());
        prop_assert_eq!(after.status(), self.live.status());
        prop_assert_eq!(after.version(), self.live.version());
        for offer in fitting(&self.live, self.now) {
            prop_assert_eq!(after.clone().apply(&offer.event), Err(ApplyError::Poisoned), "{}", offer.name);
        }
        Ok(())
    }

    /// The kernel enters the handler, if it may, and tries to once more.
    fn enter(&mut self) -> Result<(), TestCaseError> {
        let running = matches!(self.live.call(CALL).unwrap().phase(), Phase::Running(_));
        if self.live.take_permit(CALL).is_some() {
            self.permits += 1;
            prop_assert!(running, "a permit outside Running");
        }
        prop_assert!(self.live.take_permit(CALL).is_none(), "one record, one permit");
        prop_assert!(self.permits <= self.ledger.entries(), "{} permits", self.permits);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.ledger.agrees(&self.live).map_err(TestCaseError::fail)?;
        let mut replayed = Execution::replay(&self.journal).unwrap();
        prop_assert_eq!(without_permits(&replayed), without_permits(&self.live));
        self.advice_fits(&replayed)?;
        prop_assert!(replayed.take_permit(CALL).is_none(), "a replayed start is not entered");
        let call = replayed.call(CALL).unwrap();
        let (doubtful, running) = (call.would_be_in_doubt(), matches!(call.phase(), Phase::Running(_)));
        let call_is_open = replayed.end().is_none();
        let again = Event { at: self.stamp(), body: EventBody::CallReentered { call: CALL } };
        let fits = replayed.apply(&again).is_ok();
        let may_run = running && !doubtful && call_is_open;
        prop_assert_eq!(fits, may_run, "entered again where that leaves no doubt, and only there");
        prop_assert_eq!(replayed.take_permit(CALL).is_some(), fits, "one record, one permit");
        prop_assert!(replayed.take_permit(CALL).is_none(), "one record, one permit");
        Ok(())
    }

    /// What `next` and `status` say agrees with one another and with what `apply` takes.
    fn advice_fits(&self, execution: &Execution) -> Result<(), TestCaseError> {
        let next = execution.next();
        let at = self.stamp();
        let mut after = execution.clone();
        let mut fits =
            |bodies: Vec<EventBody>| bodies.into_iter().all(|body| after.apply(&Event { at, body }).is_ok());
        let advised = match &next {
            Next::Start(call) | Next::EnterAgain(call) => {
                let terms = Terms { now: at, fingerprint: fingerprint(), policy_version: policy_version() };
                Vec::from_iter(execution.check_start(*call, terms).ok())
            }
            Next::Settle(call, failure) => {
                let outcome = CallOutcome::Failed(failure.clone());
                let withdrawals = execution.open().map(|e| decided(e.id, withdrawal(at)));
                withdrawals.chain([EventBody::CallSettled { call: *call, outcome }]).collect()
            }
            Next::Finish(outcome) => vec![EventBody::finished(outcome.clone())],
            _ => Vec::new(),
        };
        prop_assert!(fits(advised), "{:?} was advised and refused", next);
        prop_assert_eq!(next == Next::Done, execution.status().is_final());
        prop_assert_eq!(matches!(next, Next::AwaitSettlement(_)), execution.status() == Status::InDoubt);
        if execution.kind() == Kind::Call {
            prop_assert_eq!(next == Next::AwaitPeople, execution.status() == Status::Waiting);
        }
        if next == Next::AwaitPeople {
            prop_assert!(execution.open().next().is_some(), "it waits for nobody");
            prop_assert!(!execution.calls()[0].would_be_in_doubt(), "it would be parked while it may act");
        }
        self.recovery_fits(execution)
    }

    /// What `next` says of lost calls can be recorded, once the questions nobody can answer any more are withdrawn.
    fn recovery_fits(&self, execution: &Execution) -> Result<(), TestCaseError> {
        let at = self.stamp();
        for call in execution.lost_calls() {
            let mut after = execution.clone();
            let withdrawals = execution.open().map(|e| decided(e.id, withdrawal(at)));
            for body in withdrawals.chain([EventBody::FoundInDoubt { call, reason: None }]) {
                prop_assert_eq!(after.apply(&Event { at, body }), Ok(()), "a doubt that cannot be recorded");
            }
        }
        Ok(())
    }
}

/// Whether the event ends the call or the execution.
fn ends(offer: &Offer) -> bool {
    match &offer.event.body {
        EventBody::DoubtSettled { settlement, .. } => *settlement != Settlement::Retry,
        EventBody::CallSettled { .. } | EventBody::Finished { .. } | EventBody::Cancelled { .. } => true,
        _ => false,
    }
}

/// The whole value as text, but for who holds which permit: that is the process's, not the journal's.
fn without_permits(execution: &Execution) -> String {
    format!("{execution:?}")
        .replace("permit: Unspent", "permit: Spent")
        .replace("permit: Lost", "permit: Spent")
}

/// Failures are written down as tests of their own, not as files of seeds.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_history_keeps_the_rules(
        kind in prop_oneof![4 => Just(Kind::Call), 1 => Just(Kind::Gate)],
        effects in effects(),
        turns in prop::collection::vec(turn(), 1..40),
    ) {
        let mut history = History::begin(kind, effects);
        for turn in &turns {
            history.take(turn)?;
        }
    }

    #[test]
    fn every_journal_survives_its_stored_form(effects in effects(), turns in prop::collection::vec(turn(), 1..25)) {
        let mut history = History::begin(Kind::Call, effects);
        for turn in &turns {
            history.take(turn)?;
        }
        let stored: Vec<_> = history.journal.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let read: Vec<Event> = stored.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        prop_assert_eq!(&read, &history.journal);
        let replayed = Execution::replay(&read).unwrap();
        prop_assert_eq!(without_permits(&replayed), without_permits(&history.live));
    }

    #[test]
    fn every_journal_survives_its_commits(
        effects in effects(),
        turns in prop::collection::vec(turn(), 1..25),
        cuts in prop::collection::btree_set(1_usize..60, 0..12),
    ) {
        let mut history = History::begin(Kind::Call, effects);
        for turn in &turns {
            history.take(turn)?;
        }
        let (journal, mut read, mut from) = (&history.journal, Vec::new(), 0);
        for to in cuts.into_iter().filter(|cut| *cut < journal.len()).chain([journal.len()]) {
            let execution = Execution::replay(&journal[..to]).unwrap();
            let stored = StoredCommit::of(&journal[from..to], Some(&execution)).unwrap();
            Commit::parse(stored.text()).unwrap().append_to(&mut read).unwrap();
            from = to;
        }
        prop_assert_eq!(&read, journal);
    }
}

/// A generator that stopped reaching the deep phases would make the properties above say nothing.
#[test]
fn histories_reach_every_phase_and_go_on_after_every_crash() {
    let mut reached = BTreeMap::new();
    let mut runner = TestRunner::deterministic();
    let turns = prop::collection::vec(turn(), 40);
    for _ in 0..200 {
        let mut history = History::begin(Kind::Call, DELETES);
        for turn in turns.new_tree(&mut runner).unwrap().current() {
            history.take(&turn).unwrap();
            *reached.entry(name(&history.live)).or_insert(0) += 1;
        }
    }
    let seldom: Vec<_> = reached.iter().filter(|(_, times)| **times < 10).collect();
    assert!(reached.len() == 11 && seldom.is_empty(), "{reached:#?}");
}

fn name(execution: &Execution) -> &'static str {
    match (execution.status(), execution.calls()[0].phase()) {
        (Status::Succeeded, _) => "succeeded",
        (Status::Failed, _) => "failed",
        (Status::Cancelled, _) => "cancelled",
        (_, Phase::Issued) => "issued",
        (_, Phase::Asked { .. }) => "asked",
        (_, Phase::Cleared { .. }) => "cleared",
        (_, Phase::Refused { .. }) => "refused",
        (_, Phase::Running(_)) => "running",
        (_, Phase::InDoubt(_)) => "in doubt",
        (_, Phase::Retrying { .. }) => "retrying",
        (_, Phase::Settled(_)) => "settled",
    }
}
