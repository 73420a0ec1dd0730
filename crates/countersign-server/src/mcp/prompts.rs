//! Asking a person in the 2025 era: the server puts the question to the client while the call is open.
//!
//! The same question stands everywhere else too. Whoever answers first decides; if that was not this client, its prompt is
//! withdrawn. A client that leaves, fails or answers nonsense has decided nothing.

use countersign_core::elicitation::Elicitation;
use countersign_kernel::{Answer, Decide, DecideError, ExecutionResult, Target};
use rmcp::model::{ClientResult, CustomRequest, PingRequest, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle};
use rmcp::{ErrorData, RoleServer, ServiceError};
use serde_json::Value;

use super::answer::unserved;
use super::attend::{Attendance, Unanswered};
use super::person::{CHANNEL, person_at_client};
use super::question;
use super::requests::{ToClient, Way};
use crate::session::is_of_mcp_client;

/// How often a client that answers nonsense is asked again.
pub(super) const MOST_UNREAD: u8 = 3;

/// What asking came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The question is decided, here or elsewhere.
    Decided,
    /// This client does not answer it; it stays open.
    LeftOpen,
}

/// What came of one prompt.
enum Heard {
    /// The client's response.
    Response(Result<ClientResult, ServiceError>),
    /// Somebody decided elsewhere.
    Elsewhere,
}

impl Attendance<'_> {
    /// Puts the oldest open question to the client, and waits for as long as it takes.
    pub(super) async fn ask_in_client(&mut self, result: &ExecutionResult) -> Result<Asked, Unanswered> {
        let Some(pending) = result.paused() else { return Ok(Asked::Decided) };
        let elicitation = &pending.elicitation;
        for _ in 0..MOST_UNREAD {
            let response = match self.prompt(elicitation).await? {
                Heard::Elsewhere => return Ok(Asked::Decided),
                Heard::Response(Ok(response)) => serde_json::to_value(response).unwrap_or(Value::Null),
                Heard::Response(Err(error)) => {
                    tracing::debug!(%error, "a client did not ask; the question stays open");
                    return Ok(Asked::LeftOpen);
                }
            };
            let Some(answer) = question::read(elicitation, &response) else {
                tracing::debug!("a client's answer could not be read; it is asked again");
                continue;
            };
            match self.incoming.decide(elicitation, answer).await? {
                Taken::Counts => return Ok(Asked::Decided),
                Taken::Refused => return Ok(Asked::LeftOpen),
                Taken::Unread => {}
            }
        }
        Ok(Asked::LeftOpen)
    }

    async fn prompt(&mut self, elicitation: &Elicitation) -> Result<Heard, Unanswered> {
        let params = question::params(elicitation, self.incoming.era);
        let request = CustomRequest::new("elicitation/create", Some(params));
        let ToClient::Peer(peer) = self.incoming.scope.client.clone() else {
            return Ok(Heard::Response(Err(ServiceError::TransportClosed)));
        };
        if self.incoming.conversation.is_some_and(|conversation| conversation.first_request().is_now()) {
            use_up_the_first_id(&peer).await;
        }
        let sent = peer
            .send_request_with_option(ServerRequest::CustomRequest(request), PeerRequestOptions::no_options())
            .await;
        let mut prompt = match sent {
            Ok(prompt) => prompt,
            Err(error) => return Ok(Heard::Response(Err(error))),
        };
        let gateway = self.incoming.front.gateway.clone();
        let execution = self.execution;
        let heard = self.during(async {
            tokio::select! {
                biased;
                response = &mut prompt.rx => {
                    Ok(Heard::Response(response.unwrap_or(Err(ServiceError::TransportClosed))))
                }
                decided = gateway.until_answered(execution, elicitation.id) => {
                    decided.map(|()| Heard::Elsewhere)
                }
            }
        });
        match heard.await {
            Err(unanswered) => {
                let why = match &unanswered {
                    Unanswered::Stopping => "the server is stopping; the question stays open",
                    Unanswered::Gone | Unanswered::Failed(_) => "the call was cancelled",
                };
                withdraw(prompt, why).await;
                Err(unanswered)
            }
            Ok(Err(error)) => {
                withdraw(prompt, "the gateway cannot go on").await;
                Err(unserved(&error).into())
            }
            Ok(Ok(Heard::Elsewhere)) => {
                withdraw(prompt, "it was decided elsewhere").await;
                Ok(Heard::Elsewhere)
            }
            Ok(Ok(heard)) => Ok(heard),
        }
    }
}

/// rmcp numbers a conversation's requests from 0, and the official 1.x client takes a withdrawal of request 0 for one that
/// names none: its prompt would stay. So the first number goes to a ping, whose answer nobody needs.
pub(super) async fn use_up_the_first_id(peer: &Peer<RoleServer>) {
    let ping = ServerRequest::PingRequest(PingRequest::default());
    if let Err(error) = peer.send_request_with_option(ping, PeerRequestOptions::no_options()).await {
        tracing::debug!(%error, "a client could not be pinged");
    }
}

/// Takes a prompt back. A client that is gone shows none.
pub(super) async fn withdraw(prompt: RequestHandle<RoleServer>, why: &str) {
    if let Err(error) = prompt.cancel(Some(why.to_owned())).await {
        tracing::debug!(%error, "a prompt could not be withdrawn");
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The question is decided, by this answer or by another that was faster.
    Counts,
    /// The answer does not fit the question.
    Unread,
    /// The answer was not taken, and the question stays open.
    Refused,
}

impl super::requests::Incoming<'_> {
    /// Takes what the person at the client said, of a question that this client's own call asks.
    pub(super) async fn decide(&self, elicitation: &Elicitation, answer: Answer) -> Result<Taken, ErrorData> {
        if !self.asked_it(elicitation).await? {
            return Ok(Taken::Refused);
        }
        let decide = Decide {
            target: Target::Shown(elicitation.id, elicitation.digest),
            by: person_at_client(&self.caller),
            channel: CHANNEL.into(),
            answer,
            comment: None,
        };
        match self.front.gateway.decide(decide).await {
            Ok(_) | Err(DecideError::Decided(_) | DecideError::Expired | DecideError::Void(_)) => {
                Ok(Taken::Counts)
            }
            Err(DecideError::InvalidData(_) | DecideError::OutOfBounds(_)) => Ok(Taken::Unread),
            Err(DecideError::Gateway(error)) => Err(unserved(&error)),
            Err(error) => {
                tracing::warn!(%error, "an answer in a client was not taken");
                Ok(Taken::Refused)
            }
        }
    }

    /// Whether what an execution asks can be put to this client: it asks its user, and the call is its own.
    pub(super) async fn is_asked_here(&self, result: &ExecutionResult) -> Result<bool, ErrorData> {
        match result.paused() {
            // All questions of an execution are of one session.
            Some(pending) => self.asked_it(&pending.elicitation).await,
            None => Ok(false),
        }
    }

    /// Whether a question is of a call that this very client made over MCP. What the same token calls over REST is in
    /// another session, and was never shown here.
    async fn asked_it(&self, elicitation: &Elicitation) -> Result<bool, ErrorData> {
        if self.way == Way::Hold {
            return Ok(false);
        }
        let gateway = &self.front.gateway;
        let row = gateway.elicitation(elicitation.id).await.map_err(|error| unserved(&error))?;
        let Some(row) = row.filter(|row| row.requester == self.caller.principal.id) else { return Ok(false) };
        let owner = gateway.session_owner(&row.session).await.map_err(|error| unserved(&error))?;
        Ok(owner.is_some_and(|owner| is_of_mcp_client(&owner)))
    }
}
