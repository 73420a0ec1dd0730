//! Scripts: executions of many calls, driven by a VM that may be dropped at any moment.
//!
//! Promise: what a script asks for goes the way of every call, and nothing of it starts before the script, where it was
//! replayed, has been held against its journal (R8). One task conducts a script: it gives the VM what was recorded, in
//! the recorded order, records what the VM asks for, and carries out what the state machine says is to be done.
//!
//! Read `places.rs` for who gets a VM, `turn.rs` for what crosses to the VM and back, `calls.rs` for what is done about its calls, and `ending.rs` for
//! how a script ends or is parked.

mod accept;
mod calls;
mod ending;
mod places;
mod turn;

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::{CallOutcome, EventBody, Failure};
use countersign_core::execution::Next;
use countersign_core::ids::CallNo;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

pub use accept::RunRequest;
pub(crate) use places::Places;

use crate::backoff::Backoff;
use crate::drive::Flow;
use crate::error::GatewayError;
use crate::handler::Ended;
use crate::kernel::Kernel;
use crate::live::{Live, State};
use places::PlacedVm;
use turn::{Machine, Taken};

/// The clock may jump, so a sleeping script looks at it at least this often.
const LONGEST_NAP: Duration = Duration::from_secs(1);
/// So that a clock that stands still is not asked without pause.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// What one task knows of the script it conducts. All of it can be lost: the journal remains.
struct Conductor {
    kernel: Arc<Kernel>,
    live: Arc<Live>,
    machine: Machine,
    /// How many completions the VM was given.
    given: usize,
    /// How many requests of the VM were held against the journal or recorded.
    asked: u32,
    /// How many lines it logged.
    said: usize,
    /// How the script ended, once it did; its calls may still be running.
    end: Option<CallOutcome>,
    /// Which reading of the journal all this belongs to.
    reloads: u64,
    /// A turn that came back and was not looked at yet.
    taken: Option<Taken>,
    /// The handlers that run here.
    handlers: HashMap<CallNo, Handler>,
    entered: u64,
    /// Outcomes of handlers that were not recorded yet.
    outcomes: VecDeque<Outcome>,
    finished: mpsc::UnboundedReceiver<Outcome>,
    report: mpsc::UnboundedSender<Outcome>,
    /// Runs while the VM has nothing to do.
    parking: Option<(Awaited, Pin<Box<Sleep>>)>,
    /// How often the VM died on us.
    crashes: u32,
    /// The journal's length at the last look: what does not grow does not get on.
    seen_version: u64,
}

/// A handler that runs here. Numbers of calls come back when a journal is read anew, numbers of entries do not.
struct Handler {
    entry: u64,
    task: JoinHandle<()>,
}

/// What became of a handler.
struct Outcome {
    call: CallNo,
    entry: u64,
    ended: Ended,
}

/// What a script waits for while its VM has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Only people.
    People,
    /// A handler, or the end of a sleep.
    Work,
}

/// Whether anything was done that calls for another look.
#[derive(PartialEq, Eq)]
enum Done {
    Something,
    Nothing,
}

impl Kernel {
    /// Conducts a script until it ends, is parked, or is in doubt. The caller has set `driven`.
    pub(crate) async fn conduct(self: Arc<Self>, live: Arc<Live>, vm: Option<PlacedVm>) {
        let mut backoff = Backoff::new(&self);
        if self.scripts.is_none() {
            tracing::warn!(execution = %live.id, "left alone: nothing here runs scripts");
            return self.abandon(&live).await;
        }
        let mut conductor = Conductor::new(&self, &live, vm);
        let mut failed_at = None;
        loop {
            match conductor.step().await {
                Ok(Flow::Stop) => return,
                Ok(Flow::Continue) => {
                    if failed_at.is_some_and(|version| version != conductor.seen_version) {
                        failed_at = None;
                        backoff.reset();
                    }
                }
                Err(error) => {
                    failed_at = Some(conductor.seen_version);
                    if let Err(error) = backoff.pause(error).await {
                        tracing::error!(execution = %live.id, cause = ?error, "the script cannot go on");
                        conductor.retire().await;
                        return self.abandon(&live).await;
                    }
                }
            }
        }
    }
}

impl Conductor {
    fn new(kernel: &Arc<Kernel>, live: &Arc<Live>, vm: Option<PlacedVm>) -> Self {
        let (report, finished) = mpsc::unbounded_channel();
        Self {
            kernel: Arc::clone(kernel),
            live: Arc::clone(live),
            machine: Machine::New(vm),
            given: 0,
            asked: 0,
            said: 0,
            end: None,
            reloads: 0,
            taken: None,
            handlers: HashMap::new(),
            entered: 0,
            outcomes: VecDeque::new(),
            finished,
            report,
            parking: None,
            crashes: 0,
            seen_version: 0,
        }
    }

    /// Does what can be done now, then waits for something to happen.
    async fn step(&mut self) -> Result<Flow, GatewayError> {
        let kernel = Arc::clone(&self.kernel);
        let waiting = kernel.waiters.join(self.live.id);
        let changed = waiting.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let mut state = kernel.lock(&self.live).await?;
        self.seen_version = state.execution.version();
        self.reconcile(&state).await;
        self.hear_of_outcomes();
        if state.execution.next() == Next::Done {
            return self.leave(state).await;
        }
        if self.progress(&mut state).await? == Done::Something {
            return Ok(Flow::Continue);
        }
        if self.is_to_leave(&state) {
            return self.leave(state).await;
        }
        let nap = self.nap(&state);
        self.watch_the_parking(&state);
        drop(state);
        self.wait(changed, nap).await;
        Ok(Flow::Continue)
    }

