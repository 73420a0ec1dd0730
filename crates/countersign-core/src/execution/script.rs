//! The requests and completions of a script: the part of its journal that a replay is compared with.
//!
//! Promise (R8): the same code, given the recorded completions in their recorded order, asks for the same, or the first
//! difference is named with both digests before anything runs. A completed request is never carried out again.

use super::{Call, Execution, Phase};
use crate::bounds;
use crate::canonical::{Canonical, Verbatim};
use crate::digest::Digest;
use crate::event::{CallOutcome, Failure, Script};
use crate::ids::{CallNo, RequestNo};
use crate::time::Timestamp;

/// The progress of a script, as its journal tells it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    requests: Vec<Recorded>,
    by_call: Vec<RequestNo>,
    completions: Vec<(RequestNo, Timestamp)>,
    seen: usize,
    asleep: usize,
    weight: usize,
}

/// A request of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The digest of the request.
    pub digest: Digest,
    /// The result of the request.
    pub became: Became,
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Became {
    Call(CallNo),
    /// Refused: it throws where the script made it.
    Refused {
        /// The path as the script wrote it.
        path: String,
        failure: Failure,
    },
    /// A sleep that is not over yet.
    Asleep {
        /// When it is over.
        until: Timestamp,
    },
    /// A sleep that is over.
    Awake,
}

/// A completion of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Completed {
    /// The request it answers.
    pub request: RequestNo,
    /// When it was recorded.
    pub at: Timestamp,
    /// The outcome that the script gets.
    pub outcome: CallOutcome,
}

/// A replay that differs from its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the replay left its journal at request {request}: recorded was {expected}, the script now asks for {found}; \
     nothing ran"
)]
pub struct Divergence {
    /// Where.
    pub request: RequestNo,
    /// The recorded digest, or that there is none.
    pub expected: String,
    /// The digest of what the script asks for now, or that it asks for nothing.
    pub found: String,
}

impl Divergence {
    /// The stable code.
    pub const CODE: &'static str = "diverged";
}

/// The digest of a call as a script asks for it.
pub fn call_digest(path: &str, args: &Canonical) -> Digest {
    Digest::of_parts(&[b"countersign/request/call/1", path.as_bytes(), args.as_str().as_bytes()])
}

/// The digest of a sleep as a script asks for it.
pub fn sleep_digest(ms: u64) -> Digest {
    Digest::of_parts(&[b"countersign/request/sleep/1", &ms.to_be_bytes()])
}

impl Execution {
    /// The script, where the execution is one.
    pub fn script(&self) -> Option<&Script> {
        self.facts.script.as_deref()
    }

    /// The script's progress.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The script's completions in their recorded order, from the `from`th on.
    pub fn completed(&self, from: usize) -> impl Iterator<Item = Completed> {
        self.progress.completions.iter().skip(from).map(|(request, at)| Completed {
            request: *request,
            at: *at,
            outcome: self.outcome_of(*request),
        })
    }

    /// The recorded request with a number; nothing where the request is new, an error where it is another one.
    pub fn holds_against(&self, request: RequestNo, found: Digest) -> Result<Option<&Recorded>, Divergence> {
        match self.progress.requests.get(request.0 as usize) {
            Some(recorded) if recorded.digest == found => Ok(Some(recorded)),
            Some(recorded) => Err(Divergence {
                request,
                expected: self.described(recorded),
                found: format!("digest {found}"),
            }),
            None => Ok(None),
        }
    }

    /// A replay that stopped before it asked for all that is recorded.
    pub fn missing(&self, request: RequestNo) -> Divergence {
        let recorded = self.progress.requests.get(request.0 as usize);
        let expected = recorded.map_or_else(|| "nothing".to_owned(), |recorded| self.described(recorded));
        Divergence { request, expected, found: "nothing".to_owned() }
    }

