//! The fixture: an execution told event by event, with what is expected of it in between.
//!
//! Ids count up from 1 and each event comes a millisecond after the last, so that a whole journal can be compared as
//! text. An event that is refused does not end the case: it is tried on a copy, and the copy must be poisoned.

use std::fmt::Write as _;
use std::sync::Arc;

use countersign_core::audit::AuditEntry;
use countersign_core::elicitation::{Decision, Elicitation, Origin};
use countersign_core::event::{CallOutcome, Event, EventBody, Kind, Settlement, Started, StartedBy};
use countersign_core::execution::{ApplyError, Call, Execution, Next, Status};
use countersign_core::ids::{CallNo, ElicitationId};
use countersign_core::time::Timestamp;
use countersign_sdk::{AskKind, Effects, Outcome};
use serde_json::Value;

use crate::sample;
use crate::sample::{CALL, eli, ms};

#[derive(Clone)]
pub(crate) struct Case {
    execution: Execution,
    journal: Vec<Event>,
    now: Timestamp,
}

impl Case {
    /// An accepted execution of one call.
    pub(crate) fn new() -> Self {
        Self::of(Kind::Call)
    }

    pub(crate) fn of(kind: Kind) -> Self {
        Self::of_facts(sample::started(kind))
    }

    pub(crate) fn of_facts(facts: Started) -> Self {
        let first = Event { at: ms(1), body: EventBody::Started(facts) };
        let execution = Execution::start(&first).unwrap();
        Self { execution, journal: vec![first], now: ms(1) }
    }

    /// A destructive call that a person approved and that was let run.
    pub(crate) fn approved(effects: Effects) -> Self {
        Self::new().issue(effects).ask().decide(Outcome::Approved).start(sample::by_answer(1))
    }

    pub(crate) fn issue(self, effects: Effects) -> Self {
        self.apply(EventBody::CallIssued(sample::issued(CALL, effects)))
    }

    /// The gate asks.
    pub(crate) fn ask(self) -> Self {
        let question = sample::question(self.fresh(), Origin::Gate, self.next_at());
        self.apply(EventBody::Asked(Arc::new(question)))
    }

    /// The handler asks yes or no.
    pub(crate) fn ask_by_handler(self) -> Self {
        self.ask_by_handler_for(AskKind::Approval)
    }

    pub(crate) fn ask_by_handler_for(self, kind: AskKind) -> Self {
        let question = Elicitation { kind, ..self.handlers_question() };
        self.apply(EventBody::Asked(Arc::new(question)))
    }

    /// The next question of the handler, not asked yet.
    pub(crate) fn handlers_question(&self) -> Elicitation {
        let asks = self.call().run().map_or(0, |run| run.asks.len());
        let origin = Origin::Handler { ordinal: u32::try_from(asks).unwrap() };
        sample::question(self.fresh(), origin, self.next_at())
    }

    /// The oldest open question is answered.
    pub(crate) fn decide(self, outcome: Outcome) -> Self {
        let id = self.execution.open().next().map(|e| e.id);
        let id = id.unwrap_or_else(|| panic!("no question is open\n{}", self.journal()));
        let decision = sample::decision(outcome, self.next_at());
        self.apply(sample::decided(id, decision))
    }

    /// The `n`th question is answered.
    pub(crate) fn decide_on(self, n: u8, outcome: Outcome) -> Self {
        let decision = sample::decision(outcome, self.next_at());
        self.decide_with(n, decision)
    }

    pub(crate) fn decide_with(self, n: u8, decision: Decision) -> Self {
        self.apply(sample::decided(eli(n), decision))
    }

    /// The gateway withdraws the `n`th question.
    pub(crate) fn withdraw(self, n: u8) -> Self {
        let decision = sample::withdrawal(self.next_at());
        self.decide_with(n, decision)
    }

    /// The handler is let run; or, on the answer to a question of its own, let run on.
    pub(crate) fn start(self, by: StartedBy) -> Self {
        self.apply(sample::start(by))
    }

