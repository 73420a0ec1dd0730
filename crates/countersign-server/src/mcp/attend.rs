//! Waiting for an execution on behalf of a client: until it is over, or a person has to be asked and this client's way of
//! asking says what comes next.
//!
//! Whoever waits here can leave at any moment. The execution goes on by itself. A server that stops ends waiting and nothing
//! else: what is being accepted or decided at that moment comes to its end first, so that the client's last word is true.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::ids::ExecutionId;
use countersign_kernel::{Begun, ClientWaits, ExecutionResult, Following, GatewayError, Patience, Told};
use rmcp::ErrorData;
use rmcp::model::CallToolResponse;
use tokio::time::Instant;

use super::answer::{Shape, answer, unserved};
use super::prompts::Asked;
use super::requests::{Incoming, Way};
use super::words::{HEARTBEAT, Words};

/// How long a call that runs when the server stops may take to end, for its client to hear of it.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// One client that waits for one execution.
pub(super) struct Attendance<'a> {
    pub(super) incoming: &'a Incoming<'a>,
    pub(super) execution: ExecutionId,
    pub(super) words: Words,
    following: Option<Following>,
    /// What began it, where it began here, until it is over or asks: a call that asks nobody may be over before it is
    /// written down.
    begun: Option<Arc<Begun>>,
    /// Sources may ask the client while it is attended.
    _client: Option<ClientWaits>,
}

/// Why waiting gave no answer. Whatever was waited for goes on.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// The client no longer waits.
    Gone,
    /// The server stops.
    Stopping,
    /// The gateway could not do it.
    Failed(ErrorData),
}

impl From<ErrorData> for Unanswered {
    fn from(error: ErrorData) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Attendance<'a> {
    /// Waits for an execution that just began.
    pub(super) fn on(incoming: &'a Incoming<'a>, mut begun: Begun, words: Words) -> Self {
        let (execution, following, client) = (begun.execution, begun.following.take(), begun.client.take());
        Self { incoming, execution, words, following, begun: Some(Arc::new(begun)), _client: client }
    }

    /// Waits for an execution that began earlier.
    pub(super) fn again(incoming: &'a Incoming<'a>, execution: ExecutionId) -> Self {
        let words = Words::to(incoming);
        let follows = words.follow() == countersign_kernel::Follow::Yes;
        let following = follows.then(|| incoming.front.gateway.follow(execution));
        Self { incoming, execution, words, following, begun: None, _client: None }
    }

