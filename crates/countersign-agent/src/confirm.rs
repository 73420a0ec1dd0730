//! Confirmation: who is asked before a tool runs, what they are shown, and what they say.
//!
//! The agent brings the mechanism, the program brings the person: a [`ConfirmationProvider`] is asked whenever a tool needs
//! confirmation and answers when somebody decided. Ready-made ones are in [`providers`](crate::providers).
//!
//! Promise: a call that needs confirmation runs only on an explicit yes. A no, an error, a provider that is not there and time
//! that ran out all mean that it does not run.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use countersign_core::canonical::Canonical;
use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::tool::AgentTool;

/// One question, unlike every other of this process. The model's ids of calls are not: some servers count from one in every
/// turn, and a call may ask several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionId(u64);

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl QuestionId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What the person is asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmationRequest {
    /// Which question this is.
    pub id: QuestionId,
    /// The model's id for the call.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments the tool will run with: checked, and as the hooks left them.
    pub input: Value,
    /// What the tool says about it; only where the tool asks from inside.
    pub hint: Option<String>,
    /// What the tool shows beside it; only where the tool asks from inside.
    pub payload: Option<Value>,
    /// In a durable conversation: the same key again is the same question, asked anew after a restart.
    pub key: Option<String>,
}

impl ConfirmationRequest {
    /// A question about a whole call, as the agent asks it.
    pub fn new(tool_call_id: impl Into<String>, tool_name: impl Into<String>, input: Value) -> Self {
        Self {
            id: QuestionId::next(),
            tool_call_id: tool_call_id.into(),
            tool_name: tool_name.into(),
            input,
            hint: None,
            payload: None,
            key: None,
        }
    }
}

/// What the person says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Reject {
        /// Why, where they said so; the model is told.
        reason: Option<String>,
    },
}

impl Verdict {
    /// No, and why.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject { reason: Some(reason.into()) }
    }
}

/// The seed's `true` and `false`.
impl From<bool> for Verdict {
    fn from(approved: bool) -> Self {
        if approved { Self::Approve } else { Self::Reject { reason: None } }
    }
}

/// Why a provider has no answer. The call fails with its text; it does not run.
pub type ProviderError = Box<dyn std::error::Error + Send + Sync>;

/// A provider's error that passes: nobody can be asked now. A durable conversation stops there and asks when it goes on;
/// in any other the call fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Asks somebody. Closures that take a request and return a future of a verdict are providers too.
#[async_trait]
pub trait ConfirmationProvider: Send + Sync + 'static {
    /// Returns when it is decided. Dropping the future withdraws the question, except one with a key: whoever asked may ask
    /// it again after a restart.
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError>;

    /// Nobody will ask this again: the time for it ran out, and it counts as rejected. What was asked with a key is
    /// withdrawn here.
    async fn withdraw(&self, request: ConfirmationRequest) {
        let _ = request;
    }
}

#[async_trait]
impl ConfirmationProvider for Box<dyn ConfirmationProvider> {
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        (**self).confirm(request).await
    }

    async fn withdraw(&self, request: ConfirmationRequest) {
        (**self).withdraw(request).await;
    }
}

#[async_trait]
impl<F, Fut> ConfirmationProvider for F
where
    F: Fn(ConfirmationRequest) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Verdict, ProviderError>> + Send,
{
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        self(request).await
    }
}

/// The person said no to what a tool asked from inside. Propagate it to halt the tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the confirmation was rejected{}", after(": ", reason.as_deref()))]
pub struct ConfirmationRejected {
    /// Why, where they said so.
    pub reason: Option<String>,
}

/// Why a tool that asked from inside may not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmationError {
    /// The person said no.
    #[error(transparent)]
    Rejected(#[from] ConfirmationRejected),
    /// Nobody could be asked.
    #[error("{0}")]
    Failed(String),
    /// Nobody can be asked now, or what they said could not be kept: a durable conversation stops and asks later.
    #[error("{0}")]
    Unavailable(String),
}

/// How an agent asks: whom, and how long it waits.
pub(crate) struct Asking {
    pub(crate) provider: Option<std::sync::Arc<dyn ConfirmationProvider>>,
    pub(crate) attendance: Attendance,
    pub(crate) timeout: Option<Duration>,
}

/// Whether the program wants people asked at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// What needs confirmation and cannot be asked about does not run.
    Attended,
    /// The program said, in so many words, that everything runs without confirmation.
    Unattended,
}

/// Who can answer a question of this agent.
pub(crate) enum Answerer<'a> {
    Provider(&'a dyn ConfirmationProvider),
    /// Nobody is to be asked: the program chose that.
    Waived,
    /// Nobody can be asked, and nobody chose that.
    Missing,
}

impl Asking {
    pub(crate) fn answerer(&self) -> Answerer<'_> {
        match (&self.provider, self.attendance) {
            (Some(provider), _) => Answerer::Provider(&**provider),
            (None, Attendance::Unattended) => Answerer::Waived,
            (None, Attendance::Attended) => Answerer::Missing,
        }
    }

    /// Asks the provider; time that runs out is a no, a panic is an error.
    pub(crate) async fn ask(
        &self,
        provider: &dyn ConfirmationProvider,
        request: ConfirmationRequest,
    ) -> Result<Verdict, ConfirmationError> {
        let asked = AssertUnwindSafe(provider.confirm(request.clone())).catch_unwind();
        let answered = match self.timeout {
            None => asked.await,
            Some(limit) => match tokio::time::timeout(limit, asked).await {
                Ok(answered) => answered,
                Err(_) => {
                    if AssertUnwindSafe(provider.withdraw(request)).catch_unwind().await.is_err() {
                        tracing::error!("the confirmation provider panicked while a question was withdrawn");
                    }
                    return Ok(Verdict::reject(format!("nobody decided within {limit:?}")));
                }
            },
        };
        match answered {
            Ok(Ok(verdict)) => Ok(verdict),
            Ok(Err(error)) => Err(match error.downcast::<Unavailable>() {
                Ok(passing) => ConfirmationError::Unavailable(passing.0),
                Err(error) => ConfirmationError::Failed(error.to_string()),
            }),
            Err(_) => Err(ConfirmationError::Failed("the confirmation provider panicked".to_owned())),
        }
    }
}

/// What a verdict was given for: a yes counts for nothing else, nor for a tool that is another one by now.
pub(crate) fn digest(request: &ConfirmationRequest, tool: &AgentTool) -> Result<String, ConfirmationError> {
    let shown = serde_json::json!({
        "tool": tool.fingerprint(),
        "input": request.input,
        "hint": request.hint,
        "payload": request.payload,
    });
    let canonical = Canonical::of(&shown).map_err(|e| ConfirmationError::Failed(e.to_string()))?;
    Ok(sha256(canonical.as_str()))
}

/// The hash of a text, as text.
pub(crate) fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// Bytes as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What follows a text where there is something to say.
pub(crate) fn after(separator: &str, said: Option<&str>) -> String {
    said.filter(|said| !said.is_empty()).map(|said| format!("{separator}{said}")).unwrap_or_default()
}