    pub(crate) fn step(self, name: &str) -> Self {
        let value = sample::verbatim(&Value::from(name.len()));
        self.apply(EventBody::StepRecorded { call: CALL, name: name.into(), value })
    }

    pub(crate) fn settle_ok(self) -> Self {
        self.settle(sample::succeeded())
    }

    pub(crate) fn settle(self, outcome: CallOutcome) -> Self {
        self.apply(sample::settled(outcome))
    }

    /// Records what `next` says: that the call was refused, or the end.
    pub(crate) fn follow(self) -> Self {
        match self.execution.next() {
            Next::Settle(call, failure) => {
                self.apply(EventBody::CallSettled { call, outcome: CallOutcome::Failed(failure) })
            }
            Next::Finish(outcome) => self.apply(EventBody::finished(outcome)),
            other => panic!("{other:?} is nothing to record\n{}", self.journal()),
        }
    }

    /// The execution ends as its call did.
    pub(crate) fn finish(self) -> Self {
        assert!(matches!(self.execution.next(), Next::Finish(_)), "{:?}", self.execution.next());
        self.follow()
    }

    pub(crate) fn cancel(self) -> Self {
        self.apply(EventBody::Cancelled {
            by: Some(sample::principal("ann")),
            reason: "no longer wanted".into(),
        })
    }

    /// The process died, and nobody knows what became of the call.
    pub(crate) fn doubt(self) -> Self {
        self.apply(EventBody::FoundInDoubt { call: CALL, reason: None })
    }

    pub(crate) fn settle_doubt(self, settlement: Settlement) -> Self {
        self.apply(EventBody::DoubtSettled { call: CALL, settlement, by: sample::principal("ann") })
    }

    /// A script, accepted.
    pub(crate) fn script() -> Self {
        Self::of(Kind::Script)
    }

    /// The script asks for its next call.
    pub(crate) fn request(self, effects: Effects) -> Self {
        let no = CallNo(u32::try_from(self.execution.calls().len()).unwrap());
        self.apply(EventBody::CallIssued(sample::requested(no, effects)))
    }

    /// The gate asks about one of a script's calls.
    pub(crate) fn ask_about(self, call: u32) -> Self {
        let question = sample::question(self.fresh(), Origin::Gate, self.next_at());
        self.apply(sample::ask(Elicitation { call: CallNo(call), ..question }))
    }

    pub(crate) fn start_call(self, call: u32, by: StartedBy) -> Self {
        self.apply(EventBody::CallStarted { call: CallNo(call), by })
    }

    pub(crate) fn settle_call(self, call: u32, outcome: CallOutcome) -> Self {
        self.apply(EventBody::CallSettled { call: CallNo(call), outcome })
    }

    /// One of a script's calls from its request to its value.
    pub(crate) fn read(self, call: u32) -> Self {
        self.request(sample::READS).start_call(call, sample::by_rule()).settle_call(call, sample::succeeded())
    }

    /// The script's end.
    pub(crate) fn end(self, outcome: CallOutcome) -> Self {
        self.apply(EventBody::finished(outcome))
    }

    /// Lets time pass: the next event comes at this millisecond.
    pub(crate) fn at(mut self, at: u64) -> Self {
        self.now = ms(at - 1);
        self
    }

    /// The next event, which must fit.
    pub(crate) fn apply(mut self, body: EventBody) -> Self {
        let event = Event { at: self.next_at(), body };
        if let Err(error) = self.execution.apply(&event) {
            panic!("{error}\n{}", self.journal());
        }
        self.now = event.at;
        self.journal.push(event);
        assert_eq!(self.execution.version(), self.journal.len() as u64, "each event counts once");
        self
    }

    /// The next event, which must not fit, for the reason given.
    pub(crate) fn refuse(self, body: EventBody, reason: &str) -> Self {
        let event = Event { at: self.next_at(), body };
        let mut copy = self.execution.clone();
        match copy.apply(&event) {
            Err(ApplyError::Illegal { problem, .. }) if problem.contains(reason) => {}
            other => panic!("{} gave {other:?} instead of {reason:?}\n{}", event.body.name(), self.journal()),
        }
        assert_eq!(copy.apply(&event), Err(ApplyError::Poisoned));
        self
    }

