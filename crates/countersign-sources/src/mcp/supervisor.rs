//! Keeps one server connected: notices its end, starts it again, gives up in good time.

use std::sync::Arc;
use std::time::Duration;

use countersign_kernel::ports::{Entropy, SystemEntropy};
use tokio::time::Instant;

use crate::mcp::config::Endpoint;
use crate::mcp::connection::Connection;
use crate::mcp::dial::{Dialed, dial};
use crate::mcp::events::UpstreamEvent;
use crate::mcp::restart::{MAX_RESTARTS, RESTART_WINDOW, Restart, RestartBound, RestartPolicy};
use crate::mcp::upstream::Shared;

/// How long the end of a connection may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(3);

/// Whether calls can be made.
#[derive(Clone)]
pub(super) enum Status {
    Ready(Arc<Connection>),
    /// Another connection is being made.
    Down,
    /// It is not started again by itself.
    Off {
        reason: String,
    },
}

/// Runs until the upstream is closed or dropped.
pub(super) async fn supervise(shared: Arc<Shared>, first: Option<Dialed>) {
    let begun = Instant::now();
    let mut restarts = new_restarts(&shared);
    let mut dialed = match first {
        Some(dialed) => dialed,
        None => match first_dial(&shared, &mut restarts, begun).await {
            Some(dialed) => dialed,
            None => return,
        },
    };
    loop {
        let reason = tokio::select! {
            reason = ended(&mut dialed) => reason,
            () = shared.stop.cancelled() => return end(dialed).await,
        };
        let reason = shared.secrets.redact(&reason);
        tracing::warn!(source = shared.config.name, reason, "the connection to an MCP server ended");
        shared.status.send_replace(Status::Down);
        (shared.events)(UpstreamEvent::Disconnected { reason: reason.clone() });
        dialed.connection.close(Duration::ZERO).await;
        drop(dialed);
        let Some(next) = dial_again(&shared, &mut restarts, begun, reason).await else { return };
        dialed = next;
    }
}

/// The first connection of a server that nobody waited for.
async fn first_dial(shared: &Shared, restarts: &mut RestartPolicy, begun: Instant) -> Option<Dialed> {
    match try_dial(shared).await? {
        Ok(dialed) => Some(dialed),
        Err(reason) => dial_again(shared, restarts, begun, reason).await,
    }
}

/// Tries until a connection is made; nothing if the upstream was closed meanwhile.
async fn dial_again(
    shared: &Shared,
    restarts: &mut RestartPolicy,
    begun: Instant,
    mut reason: String,
) -> Option<Dialed> {
    loop {
        match restarts.next(begun.elapsed(), jitter()) {
            Restart::After(pause) => tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shared.stop.cancelled() => return None,
            },
            Restart::Off => {
                let minutes = RESTART_WINDOW.as_secs() / 60;
                let off = format!(
                    "the server was restarted {MAX_RESTARTS} times in {minutes} minutes and is off: {reason}"
                );
                tracing::error!(source = shared.config.name, "{off}");
                shared.status.send_replace(Status::Off { reason: off.clone() });
                (shared.events)(UpstreamEvent::Off { reason: off });
                tokio::select! {
                    () = shared.revive.notified() => {}
                    () = shared.stop.cancelled() => return None,
                }
                *restarts = new_restarts(shared);
                shared.status.send_replace(Status::Down);
            }
        }
        match try_dial(shared).await? {
            Ok(dialed) => return Some(dialed),
            Err(failed) => reason = failed,
        }
    }
}

/// One try; nothing if the upstream was closed meanwhile.
async fn try_dial(shared: &Shared) -> Option<Result<Dialed, String>> {
    let dialed = tokio::select! {
        dialed = dial(&shared.config, &shared.events) => dialed,
        () = shared.stop.cancelled() => return None,
    };
    Some(match dialed {
        Ok(dialed) => {
            shared.status.send_replace(Status::Ready(Arc::clone(&dialed.connection)));
            (shared.events)(UpstreamEvent::Connected);
            Ok(dialed)
        }
        Err(failed) => {
            let reason = shared.secrets.redact(&failed);
            tracing::warn!(source = shared.config.name, reason, "an MCP server cannot be reached");
            Err(reason)
        }
    })
}

/// Waits for the end of the connection or of the process, whichever is noticed first.
async fn ended(dialed: &mut Dialed) -> String {
    let connection = Arc::clone(&dialed.connection);
    match &mut dialed.process {
        Some(process) => tokio::select! {
            reason = connection.closed() => reason,
            reason = process.ended() => reason,
        },
        None => connection.closed().await,
    }
}

async fn end(dialed: Dialed) {
    dialed.connection.close(CLOSE_WITHIN).await;
    if let Some(process) = dialed.process {
        process.end().await;
    }
}

fn new_restarts(shared: &Shared) -> RestartPolicy {
    let bound = match shared.config.endpoint {
        Endpoint::Command(_) => RestartBound::Counted,
        Endpoint::Http(_) => RestartBound::Unbounded,
    };
    RestartPolicy::new(bound, shared.config.limits.restart_pause)
}

fn jitter() -> f64 {
    SystemEntropy.bits().map_or(0.5, |bits| f64::from(bits[0]) / 255.0)
}
