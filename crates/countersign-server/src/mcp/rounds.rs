//! Asking a person in the 2026-07-28 era: the answer to a call says what is to be asked, and the client calls again with what
//! was said and the state it was given.
//!
//! Promise: a state is good for the request it was given for, once. What it carries are handles; the question, its answer and
//! whether it was used are in the gateway's journal. Answers without a state of ours are not looked at.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, PoisonError};

use countersign_core::elicitation::{Decider, Elicitation};
use countersign_core::ids::ElicitationId;
use countersign_kernel::ExecutionResult;
use countersign_kernel::ports::ElicitationRow;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, ElicitRequest, ElicitRequestParams, InputRequest, InputRequests, InputRequiredResult,
    InputResponses,
};
use serde_json::{Value, json};

use super::answer::{Shape, about, answer, invalid, unavailable, unserved};
use super::attend::{Attendance, Unanswered};
use super::person::{CHANNEL, person_at_client};
use super::prompts::{MOST_UNREAD, Taken};
use super::question;
use super::requests::{Era, Incoming, Way};
use super::seal::State;

/// Questions whose answers are being taken right now: of two retries with one state, one counts.
#[derive(Default)]
pub(super) struct Claims {
    taken: Mutex<HashSet<ElicitationId>>,
}

/// The right to answer a question, given up when dropped.
struct Claim<'a> {
    claims: &'a Claims,
    id: ElicitationId,
}

impl Claims {
    fn claim(&self, id: ElicitationId) -> Option<Claim<'_>> {
        let is_first = self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        // Made only where it holds: a claim that is dropped gives the question up.
        is_first.then(|| Claim { claims: self, id })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Incoming<'_> {
    /// Says what is to be asked, and gives the state to come back with.
    pub(super) fn input_required(
        &self,
        result: &ExecutionResult,
        unread: u8,
    ) -> Result<CallToolResponse, ErrorData> {
        let questions = result.pending.iter().map(|pending| &*pending.elicitation);
        let requests = input_requests(questions.clone());
        if requests.is_empty() {
            // Nothing of it can be asked here; a person elsewhere can answer.
            return Ok(answer(result, Shape::Execution, &self.front.links).into());
        }
        let state = State {
            execution: result.execution,
            questions: questions.clone().map(|e| (e.id, e.digest)).collect(),
            unread,
        };
        let now = self.front.gateway.now();
        let lives = questions.clone().map(|e| now.until(e.expires_at)).max().unwrap_or_default();
        let sealed = self.bound().and_then(|bound| self.front.seal.close(&state, bound, lives));
        let sealed = sealed.ok_or_else(|| unavailable("internal", "the state could not be sealed"))?;
        let required = InputRequiredResult::new(Some(requests), Some(sealed));
        Ok(required.with_meta(about(result.execution)).into())
    }

    /// A client came back with its state: takes what was said, and goes on with the execution.
    pub(super) async fn go_on(
        &self,
        sealed: &str,
        responses: Option<&InputResponses>,
        shape: Shape,
    ) -> Result<CallToolResponse, ErrorData> {
        let opened = self.bound().and_then(|bound| self.front.seal.open(sealed, bound));
        let state = opened.ok_or_else(not_ours)?;
        let mut unread = state.unread;
        // A client that no longer says that it can ask is not believed to have asked.
        let responses = responses.filter(|_| self.way == Way::Rounds);
        for (id, digest) in &state.questions {
            let Some(response) = responses.and_then(|responses| responses.get(&id.to_string())) else {
                continue;
            };
            let Some(_claim) = self.front.claims.claim(*id) else { return Err(used(&state)) };
            let row = self.front.gateway.elicitation(*id).await.map_err(|error| unserved(&error))?;
            let fits =
                |row: &ElicitationRow| row.execution == state.execution && row.elicitation.digest == *digest;
            let row = row.filter(fits).ok_or_else(not_ours)?;
            if self.answered(&row) {
                return Err(used(&state));
            }
            if row.decision.is_none() && !self.take(&row.elicitation, response).await? {
                unread = unread.saturating_add(1);
            }
        }
        let mut attendance = Attendance::again(self, state.execution);
        let answered = attendance.next_round(unread, shape).await;
        attendance.or_last_word(answered, shape).await
    }

    /// Takes one answer; false where it could not be read.
    pub(super) async fn take(&self, elicitation: &Elicitation, response: &Value) -> Result<bool, ErrorData> {
        match question::read(elicitation, response) {
            Some(answer) => Ok(self.decide(elicitation, answer).await? != Taken::Unread),
            None => Ok(false),
        }
    }

    /// Whether a question was decided through this very client.
    fn answered(&self, row: &ElicitationRow) -> bool {
        let Some(decision) = &row.decision else { return false };
        let me = person_at_client(&self.caller);
        let by_me = matches!(&decision.by, Decider::Person { principal, token } if *principal == me.principal.id && *token == me.token);
        by_me && decision.channel == CHANNEL
    }
}

impl Attendance<'_> {
    /// What comes after a round: what is to be asked next, or the answer.
    async fn next_round(&mut self, unread: u8, shape: Shape) -> Result<CallToolResponse, Unanswered> {
        let (incoming, result) = (self.incoming, self.until_paused().await?);
        if incoming.way == Way::Rounds && !result.pending.is_empty() && unread < MOST_UNREAD {
            return Ok(incoming.input_required(&result, unread)?);
        }
        Ok(answer(&result, shape, &incoming.front.links).into())
    }
}

/// The questions, by their ids.
pub(super) fn input_requests<'a>(questions: impl Iterator<Item = &'a Elicitation>) -> InputRequests {
    let shown = questions.filter_map(|e| Some((e.id.to_string(), input_request(e)?)));
    shown.collect::<BTreeMap<_, _>>()
}

fn input_request(elicitation: &Elicitation) -> Option<InputRequest> {
    let mut params = question::params(elicitation, Era::July2026);
    let typed = serde_json::from_value::<ElicitRequestParams>(params.clone());
    let typed = typed.or_else(|_| {
        // rmcp knows the fields of the specification only; what an author added beyond them is left out.
        question::plain(&mut params["requestedSchema"]);
        serde_json::from_value(params)
    });
    match typed {
        Ok(params) => Some(InputRequest::Elicitation(ElicitRequest::new(params))),
        Err(error) => {
            tracing::warn!(%error, "a form cannot be put to clients of this era; it waits elsewhere");
            None
        }
    }
}

fn not_ours() -> ErrorData {
    invalid(
        "request_state_invalid",
        "the requestState is not one that was given for this call, or its time is up; call again without it",
    )
}

fn used(state: &State) -> ErrorData {
    let message =
        format!("the requestState was used already; call resume with execution_id {}", state.execution);
    let data = json!({ "code": "request_state_used", "executionId": state.execution });
    ErrorData::invalid_params(message, Some(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_by_one_retry_at_a_time() {
        let claims = Claims::default();
        let (one, other) = (ElicitationId::from_random([1; 16]), ElicitationId::from_random([2; 16]));
        let claim = claims.claim(one);
        assert!(claim.is_some());
        assert!(claims.claim(one).is_none(), "it is being answered");
        assert!(claims.claim(other).is_some());
        drop(claim);
        assert!(claims.claim(one).is_some(), "whoever comes later reads what was decided");
    }
}