    /// Waits for something while the client hears what is said, unless it leaves or the server stops. Only for waiting:
    /// what must come to its end is done outside.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Unanswered> {
        let left = left(self.incoming);
        tokio::pin!(work, left);
        let mut pulse = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.tell_the_rest().await;
                    return Ok(done);
                }
                unanswered = &mut left => return Err(unanswered),
                told = heard(&mut self.following) => tokio::select! {
                    biased;
                    // A client that does not read must be able to leave all the same.
                    unanswered = &mut left => return Err(unanswered),
                    () = self.words.tell(told) => {}
                },
                _ = pulse.tick(), if self.words.has_pulse() => tokio::select! {
                    biased;
                    unanswered = &mut left => return Err(unanswered),
                    () = self.words.pulse() => {}
                },
            }
        }
    }

    async fn tell_the_rest(&mut self) {
        while let Some(told) = self.following.as_mut().and_then(Following::try_next) {
            self.words.tell(told).await;
        }
    }

    /// The execution, once it is as far as that.
    pub(super) fn stands(
        &self,
        patience: Patience,
    ) -> impl Future<Output = Result<ExecutionResult, ErrorData>> + Send + use<'a> {
        let gateway = &self.incoming.front.gateway;
        let (execution, begun) = (self.execution, self.begun.clone());
        async move {
            match begun {
                Some(begun) => gateway.wait_for(&begun, patience).await.map_err(|error| unserved(&error)),
                None => found(gateway.wait(execution, patience).await),
            }
        }
    }

    /// The execution, when it is over or waits for a person.
    pub(super) async fn until_paused(&mut self) -> Result<ExecutionResult, Unanswered> {
        let result = self.during(self.stands(Patience::UntilPaused)).await??;
        // It is over, or a question of it is written down. While that waits it may leave memory, and come back as another.
        self.begun = None;
        Ok(result)
    }

    /// Waits until the execution is over or waits for a person, and goes on as this client can.
    pub(super) async fn see_through(&mut self, shape: Shape) -> Result<CallToolResponse, Unanswered> {
        let result = self.until_paused().await?;
        if self.incoming.way == Way::Rounds && self.incoming.is_asked_here(&result).await? {
            return Ok(self.incoming.input_required(&result, 0)?);
        }
        let result = self.until_decided(result).await?;
        Ok(answer(&result, shape, &self.incoming.front.links).into())
    }

    /// Goes on from where an execution is paused: until it is over, or nobody decides in time. A client of the 2026-07-28 era
    /// cannot be asked here.
    pub(super) async fn until_decided(
        &mut self,
        mut result: ExecutionResult,
    ) -> Result<ExecutionResult, Unanswered> {
        loop {
            if result.pending.is_empty() {
                return Ok(result);
            }
            match self.incoming.way {
                Way::Prompts if self.incoming.is_asked_here(&result).await? => {
                    match self.ask_in_client(&result).await? {
                        Asked::Decided => result = self.until_paused().await?,
                        Asked::LeftOpen => return self.as_it_stands().await,
                    }
                }
                Way::Prompts | Way::Rounds | Way::Hold => return self.hold().await,
            }
        }
    }

    /// Waits a while in case a person decides elsewhere. What is decided by then is waited for to its end or next question.
    async fn hold(&mut self) -> Result<ExecutionResult, Unanswered> {
        let held = Patience::AtMost(self.incoming.front.options.hold);
        let result = self.during(self.stands(held)).await??;
        if result.status.is_final() || !result.pending.is_empty() {
            return Ok(result);
        }
        self.until_paused().await
    }

    /// The execution as it stands; one that runs is waited for.
    async fn as_it_stands(&mut self) -> Result<ExecutionResult, Unanswered> {
        let result = found(self.incoming.front.gateway.result(self.execution).await)?;
        if result.status.is_final() || !result.pending.is_empty() {
            return Ok(result);
        }
        self.until_paused().await
    }

    /// The answer; where the server stops before there is one, how the execution stands. It goes on, here or in the next
    /// process, and the client must know what to ask for then.
    pub(super) async fn or_last_word(
        &self,
        answered: Result<CallToolResponse, Unanswered>,
        shape: Shape,
    ) -> Result<CallToolResponse, ErrorData> {
        match answered {
            Ok(answer) => Ok(answer),
            Err(Unanswered::Failed(error)) => Err(error),
            // Nobody reads this: the request is over.
            Err(Unanswered::Gone) => Err(ErrorData::internal_error("the request was cancelled", None)),
            Err(Unanswered::Stopping) => {
                let result = self.stands(Patience::UntilPausedWithin(LAST_PATIENCE)).await?;
                Ok(answer(&result, shape, &self.incoming.front.links).into())
            }
        }
    }
}

/// Waits until nobody waits here any more.
async fn left(incoming: &Incoming<'_>) -> Unanswered {
    tokio::select! {
        biased;
        () = incoming.scope.ct.cancelled() => Unanswered::Gone,
        () = incoming.front.stop.cancelled() => Unanswered::Stopping,
    }
}

async fn heard(following: &mut Option<Following>) -> Told {
    match following {
        Some(following) => following.next().await,
        None => std::future::pending().await,
    }
}

pub(super) fn found(
    waited: Result<Option<ExecutionResult>, GatewayError>,
) -> Result<ExecutionResult, ErrorData> {
    waited.map_err(|error| unserved(&error))?.ok_or_else(|| unserved(&GatewayError::Closed))
}
