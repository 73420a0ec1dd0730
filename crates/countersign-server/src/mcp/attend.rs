//! Waiting for an execution on behalf of a client: until it is over, or a person has to be asked and this client's way of
//! asking says what comes next.
//!
//! Whoever waits here can leave at any moment. The execution goes on by itself.

use std::time::Duration;

use countersign_core::ids::ExecutionId;
use countersign_kernel::{Begun, ExecutionResult, Following, GatewayError, Patience, Told};
use rmcp::ErrorData;
use rmcp::model::CallToolResponse;
use tokio::time::Instant;

use super::answer::{Shape, answer, unavailable};
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
}

/// The client no longer waits. Whatever it waited for goes on.
#[derive(Debug)]
pub(super) struct Gone;

impl From<Gone> for ErrorData {
    fn from(_: Gone) -> Self {
        // Nobody reads this: the request is over.
        Self::internal_error("the request was cancelled", None)
    }
}

impl<'a> Attendance<'a> {
    /// Waits for an execution that just began.
    pub(super) fn on(incoming: &'a Incoming<'a>, begun: &mut Begun, words: Words) -> Self {
        let following = begun.following.take();
        let _ = incoming.execution.set(begun.execution);
        Self { incoming, execution: begun.execution, words, following }
    }

    /// Waits for an execution that began earlier.
    pub(super) fn again(incoming: &'a Incoming<'a>, execution: ExecutionId) -> Self {
        let _ = incoming.execution.set(execution);
        let words = Words::to(incoming);
        let follows = words.follow() == countersign_kernel::Follow::Yes;
        let following = follows.then(|| incoming.front.gateway.follow(execution));
        Self { incoming, execution, words, following }
    }

    /// Does something while the client hears what is said, unless it leaves.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Gone> {
        tokio::pin!(work);
        let mut pulse = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.tell_the_rest().await;
                    return Ok(done);
                }
                () = self.incoming.context.ct.cancelled() => return Err(Gone),
                told = heard(&mut self.following) => self.words.tell(told).await,
                _ = pulse.tick(), if self.words.has_pulse() => self.words.pulse().await,
            }
        }
    }

    async fn tell_the_rest(&mut self) {
        while let Some(told) = self.following.as_mut().and_then(Following::try_next) {
            self.words.tell(told).await;
        }
    }

    /// The execution, when it is over or waits for a person.
    pub(super) async fn until_paused(&mut self) -> Result<ExecutionResult, ErrorData> {
        let (gateway, execution) = (&self.incoming.front.gateway, self.execution);
        let waited = self.during(gateway.wait(execution, Patience::UntilPaused)).await?;
        found(waited)
    }

    /// Goes on with an execution that is over or waits for a person, as this client can.
    pub(super) async fn see_through(
        &mut self,
        mut result: ExecutionResult,
        shape: Shape,
    ) -> Result<CallToolResponse, ErrorData> {
        let links = &self.incoming.front.links;
        loop {
            if result.pending.is_empty() {
                return Ok(answer(&result, shape, links).into());
            }
            match self.incoming.way {
                Way::Rounds => return self.incoming.input_required(&result, 0),
                Way::Prompts => match self.ask_in_client(&result).await? {
                    Asked::Decided => result = self.until_paused().await?,
                    Asked::LeftOpen => {
                        return Ok(answer(&self.as_it_stands().await?, shape, links).into());
                    }
                },
                Way::Hold => return Ok(answer(&self.hold().await?, shape, links).into()),
            }
        }
    }

    /// Waits a while in case a person decides elsewhere. What is decided by then is waited for to its end or next question.
    async fn hold(&mut self) -> Result<ExecutionResult, ErrorData> {
        let front = self.incoming.front;
        let held = Patience::AtMost(front.options.hold);
        let result = found(self.during(front.gateway.wait(self.execution, held)).await?)?;
        if result.status.is_final() || !result.pending.is_empty() {
            return Ok(result);
        }
        self.until_paused().await
    }

    /// The execution as it stands; one that runs is waited for.
    async fn as_it_stands(&mut self) -> Result<ExecutionResult, ErrorData> {
        let result = found(self.incoming.front.gateway.result(self.execution).await)?;
        if result.status.is_final() || !result.pending.is_empty() {
            return Ok(result);
        }
        self.until_paused().await
    }
}

impl Incoming<'_> {
    /// What a client is told that still waits when the server stops: how its execution stands.
    pub(super) async fn last_word(&self) -> Result<CallToolResponse, ErrorData> {
        let stopping = || unavailable("unavailable", "the server is stopping; nothing was called");
        let execution = *self.execution.get().ok_or_else(stopping)?;
        let waited = self.front.gateway.wait(execution, Patience::UntilPausedWithin(LAST_PATIENCE)).await;
        let shape = match self.call {
            Some(call) if !matches!(&*call.name, "run" | "resume") => self.front.shape_of(&call.name),
            _ => Shape::Execution,
        };
        Ok(answer(&found(waited)?, shape, &self.front.links).into())
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
    let failed = |error: GatewayError| unavailable(error.code(), &error.to_string());
    waited.map_err(failed)?.ok_or_else(|| failed(GatewayError::Closed))
}