    pub(crate) fn expect_status(self, status: Status) -> Self {
        assert_eq!(self.execution.status(), status, "\n{}", self.journal());
        self
    }

    pub(crate) fn expect_next(self, next: &Next) -> Self {
        assert_eq!(self.execution.next(), *next, "\n{}", self.journal());
        self
    }

    /// The same execution after the process died: everything it knew beside its journal is gone.
    pub(crate) fn replayed(&self) -> Execution {
        Execution::replay(&self.journal).unwrap()
    }

    pub(crate) fn execution(&self) -> &Execution {
        &self.execution
    }

    pub(crate) fn execution_mut(&mut self) -> &mut Execution {
        &mut self.execution
    }

    pub(crate) fn call(&self) -> &Call {
        self.execution.call(CALL).unwrap()
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.journal
    }

    pub(crate) fn next_at(&self) -> Timestamp {
        ms(self.now.as_millis() + 1)
    }

    fn fresh(&self) -> ElicitationId {
        eli(u8::try_from(self.execution.asked().len() + 1).unwrap())
    }

    /// The whole journal: each event, its audit record, and what the execution says after it.
    pub(crate) fn journal(&self) -> String {
        let mut text = String::new();
        let mut execution = Execution::start(&self.journal[0]).unwrap();
        for (i, event) in self.journal.iter().enumerate() {
            if i > 0 {
                execution.apply(event).unwrap();
            }
            let at = event.at.as_millis();
            writeln!(text, "{at} ms {}", event.body.name()).unwrap();
            let stored = serde_json::to_value(&event.body).unwrap();
            fields("", stored.as_object().unwrap().values().next().unwrap(), &mut text);
            writeln!(text, "    audit: {}", short(&audited(&AuditEntry::of(&execution, event)))).unwrap();
            let next = short(&format!("{:?}", execution.next()));
            writeln!(text, "    => {}, {next}", execution.status().as_str()).unwrap();
            for no in 0..execution.calls().len() as u32 {
                drop(execution.take_permit(CallNo(no)));
            }
        }
        text
    }
}

/// The gate's question, open: asked at 3, so expired from 1003 on.
pub(crate) fn asked() -> Case {
    Case::new().issue(sample::DELETES).ask()
}

/// A safe call whose handler asks, at 4, so expired from 1004 on.
pub(crate) fn handler_asked() -> Case {
    Case::new().issue(sample::READS).start(sample::by_rule()).ask_by_handler()
}

/// Who, about what, on what digest: what happened.
fn audited(entry: &AuditEntry) -> String {
    let by = entry.by.as_ref().map_or("gateway".to_owned(), ToString::to_string);
    let call = entry.call.map(|call| format!(", call {call}")).unwrap_or_default();
    let elicitation = entry.elicitation.map(|id| format!(", {id}")).unwrap_or_default();
    let digest = entry.digest.map(|digest| format!(", {digest}")).unwrap_or_default();
    format!("{by}{call}{elicitation}{digest}: {} {}", entry.what, entry.detail)
}

/// One line for each leaf of a value, named by its path.
fn fields(path: &str, value: &Value, text: &mut String) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                fields(&path, member, text);
            }
        }
        leaf => writeln!(text, "    {path}: {}", short(&leaf.to_string())).unwrap(),
    }
}

/// Ids without their zeros and digests cut short, for people to read.
fn short(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut words: Vec<String> = text.split_inclusive(|c| !is_word(c)).map(str::to_owned).collect();
    for word in &mut words {
        let end = word.trim_end_matches(|c| !is_word(c)).len();
        let (core, tail) = word.split_at(end);
        let is_hex = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
        let shortened = match core.split_once('_') {
            Some((prefix, digits)) if digits.len() == 32 && is_hex(digits) => {
                format!("{prefix}_{}", digits.trim_start_matches('0'))
            }
            None if core.len() == 64 && is_hex(core) => format!("{}…", &core[..8]),
            _ => core.to_owned(),
        };
        *word = shortened + tail;
    }
    words.concat()
}
