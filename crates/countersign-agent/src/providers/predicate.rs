//! Deciding by code: everything, or what a predicate lets through, with somebody to ask about the rest.

use async_trait::async_trait;

use crate::confirm::{ConfirmationProvider, ConfirmationRequest, ProviderError, Verdict};

/// Says yes to everything. For tests; an agent that should ask nobody is built with `.unattended()`.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysApprove;

#[async_trait]
impl ConfirmationProvider for AlwaysApprove {
    async fn confirm(&self, _: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        Ok(Verdict::Approve)
    }
}

/// Approves what a predicate lets through, and asks another provider about the rest.
pub struct ByPredicate<P, Rest> {
    approves: P,
    rest: Rest,
}

impl<P, Rest> ByPredicate<P, Rest>
where
    P: Fn(&ConfirmationRequest) -> bool + Send + Sync + 'static,
    Rest: ConfirmationProvider,
{
    /// Approves by itself where the predicate holds; asks `rest` where it does not.
    pub fn new(approves: P, rest: Rest) -> Self {
        Self { approves, rest }
    }
}

#[async_trait]
impl<P, Rest> ConfirmationProvider for ByPredicate<P, Rest>
where
    P: Fn(&ConfirmationRequest) -> bool + Send + Sync + 'static,
    Rest: ConfirmationProvider,
{
    async fn confirm(&self, request: ConfirmationRequest) -> Result<Verdict, ProviderError> {
        if (self.approves)(&request) { Ok(Verdict::Approve) } else { self.rest.confirm(request).await }
    }

    async fn withdraw(&self, request: ConfirmationRequest) {
        self.rest.withdraw(request).await;
    }
}