    fn outcome_of(&self, request: RequestNo) -> CallOutcome {
        let lost = || CallOutcome::Failed(Failure::new("unavailable", "The outcome is not recorded."));
        match self.progress.requests.get(request.0 as usize).map(|recorded| &recorded.became) {
            Some(Became::Call(no)) => match self.call(*no).map(Call::phase) {
                Some(Phase::Settled(outcome)) => outcome.clone(),
                _ => lost(),
            },
            Some(Became::Refused { failure, .. }) => CallOutcome::Failed(failure.clone()),
            Some(Became::Awake) => CallOutcome::Succeeded(Verbatim::null()),
            Some(Became::Asleep { .. }) | None => lost(),
        }
    }

    fn described(&self, recorded: &Recorded) -> String {
        let what = match &recorded.became {
            Became::Call(no) => self.call(*no).map_or_else(String::new, |call| call.path.to_string()),
            Became::Refused { path, .. } => path.clone(),
            Became::Asleep { .. } | Became::Awake => "sleep".to_owned(),
        };
        format!("{what} with digest {}", recorded.digest)
    }
}

impl Progress {
    /// Everything the script asked for, in order.
    pub fn requests(&self) -> &[Recorded] {
        &self.requests
    }

    /// How many of its requests were answered.
    pub fn completions(&self) -> usize {
        self.completions.len()
    }

    /// Whether the script is known to have been given everything there is for it.
    pub fn has_seen_all(&self) -> bool {
        self.seen == self.completions.len()
    }

    /// The sleeps that are not over: which, and until when.
    pub fn sleeps(&self) -> impl Iterator<Item = (RequestNo, Timestamp)> {
        // Most scripts never sleep; those that do look only as far as they must.
        let numbered = self.requests.iter().enumerate().take(if self.asleep == 0 { 0 } else { usize::MAX });
        numbered.filter_map(|(no, recorded)| match recorded.became {
            Became::Asleep { until } => Some((RequestNo(no as u32), until)),
            _ => None,
        })
    }

    /// How many bytes of arguments and results the journal holds.
    pub fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.asleep > 0
    }

    pub(super) fn weigh(&mut self, bytes: usize) {
        self.weight = self.weight.saturating_add(bytes);
    }

    pub(super) fn request(&mut self, digest: Digest, became: Became) -> Result<RequestNo, &'static str> {
        if self.requests.len() >= bounds::MAX_CALLS as usize {
            return Err("the script has asked for as much as it may");
        }
        let no = RequestNo(self.requests.len() as u32);
        match &became {
            Became::Call(_) => self.by_call.push(no),
            Became::Asleep { .. } => self.asleep += 1,
            Became::Refused { .. } | Became::Awake => {}
        }
        self.requests.push(Recorded { digest, became });
        Ok(no)
    }

    pub(super) fn complete(&mut self, request: RequestNo, at: Timestamp) {
        self.completions.push((request, at));
    }

    pub(super) fn complete_call(&mut self, call: CallNo, at: Timestamp) {
        if let Some(request) = self.by_call.get(call.0 as usize) {
            self.completions.push((*request, at));
        }
    }

    pub(super) fn wake(&mut self, request: RequestNo, at: Timestamp) -> Result<(), &'static str> {
        let recorded = self.requests.get_mut(request.0 as usize).ok_or("no such request")?;
        let Became::Asleep { until } = recorded.became else { return Err("it does not sleep") };
        if at < until {
            return Err("its sleep is not over");
        }
        recorded.became = Became::Awake;
        self.asleep -= 1;
        self.complete(request, at);
        Ok(())
    }

    /// The script has been given everything so far.
    pub(super) fn saw_all(&mut self) {
        self.seen = self.completions.len();
    }

    pub(super) fn saw(&mut self, seen: u32) -> Result<(), &'static str> {
        let seen = seen as usize;
        if seen < self.seen || seen > self.completions.len() {
            return Err("it cannot have seen that");
        }
        self.seen = seen;
        Ok(())
    }
}
