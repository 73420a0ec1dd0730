//! What a client hears while it waits: progress where it gave a token, log lines where it wants them.
//!
//! Promise: progress only rises, and is heard of at least every [`HEARTBEAT`], so that a client that gives up on silence does
//! not give up on a person.
#![expect(deprecated, reason = "SEP-2577 deprecates logging; clients of today ask for it")]

use std::time::Duration;

use countersign_core::event::LogLine;
use countersign_kernel::{Follow, Told};
use countersign_sdk::{LogLevel, Progress};
use rmcp::model::{
    LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, ProgressNotification,
    ProgressNotificationParam, ProgressToken, ServerNotification,
};
use serde_json::Value;

use super::requests::{Era, Incoming, ToClient};

/// The longest silence of a call that is waited for.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);
/// By how much a heartbeat raises the progress: it must rise, and should not look like work.
const A_LITTLE: f64 = 0.001;
/// Who logs, as clients are told.
const LOGGER: &str = "countersign";

/// How one request's client is spoken to.
pub(super) struct Words {
    client: ToClient,
    token: Option<ProgressToken>,
    level: Option<LoggingLevel>,
    last: f64,
}

impl Words {
    pub(super) fn to(incoming: &Incoming<'_>) -> Self {
        let scope = &incoming.scope;
        let level = match (incoming.era, incoming.conversation) {
            (Era::July2026, _) => scope.meta.log_level(),
            (_, Some(conversation)) => Some(conversation.level()),
            (_, None) => None,
        };
        Self { client: scope.client.clone(), token: scope.meta.get_progress_token(), level, last: 0.0 }
    }

    /// Whether the client would hear anything of what is said.
    pub(super) fn follow(&self) -> Follow {
        if self.token.is_some() || self.level.is_some() { Follow::Yes } else { Follow::No }
    }

    /// Whether the client wants to hear that it is not forgotten.
    pub(super) fn has_pulse(&self) -> bool {
        self.token.is_some()
    }

    pub(super) async fn tell(&mut self, told: Told) {
        match told {
            Told::Progress(progress) => self.progress(progress).await,
            Told::Log(line) => self.log(line).await,
        }
    }

    /// Says that the call is still waited for.
    pub(super) async fn pulse(&mut self) {
        let message = Some("Still waiting.".to_owned());
        self.progress(Progress { done: self.last + A_LITTLE, total: None, message }).await;
    }

    async fn progress(&mut self, progress: Progress) {
        let Some(token) = self.token.clone() else { return };
        if !progress.done.is_finite() {
            return;
        }
        self.last = progress.done.max(self.last + A_LITTLE);
        let mut param = ProgressNotificationParam::new(token, self.last);
        param.total = progress.total.filter(|total| total.is_finite());
        param.message = progress.message;
        self.send(ServerNotification::ProgressNotification(ProgressNotification::new(param))).await;
    }

    async fn log(&self, line: LogLine) {
        let level = match line.level {
            LogLevel::Debug => LoggingLevel::Debug,
            LogLevel::Info => LoggingLevel::Info,
            LogLevel::Warn => LoggingLevel::Warning,
            LogLevel::Error => LoggingLevel::Error,
        };
        let Some(least) = self.level else { return };
        if weight(level) < weight(least) {
            return;
        }
        let param = LoggingMessageNotificationParam::new(level, Value::String(line.message));
        let line = LoggingMessageNotification::new(param.with_logger(LOGGER));
        self.send(ServerNotification::LoggingMessageNotification(line)).await;
    }

    /// A client that is gone hears nothing, and that is no failure of the call.
    async fn send(&self, notification: ServerNotification) {
        let is_sent = match &self.client {
            ToClient::Peer(peer) => peer.send_notification(notification).await.is_ok(),
            ToClient::Response(response) => response.send(notification).await.is_ok(),
            ToClient::Silent => true,
        };
        if !is_sent {
            tracing::debug!("a client did not hear what was said");
        }
    }
}

/// How much a level matters, from the least to the most.
fn weight(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}
