//! A script's turns: what its VM is given, and what is made of its answer.
//!
//! Promise: what a script asks for goes the way of every call, and nothing of it starts before the script, where it was
//! replayed, has been held against its journal (R8). A request that the journal knows is held against it and not recorded
//! again; the first that differs ends the script as `diverged` before anything runs. New requests go through admission, in
//! order, before they are recorded.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::bounds;
use countersign_core::digest::Digest;
use countersign_core::event::{CallIssued, CallOutcome, EventBody, Failure};
use countersign_core::execution::{Divergence, Execution, Next, call_digest, sleep_digest};
use countersign_core::ids::{CallNo, RequestNo};
use countersign_sdk::{Principal, SessionId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::handlers::Speaker;
use super::{Did, Owner};
use crate::accept::{Admitted, denied_by_hook};
use crate::error::GatewayError;
use crate::in_flight::Slot;
use crate::journal::CommitExtras;
use crate::kernel::Kernel;
use crate::ports::{Completion, Program, Request, ScriptEnd, ScriptFault, Stripped, Turn, Wanted};
use crate::script::{Claim, PlacedVm};

/// The clock may jump, so a sleeping script looks at it at least this often.
const LONGEST_NAP: Duration = Duration::from_secs(1);
/// So that a clock that stands still is not asked without pause.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// Room in a journal that is kept for what a script's calls still have to say when it may ask for no more.
const RESERVED_FOR_CALLS: u64 = 20_000;
/// How often a VM that died is replaced before its script is said to have killed it.
const MAX_CRASHES: u32 = 2;

/// An owner's state of the script it runs. All of it can be lost: the journal remains.
#[derive(Default)]
pub(crate) struct ScriptRun {
    machine: Machine,
    /// How many completions the VM was given.
    given: usize,
    /// How many requests of the VM were held against the journal or recorded.
    asked: u32,
    /// How many lines it logged.
    said: usize,
    /// How the script ended, once it did; its calls may still be running.
    pub(super) end: Option<CallOutcome>,
    /// A turn that came back and was not looked at yet.
    taken: Option<Taken>,
    /// How often the VM died on us.
    crashes: u32,
    /// Counts the script among those in memory.
    _slot: Option<Slot>,
}

/// The state of the VM.
enum Machine {
    /// Not started; there may be one at hand.
    New(Option<PlacedVm>),
    /// It has nothing to do but wait.
    Idle(PlacedVm),
    /// It had nothing to do for so long that it was put away; a fresh one comes when there is something.
    Away,
    /// The VM runs a turn.
    Busy(BoxFuture<'static, Taken>),
    /// It is of no more use.
    Over,
}

impl Default for Machine {
    fn default() -> Self {
        Self::New(None)
    }
}

/// A turn that came back.
pub(super) struct Taken {
    vm: Option<PlacedVm>,
    turn: Result<Turn, ScriptFault>,
    admitted: Vec<Admission>,
}

/// The result of admission for a new request.
enum Admission {
    Call(Box<Admitted>, Digest),
    Refused { path: String, requested: Digest, failure: Failure },
    Sleep(u64),
}

/// Whom a script's calls are made for.
struct OnBehalf {
    principal: Principal,
    session: SessionId,
    /// With what claim to a place its VM is opened anew.
    claim: Claim,
}

/// The input of a turn.
enum Start {
    Anew(Option<PlacedVm>),
    Further(PlacedVm),
}

impl ScriptRun {
    /// A script that was just accepted, with the VM that stripped it.
    pub(crate) fn new(vm: PlacedVm, slot: Slot) -> Self {
        Self { machine: Machine::New(Some(vm)), _slot: Some(slot), ..Self::default() }
    }

    /// Completes when the VM only waits and somebody else needs its place.
    pub(super) fn place_needed(&self) -> impl Future<Output = ()> + Send + use<> {
        let needed = match &self.machine {
            Machine::Idle(placed) => Some(placed.place.is_needed()),
            _ => None,
        };
        async move {
            match needed {
                Some(needed) => needed.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Completes when a running turn comes back.
    pub(super) async fn turn(&mut self) -> Taken {
        match &mut self.machine {
            Machine::Busy(turn) => turn.await,
            _ => std::future::pending().await,
        }
    }

    /// The VM and all it was given are forgotten; a fresh one will be given everything again.
    fn start_over(&mut self) {
        (self.machine, self.given, self.asked, self.said) = (Machine::New(None), 0, 0, 0);
        (self.end, self.taken) = (None, None);
    }

    /// Whether the script has asked again for everything that is recorded.
    pub(super) fn is_held_against(&self, execution: &Execution) -> bool {
        self.asked as usize >= execution.progress().requests().len()
    }

    /// Whether the script was given everything and can only wait.
    fn is_idle(&self, execution: &Execution) -> bool {
        matches!(self.machine, Machine::Idle(_) | Machine::Away)
            && self.end.is_none()
            && self.given == execution.progress().completions()
            && self.is_held_against(execution)
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self.machine, Machine::Busy(_))
    }

    pub(super) fn has_diverged(&self) -> bool {
        matches!(&self.end, Some(CallOutcome::Failed(failure)) if failure.code == Divergence::CODE)
    }

    pub(super) fn end_with(&mut self, code: &str, message: impl Into<String>) {
        self.machine = Machine::Over;
        self.end = Some(CallOutcome::Failed(Failure::new(code, message)));
    }

    fn diverge(&mut self, execution: &Execution, divergence: &Divergence) {
        tracing::error!(execution = %execution.id(), %divergence, "a script's replay left its journal");
        self.end_with(Divergence::CODE, sentence(divergence));
    }

    /// R16: a script that fills its journal ends, with room left to record how.
    pub(super) fn has_room(&mut self, execution: &Execution) -> bool {
        let full = execution.progress().weight() > bounds::MAX_SCRIPT_JOURNAL_BYTES
            || execution.version() + RESERVED_FOR_CALLS > bounds::MAX_JOURNAL_EVENTS;
        if full {
            let message = format!(
                "What the script asked for and was given has filled its journal of {} bytes or {} events.",
                bounds::MAX_SCRIPT_JOURNAL_BYTES,
                bounds::MAX_JOURNAL_EVENTS
            );
            self.end_with("journal_full", message);
        }
        !full
    }
}

impl Owner {
    /// Does one thing that can be done about a script now. Each is recorded, then done.
    pub(super) async fn advance_script(&mut self) -> Result<Did, GatewayError> {
        if self.take_turn()? == Did::Something {
            return Ok(Did::Something);
        }
        if matches!(self.execution().next(), Next::AwaitSettlement(_)) || self.kernel.is_closed() {
            return Ok(Did::Nothing);
        }
        if self.kernel.scripts.is_none() {
            return Err(GatewayError::Sandbox(ScriptFault::NotIsolated {
                missing: "nothing here runs scripts".into(),
            }));
        }
        if self.execution().idempotency_key().is_some() && !self.record.is_stored() {
            // A caller's key must be taken before anything runs under it.
            self.commit(Vec::new(), CommitExtras::default()).await?;
        }
        if self.end_sleeps()? == Did::Something {
            return Ok(Did::Something);
        }
        self.look_for_reasons_to_end();
        let Self { script: Some(script), record, .. } = self else { return Ok(Did::Nothing) };
        let may_act =
            (script.is_held_against(&record.execution) || script.end.is_some()) && !script.has_diverged();
        if may_act && self.carry_out().await? == Did::Something {
            return Ok(Did::Something);
        }
        if self.script.as_ref().is_some_and(|script| script.end.is_some()) {
            if self.wind_down().await? == Did::Something {
                return Ok(Did::Something);
            }
        } else {
            self.begin_turn();
        }
        self.note_that_it_waits()
    }

    /// Whether the script, where the execution is one, has run as far as it can: a question always finds it waiting.
    pub(super) fn script_is_idle(&self) -> bool {
        self.script.as_ref().is_none_or(|script| script.is_idle(self.execution()))
    }

    /// Whether the script has nothing to do, so that its VM may be put away after a while.
    pub(super) fn script_is_resting(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.is_idle(self.execution()) || script.end.is_some())
    }

    /// Whether a cancel was requested, or its journal is full.
    fn look_for_reasons_to_end(&mut self) {
        let Self { script: Some(script), record, .. } = self else { return };
        if script.end.is_none() && record.execution.cancel_request().is_some() {
            script.end_with("cancelled", "The script was stopped.");
        }
        if script.end.is_none() {
            script.has_room(&record.execution);
        }
    }

    /// Ends the sleeps whose time is up.
    fn end_sleeps(&mut self) -> Result<Did, GatewayError> {
        let Some(script) = &self.script else { return Ok(Did::Nothing) };
        let execution = self.execution();
        let now = self.kernel.now_for(execution);
        let due: Vec<EventBody> = execution
            .progress()
            .sleeps()
            .filter(|(_, until)| *until <= now)
            .map(|(request, _)| EventBody::SleepEnded { request })
            .collect();
        if due.is_empty() || !script.is_held_against(execution) {
            return Ok(Did::Nothing);
        }
        self.note(due)?;
        Ok(Did::Something)
    }

    /// Records that only people can bring the script on. One that was given everything, and neither ended nor waits for
    /// anything, never will end.
    fn note_that_it_waits(&mut self) -> Result<Did, GatewayError> {
        let Self { script: Some(script), record, .. } = self else { return Ok(Did::Nothing) };
        let execution = &record.execution;
        if !script.is_idle(execution) && script.end.is_none() {
            return Ok(Did::Nothing);
        }
        let progress = execution.progress();
        let asleep = progress.sleeps().next().is_some();
        if execution.unsettled().next().is_none() && !asleep && script.end.is_none() {
            let message = "The script waits for a promise that nothing will settle.";
            script.end = Some(CallOutcome::Failed(Failure::new("script_stuck", message)));
            return Ok(Did::Something);
        }
        if progress.has_seen_all() || asleep || !execution.calls_wait() {
            return Ok(Did::Nothing);
        }
        let seen = u32::try_from(progress.completions()).unwrap_or(u32::MAX);
        self.note(vec![EventBody::ScriptWaits { seen }])?;
        Ok(Did::Something)
    }

    /// How long until a sleep of the script is over.
    pub(super) fn nap(&self) -> Option<Duration> {
        let script = self.script.as_ref()?;
        let execution = self.execution();
        let halted = matches!(execution.next(), Next::AwaitSettlement(_)) || self.kernel.is_closed();
        if halted || !script.is_held_against(execution) {
            return None;
        }
        let until = execution.progress().sleeps().map(|(_, until)| until).min()?;
        Some(self.kernel.now_for(execution).until(until).clamp(SHORTEST_NAP, LONGEST_NAP))
    }

    /// A turn came back; it is looked at when its turn comes.
    pub(super) fn came_back(&mut self, taken: Taken) {
        if let Some(script) = &mut self.script {
            script.taken = Some(taken);
        }
    }

    /// Gives the place of a VM that only waits to somebody who needs it; the script is replayed when there is news.
    pub(super) fn put_vm_away(&mut self) {
        if let Some(script) = self.script.as_mut().filter(|script| matches!(script.machine, Machine::Idle(_)))
        {
            script.machine = Machine::Away;
        }
    }

    /// Lets the VM run where there is something for it.
    fn begin_turn(&mut self) {
        let Self { script: Some(script), record, kernel, shared, .. } = self else { return };
        let execution = &record.execution;
        let news = script.given < execution.progress().completions();
        let vm = match std::mem::replace(&mut script.machine, Machine::Over) {
            Machine::New(at_hand) => Start::Anew(at_hand),
            Machine::Idle(placed) if news => {
                placed.place.work();
                Start::Further(placed)
            }
            Machine::Away if news => {
                script.start_over();
                shared.forget_what_the_script_said();
                Start::Anew(None)
            }
            other => {
                script.machine = other;
                return;
            }
        };
        let completions: Vec<Completion> = execution
            .completed(script.given)
            .map(|c| Completion { request: c.request.0, at: c.at, outcome: c.outcome })
            .collect();
        let Some(source) = execution.script() else { return };
        let program = matches!(vm, Start::Anew(_)).then(|| Program {
            stripped: Stripped { code: source.code.clone(), mappings: source.mappings.clone() },
            seed: *source.seed.as_bytes(),
            now: execution.started_at(),
        });
        let on_behalf = OnBehalf {
            principal: execution.requester().clone(),
            session: execution.session().clone(),
            claim: Claim::of(execution),
        };
        script.given += completions.len();
        let (kernel, known) = (Arc::clone(kernel), execution.progress().requests().len());
        script.machine = Machine::Busy(
            async move {
                let (vm, turn) = kernel.let_run(vm, program, completions, &on_behalf).await;
                let admitted = match &turn {
                    Ok(turn) => kernel.admit_requests(&turn.requests, known, &on_behalf).await,
                    Err(_) => Vec::new(),
                };
                Taken { vm, turn, admitted }
            }
            .boxed(),
        );
    }

    /// Looks at a turn that came back.
    fn take_turn(&mut self) -> Result<Did, GatewayError> {
        let Self { script: Some(script), record, shared, .. } = self else { return Ok(Did::Nothing) };
        let Some(taken) = script.taken.take() else { return Ok(Did::Nothing) };
        script.machine = Machine::Over;
        let execution = &record.execution;
        let turn = match taken.turn {
            Ok(turn) => turn,
            Err(fault @ (ScriptFault::Unavailable { .. } | ScriptFault::NotIsolated { .. })) => {
                script.start_over();
                shared.forget_what_the_script_said();
                return Err(GatewayError::Sandbox(fault));
            }
            Err(ScriptFault::NotAsked { request }) => {
                script.diverge(execution, &execution.missing(RequestNo(request)));
                return Ok(Did::Something);
            }
            Err(ScriptFault::Crashed { cause }) if script.crashes < MAX_CRASHES => {
                // It may have been the machine and not the script: a VM can be dropped at any moment, so this was one.
                tracing::warn!(execution = %execution.id(), cause, "a script's sandbox crashed; it is replayed in another");
                script.crashes += 1;
                script.start_over();
                shared.forget_what_the_script_said();
                return Ok(Did::Something);
            }
            Err(fault) => {
                if let ScriptFault::Crashed { cause } = &fault {
                    tracing::error!(execution = %execution.id(), cause, "a script's sandbox crashed");
                }
                script.end_with(fault.code(), sentence(&fault));
                return Ok(Did::Something);
            }
        };
        script.machine = taken.vm.map_or(Machine::Over, |mut placed| {
            placed.place.rest();
            Machine::Idle(placed)
        });
        self.take_answer(turn, taken.admitted)
    }

    fn take_answer(&mut self, turn: Turn, admitted: Vec<Admission>) -> Result<Did, GatewayError> {
        let Self { script: Some(script), shared, kernel, .. } = self else { return Ok(Did::Nothing) };
        for line in turn.logs {
            script.said += 1;
            kernel.followers.tell_script_line(shared.id, script.said, &line);
            shared.log(Speaker::Script, line, kernel.settings.max_log_lines);
        }
        self.take_requests(&turn.requests, admitted)?;
        let Self { script: Some(script), record, .. } = self else { return Ok(Did::Nothing) };
        if let Some(end) = turn.end.filter(|_| script.end.is_none()) {
            script.machine = Machine::Over;
            script.end = Some(match end {
                ScriptEnd::Returned(value) => CallOutcome::Succeeded(value),
                ScriptEnd::Threw(failure) => CallOutcome::Failed(failure),
            });
        }
        // A script that was given all that is recorded has asked for all that is recorded, or it is another script.
        let execution = &record.execution;
        let given_all = script.given == execution.progress().completions();
        if given_all && !script.is_held_against(execution) && !script.has_diverged() {
            script.diverge(execution, &execution.missing(RequestNo(script.asked)));
        }
        Ok(Did::Something)
    }

    /// Records what the script asks for anew, and holds the rest against the journal.
    fn take_requests(&mut self, requests: &[Request], admitted: Vec<Admission>) -> Result<(), GatewayError> {
        let mut admitted = admitted.into_iter();
        for request in requests {
            let Self { script: Some(script), record, .. } = self else { return Ok(()) };
            let execution = &record.execution;
            if request.no != script.asked {
                let cause = format!("request {} came where {} was due", request.no, script.asked);
                tracing::error!(execution = %execution.id(), cause, "a script's sandbox miscounts");
                let fault = ScriptFault::Crashed { cause };
                script.end_with(fault.code(), sentence(&fault));
                return Ok(());
            }
            match execution.holds_against(RequestNo(request.no), digest_of(&request.wanted)) {
                Err(divergence) => {
                    script.diverge(execution, &divergence);
                    return Ok(());
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let Some(admission) = admitted.next() else { return Ok(()) };
                    if request.no >= bounds::MAX_CALLS {
                        let fault = ScriptFault::TooManyCalls { bound: bounds::MAX_CALLS };
                        script.end_with(fault.code(), sentence(&fault));
                        return Ok(());
                    }
                    if !script.has_room(execution) {
                        return Ok(());
                    }
                    self.record_request(admission, request.line)?;
                }
            }
            if let Some(script) = &mut self.script {
                script.asked += 1;
            }
        }
        Ok(())
    }

    fn record_request(&mut self, admission: Admission, line: Option<u32>) -> Result<(), GatewayError> {
        match admission {
            Admission::Sleep(ms) => self.note(vec![EventBody::SleepStarted { ms }]),
            Admission::Refused { path, requested, failure } => {
                self.note(vec![EventBody::CallRefused { path, requested, failure }])
            }
            Admission::Call(admitted, requested) => {
                let execution = self.execution();
                let no = CallNo(u32::try_from(execution.calls().len()).unwrap_or(u32::MAX));
                let (requester, session) = (execution.requester(), execution.session());
                let issued = self.kernel.issued(no, &admitted, requester, session);
                let issued = CallIssued { requested: Some(requested), line, ..issued };
                let mut events = vec![EventBody::CallIssued(issued)];
                let denied = admitted.denied.map(|reason| CallOutcome::Failed(denied_by_hook(&reason)));
                events.extend(denied.clone().map(|outcome| EventBody::CallSettled { call: no, outcome }));
                self.note(events)?;
                if let Some(outcome) = denied {
                    self.tell_post_hooks(no, outcome);
                }
                Ok(())
            }
        }
    }
}

impl Kernel {
    async fn let_run(
        &self,
        start: Start,
        program: Option<Program>,
        completions: Vec<Completion>,
        on_behalf: &OnBehalf,
    ) -> (Option<PlacedVm>, Result<Turn, ScriptFault>) {
        let (mut placed, mut first) = match (start, program) {
            (Start::Anew(at_hand), Some(program)) => {
                let opened = match at_hand {
                    Some(placed) => Ok(placed),
                    None => self.open_for(on_behalf).await,
                };
                let mut placed = match opened {
                    Ok(placed) => placed,
                    Err(fault) => return (None, Err(fault)),
                };
                match placed.vm.start(program).await {
                    Ok(turn) => (placed, turn),
                    Err(fault) => return (None, Err(fault)),
                }
            }
            (Start::Further(placed), _) => (placed, Turn::default()),
            (Start::Anew(_), None) => {
                return (None, Err(ScriptFault::Unavailable { cause: "no program to start".into() }));
            }
        };
        if first.end.is_some() || completions.is_empty() {
            return (Some(placed), Ok(first));
        }
        match placed.vm.deliver(completions).await {
            Ok(next) => {
                first.requests.extend(next.requests);
                first.logs.extend(next.logs);
                first.end = next.end;
                (Some(placed), Ok(first))
            }
            Err(fault) => (None, Err(fault)),
        }
    }

    /// A VM for a script that was accepted before. It waits for its place as long as it takes.
    async fn open_for(&self, on_behalf: &OnBehalf) -> Result<PlacedVm, ScriptFault> {
        let none = || ScriptFault::Unavailable { cause: "no script host here".into() };
        let host = self.scripts.as_ref().ok_or_else(none)?;
        let place = self.places.take(&on_behalf.principal.id, on_behalf.claim).await?;
        Ok(PlacedVm { vm: host.open().await?, place })
    }

    /// Steps 1 to 3 for what the journal does not know yet. Hooks are not asked twice about what it does.
    async fn admit_requests(
        &self,
        requests: &[Request],
        known: usize,
        on_behalf: &OnBehalf,
    ) -> Vec<Admission> {
        let mut admitted = Vec::new();
        for request in requests.iter().filter(|request| request.no as usize >= known) {
            admitted.push(self.admit_request(&request.wanted, on_behalf).await);
        }
        admitted
    }

    async fn admit_request(&self, wanted: &Wanted, on_behalf: &OnBehalf) -> Admission {
        let requested = digest_of(wanted);
        let (path, args) = match wanted {
            Wanted::Sleep { ms } => return Admission::Sleep(*ms),
            Wanted::Call { path, args } => (path, args),
        };
        match self.admit(path, args.to_value(), &on_behalf.principal, &on_behalf.session).await {
            Ok(admitted) => Admission::Call(Box::new(admitted), requested),
            Err(error) => {
                let failure = Failure::new(error.code(), sentence(&error));
                let path = path.chars().take(countersign_sdk::MAX_PATH_BYTES).collect();
                Admission::Refused { path, requested, failure }
            }
        }
    }
}

fn digest_of(wanted: &Wanted) -> Digest {
    match wanted {
        Wanted::Call { path, args } => call_digest(path, args),
        Wanted::Sleep { ms } => sleep_digest(*ms),
    }
}

/// Completes after a while, where one is given.
pub(super) async fn after(nap: Option<Duration>) {
    match nap {
        Some(nap) => tokio::time::sleep(nap).await,
        None => std::future::pending().await,
    }
}

/// An error's own words, as a sentence and within bounds.
fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    text.truncate(text.floor_char_boundary(bounds::MAX_TEXT_BYTES));
    text
}
