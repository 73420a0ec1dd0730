//! A turn of the VM: what it is given, and what is made of its answer.
//!
//! Promise: a request that the journal knows is held against it and not recorded again; the first that differs ends the
//! script as `diverged` before anything runs. New requests go through admission, in order, before they are recorded.

use std::sync::Arc;

use countersign_core::bounds;
use countersign_core::digest::Digest;
use countersign_core::event::{CallIssued, CallOutcome, EventBody, Failure};
use countersign_core::execution::{Divergence, call_digest, sleep_digest};
use countersign_core::ids::{CallNo, RequestNo};
use countersign_sdk::{Principal, SessionId};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::places::{Claim, PlacedVm};
use super::{Conductor, Done};
use crate::accept::{Admitted, denied_by_hook};
use crate::error::GatewayError;
use crate::kernel::Kernel;
use crate::live::{Speaker, State};
use crate::ports::{Completion, Program, Request, ScriptEnd, ScriptFault, Stripped, Turn, Wanted};

/// Room in a journal that is kept for what a script's calls still have to say when it may ask for no more.
const RESERVED_FOR_CALLS: u64 = 20_000;
/// How often a VM that died is replaced before its script is said to have killed it.
const MOST_CRASHES: u32 = 2;

/// Where the VM is.
pub(super) enum Machine {
    /// Not started; there may be one at hand.
    New(Option<PlacedVm>),
    /// It has nothing to do but wait.
    Idle(PlacedVm),
    /// It had nothing to do for so long that it was put away; a fresh one comes when there is something.
    Away,
    /// It runs.
    Busy(BoxFuture<'static, Taken>),
    /// It is of no more use.
    Over,
}

/// A turn that came back.
pub(super) struct Taken {
    vm: Option<PlacedVm>,
    turn: Result<Turn, ScriptFault>,
    admitted: Vec<Admission>,
}

/// What admission made of a new request.
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

/// Completes when the VM only waits and somebody else needs its place.
pub(super) fn place_needed(machine: &Machine) -> impl Future<Output = ()> + Send + use<> {
    let needed = match machine {
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
pub(super) async fn taken(machine: &mut Machine) -> Taken {
    match machine {
        Machine::Busy(turn) => turn.await,
        _ => std::future::pending().await,
    }
}

impl Conductor {
    /// The VM and all it was given are forgotten; a fresh one will be given everything again.
    pub(super) fn start_over(&mut self) {
        (self.machine, self.given, self.asked, self.said) = (Machine::New(None), 0, 0, 0);
        (self.end, self.taken) = (None, None);
        self.live.forget_what_the_script_said();
    }

    /// Whether the script has asked again for everything that is recorded.
    pub(super) fn is_held_against(&self, state: &State) -> bool {
        self.asked as usize >= state.execution.progress().requests().len()
    }

    /// Whether the script was given everything and can only wait.
    pub(super) fn is_idle(&self, state: &State) -> bool {
        matches!(self.machine, Machine::Idle(_) | Machine::Away)
            && self.end.is_none()
            && self.given == state.execution.progress().completions()
            && self.is_held_against(state)
    }

    /// Lets the VM run where there is something for it.
    pub(super) fn begin_turn(&mut self, state: &State) {
        let news = self.given < state.execution.progress().completions();
        let vm = match std::mem::replace(&mut self.machine, Machine::Over) {
            Machine::New(at_hand) => Start::Anew(at_hand),
            Machine::Idle(placed) if news => {
                placed.place.work();
                Start::Further(placed)
            }
            Machine::Away if news => {
                self.start_over();
                Start::Anew(None)
            }
            other => {
                self.machine = other;
                return;
            }
        };
        let completions: Vec<Completion> = state
            .execution
            .completed(self.given)
            .map(|c| Completion { request: c.request.0, at: c.at, outcome: c.outcome })
            .collect();
        let Some(script) = state.execution.script() else { return };
        let stripped = Stripped { code: script.code.clone(), mappings: script.mappings.clone() };
        let program = Program { stripped, seed: *script.seed.as_bytes(), now: state.execution.started_at() };
        let on_behalf = OnBehalf {
            principal: state.execution.requester().clone(),
            session: state.execution.session().clone(),
            claim: Claim::of(&state.execution),
        };
        self.given += completions.len();
        let kernel = Arc::clone(&self.kernel);
        let known = state.execution.progress().requests().len();
        self.machine = Machine::Busy(
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
    pub(super) fn take(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        let Some(taken) = self.taken.take() else { return Ok(Done::Nothing) };
        self.machine = Machine::Over;
        let turn = match taken.turn {
            Ok(turn) => turn,
            Err(fault @ (ScriptFault::Unavailable { .. } | ScriptFault::NotIsolated { .. })) => {
                self.start_over();
                return Err(GatewayError::Sandbox(fault));
            }
            Err(ScriptFault::NotAsked { request }) => {
                self.diverge(&state.execution.missing(RequestNo(request)));
                return Ok(Done::Something);
            }
            Err(ScriptFault::Crashed { cause }) if self.crashes < MOST_CRASHES => {
                // It may have been the machine and not the script: a VM can be dropped at any moment, so this was one.
                tracing::warn!(execution = %self.live.id, cause, "a script's sandbox crashed; it is replayed in another");
                self.crashes += 1;
                self.start_over();
                return Ok(Done::Something);
            }
            Err(fault) => {
                if let ScriptFault::Crashed { cause } = &fault {
                    tracing::error!(execution = %self.live.id, cause, "a script's sandbox crashed");
                }
                self.end_with(&fault);
                return Ok(Done::Something);
            }
        };
        self.machine = taken.vm.map_or(Machine::Over, |mut placed| {
            placed.place.rest();
            Machine::Idle(placed)
        });
        let bound = self.kernel.settings.max_log_lines;
        for line in turn.logs {
            self.said += 1;
            self.kernel.followers.tell_script_line(self.live.id, self.said, &line);
            self.live.log(Speaker::Script, line, bound);
        }
        self.hear(state, &turn.requests, taken.admitted)?;
        if let Some(end) = turn.end.filter(|_| self.end.is_none()) {
            self.machine = Machine::Over;
            self.end = Some(match end {
                ScriptEnd::Returned(value) => CallOutcome::Succeeded(value),
                ScriptEnd::Threw(failure) => CallOutcome::Failed(failure),
            });
        }
        self.hold_against(state);
        Ok(Done::Something)
    }

    /// Records what the script asks for anew, and holds the rest against the journal.
    fn hear(
        &mut self,
        state: &mut State,
        requests: &[Request],
        admitted: Vec<Admission>,
    ) -> Result<(), GatewayError> {
        let mut admitted = admitted.into_iter();
        for request in requests {
            if request.no != self.asked {
                let cause = format!("request {} came where {} was due", request.no, self.asked);
                tracing::error!(execution = %self.live.id, cause, "a script's sandbox miscounts");
                self.end_with(&ScriptFault::Crashed { cause });
                return Ok(());
            }
            match state.execution.holds_against(RequestNo(request.no), digest_of(&request.wanted)) {
                Err(divergence) => {
                    self.diverge(&divergence);
                    return Ok(());
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    let Some(admission) = admitted.next() else { return Ok(()) };
                    if request.no >= bounds::MAX_CALLS {
                        self.end_with(&ScriptFault::TooManyCalls { bound: bounds::MAX_CALLS });
                        return Ok(());
                    }
                    if !self.has_room(state) {
                        return Ok(());
                    }
                    self.record_request(state, admission, request.line)?;
                }
            }
            self.asked += 1;
        }
        Ok(())
    }

    fn record_request(
        &mut self,
        state: &mut State,
        admission: Admission,
        line: Option<u32>,
    ) -> Result<(), GatewayError> {
        let kernel = Arc::clone(&self.kernel);
        match admission {
            Admission::Sleep(ms) => kernel.note(state, vec![EventBody::SleepStarted { ms }]),
            Admission::Refused { path, requested, failure } => {
                kernel.note(state, vec![EventBody::CallRefused { path, requested, failure }])
            }
            Admission::Call(admitted, requested) => {
                let no = CallNo(u32::try_from(state.execution.calls().len()).unwrap_or(u32::MAX));
                let (requester, session) = (state.execution.requester(), state.execution.session());
                let issued = kernel.issued(no, &admitted, requester, session);
                let issued = CallIssued { requested: Some(requested), line, ..issued };
                let mut events = vec![EventBody::CallIssued(issued)];
                let denied = admitted.denied.map(|reason| CallOutcome::Failed(denied_by_hook(&reason)));
                events.extend(denied.clone().map(|outcome| EventBody::CallSettled { call: no, outcome }));
                kernel.note(state, events)?;
                if let Some(outcome) = denied {
                    tokio::spawn(kernel.to_post_hooks(state, no, outcome));
                }
                Ok(())
            }
        }
    }

    /// R16: a script that fills its journal ends, with room left to record how.
    pub(super) fn has_room(&mut self, state: &State) -> bool {
        let progress = state.execution.progress();
        let full = progress.weight() > bounds::MAX_SCRIPT_JOURNAL_BYTES
            || state.execution.version() + RESERVED_FOR_CALLS > bounds::MAX_JOURNAL_EVENTS;
        if full {
            let message = format!(
                "What the script asked for and was given has filled its journal of {} bytes or {} events.",
                bounds::MAX_SCRIPT_JOURNAL_BYTES,
                bounds::MAX_JOURNAL_EVENTS
            );
            self.machine = Machine::Over;
            self.end = Some(CallOutcome::Failed(Failure::new("journal_full", message)));
        }
        !full
    }

    /// A script that was given all that is recorded has asked for all that is recorded, or it is another script.
    fn hold_against(&mut self, state: &State) {
        let given_all = self.given == state.execution.progress().completions();
        if given_all && !self.is_held_against(state) && !self.has_diverged() {
            self.diverge(&state.execution.missing(RequestNo(self.asked)));
        }
    }

    pub(super) fn has_diverged(&self) -> bool {
        matches!(&self.end, Some(CallOutcome::Failed(failure)) if failure.code == Divergence::CODE)
    }

    fn diverge(&mut self, divergence: &Divergence) {
        tracing::error!(execution = %self.live.id, %divergence, "a script's replay left its journal");
        self.machine = Machine::Over;
        self.end = Some(CallOutcome::Failed(Failure::new(Divergence::CODE, sentence(divergence))));
    }

    fn end_with(&mut self, fault: &ScriptFault) {
        self.machine = Machine::Over;
        self.end = Some(CallOutcome::Failed(Failure::new(fault.code(), sentence(fault))));
    }
}

/// With what a turn begins.
enum Start {
    Anew(Option<PlacedVm>),
    Further(PlacedVm),
}

impl Kernel {
    async fn let_run(
        &self,
        start: Start,
        program: Program,
        completions: Vec<Completion>,
        on_behalf: &OnBehalf,
    ) -> (Option<PlacedVm>, Result<Turn, ScriptFault>) {
        let (mut placed, mut first) = match start {
            Start::Further(placed) => (placed, Turn::default()),
            Start::Anew(at_hand) => {
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
        match self.admit(path, &args.to_value(), &on_behalf.principal, &on_behalf.session).await {
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

/// An error's own words, as a sentence and within bounds.
fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    text.truncate(text.floor_char_boundary(bounds::MAX_TEXT_BYTES));
    text
}