    /// What was remembered of a journal that turned out otherwise is forgotten; handlers whose start it still holds go
    /// on.
    async fn reconcile(&mut self, state: &State) {
        if self.reloads == state.reloads {
            return;
        }
        self.reloads = state.reloads;
        self.start_over();
        let gone: Vec<CallNo> = self.handlers.keys().copied().filter(|no| !is_running(state, *no)).collect();
        for no in gone {
            self.drop_handler(no).await;
        }
    }

    /// Each of these is one thing that is recorded, then done.
    async fn progress(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        if self.record_outcome(state).await? == Done::Something || self.take(state)? == Done::Something {
            return Ok(Done::Something);
        }
        if matches!(state.execution.next(), Next::AwaitSettlement(_)) || self.kernel.is_closed() {
            return Ok(Done::Nothing);
        }
        if self.wake(state)? == Done::Something {
            return Ok(Done::Something);
        }
        self.look_for_reasons_to_end(state);
        let may_act = (self.is_held_against(state) || self.end.is_some()) && !self.has_diverged();
        if may_act && self.carry_out(state).await? == Done::Something {
            return Ok(Done::Something);
        }
        if self.end.is_some() {
            if self.wind_down(state).await? == Done::Something {
                return Ok(Done::Something);
            }
        } else {
            self.begin_turn(state);
        }
        self.say_that_it_waits(state)
    }

    /// Somebody wants it stopped, or its journal is full.
    fn look_for_reasons_to_end(&mut self, state: &State) {
        if self.end.is_none() && self.live.wish().is_some() {
            self.machine = Machine::Over;
            self.end = Some(CallOutcome::Failed(Failure::new("cancelled", "The script was stopped.")));
        }
        if self.end.is_none() {
            self.has_room(state);
        }
    }

    /// Ends the sleeps whose time is up.
    fn wake(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        let now = self.kernel.now_for(state);
        let due: Vec<EventBody> = state
            .execution
            .progress()
            .sleeps()
            .filter(|(_, until)| *until <= now)
            .map(|(request, _)| EventBody::SleepEnded { request })
            .collect();
        if due.is_empty() || !self.is_held_against(state) {
            return Ok(Done::Nothing);
        }
        self.kernel.note(state, due)?;
        Ok(Done::Something)
    }

    /// Records that only people can bring the script on. One that was given everything, and neither ended nor waits for
    /// anything, never will end.
    fn say_that_it_waits(&mut self, state: &mut State) -> Result<Done, GatewayError> {
        if !self.is_idle(state) && self.end.is_none() {
            return Ok(Done::Nothing);
        }
        let progress = state.execution.progress();
        let asleep = progress.sleeps().next().is_some();
        if state.execution.unsettled().next().is_none() && !asleep && self.end.is_none() {
            let message = "The script waits for a promise that nothing will settle.";
            self.end = Some(CallOutcome::Failed(Failure::new("script_stuck", message)));
            return Ok(Done::Something);
        }
        if progress.has_seen_all() || asleep || !state.execution.calls_wait() {
            return Ok(Done::Nothing);
        }
        let seen = u32::try_from(progress.completions()).unwrap_or(u32::MAX);
        self.kernel.note(state, vec![EventBody::ScriptWaits { seen }])?;
        Ok(Done::Something)
    }

    fn nap(&self, state: &State) -> Option<Duration> {
        let halted = matches!(state.execution.next(), Next::AwaitSettlement(_)) || self.kernel.is_closed();
        if halted || !self.is_held_against(state) {
            return None;
        }
        let until = state.execution.progress().sleeps().map(|(_, until)| until).min()?;
        Some(self.kernel.now_for(state).until(until).clamp(SHORTEST_NAP, LONGEST_NAP))
    }

    async fn wait(&mut self, changed: Pin<&mut tokio::sync::futures::Notified<'_>>, nap: Option<Duration>) {
        let (kernel, live) = (Arc::clone(&self.kernel), Arc::clone(&self.live));
        let place_needed = turn::place_needed(&self.machine);
        tokio::select! {
            biased;
            taken = turn::taken(&mut self.machine) => self.taken = Some(taken),
            Some(outcome) = self.finished.recv() => self.outcomes.push_back(outcome),
            () = changed => {}
            () = after(nap) => {}
            () = elapsed(&mut self.parking) => {}
            () = place_needed => self.machine = Machine::Away,
            () = kernel.closing(), if !kernel.is_closed() => {}
            () = live.cancel_requested() => {}
        }
    }
}

/// Whether the journal says that a call's handler runs.
fn is_running(state: &State, no: CallNo) -> bool {
    state
        .execution
        .call(no)
        .is_some_and(|call| matches!(call.phase(), countersign_core::execution::Phase::Running(_)))
}

async fn after(nap: Option<Duration>) {
    match nap {
        Some(nap) => tokio::time::sleep(nap).await,
        None => std::future::pending().await,
    }
}

/// Completes when a timer that has not run out yet does.
async fn elapsed(timer: &mut Option<(Awaited, Pin<Box<Sleep>>)>) {
    match timer {
        Some((_, sleep)) if !sleep.is_elapsed() => sleep.await,
        _ => std::future::pending().await,
    }
}
