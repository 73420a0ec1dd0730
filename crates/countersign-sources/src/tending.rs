//! Looking after sources while the gateway runs: each is read until that works, and looked at again from time to time.
//!
//! Promises: a source that changes without telling is found out within about its refresh interval, and treated as one that tells.
//! Looking costs little: a document that is the same is not read, and sources do not all look at one moment.

use std::sync::{Arc, Weak};
use std::time::Duration;

use countersign_kernel::SourceList;
use countersign_kernel::ports::{
    Entropy as _, RefreshInterval, SourceHealth, SourceKind, Sources as _, SystemEntropy,
};
use tokio::sync::mpsc;

use crate::entry::Entry;
use crate::mcp::UpstreamEvent;
use crate::registry::{Inner, SourceRegistry};

/// The pause before a source that could not be read is tried again; each further one is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// What is done for a source next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was not read yet.
    Read,
    /// It was, and is looked at when its interval is over.
    Look,
}

/// A source that is looked after. One whose tools' effects were set meanwhile is still the same: it is known by its turn.
pub(crate) struct Tended {
    name: String,
    turn: Weak<tokio::sync::Mutex<()>>,
    refresh: RefreshInterval,
    /// Whether it is connected to, and tells by itself when it is back.
    is_connected_to: bool,
}

impl Tended {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            name: entry.config.name.clone(),
            turn: Arc::downgrade(&entry.turn),
            refresh: entry.config.refresh,
            is_connected_to: matches!(entry.config.kind, SourceKind::Mcp { .. }),
        }
    }

    /// Whether it is there as it was: neither removed nor configured anew.
    fn is_in(&self, registry: &SourceRegistry) -> bool {
        let is_it = |entry: Arc<Entry>| self.turn.ptr_eq(&Arc::downgrade(&entry.turn));
        registry.entry(&self.name).is_ok_and(is_it)
    }

    /// How long until it is looked at again; nothing where it never is.
    fn interval(&self) -> Option<Duration> {
        let RefreshInterval::Every(length) = self.refresh else { return None };
        let jitter = SystemEntropy.bits().map_or(0.5, |bits| f64::from(bits[0]) / 255.0);
        Some(length.mul_f64(0.9 + 0.2 * jitter))
    }
}

/// Looks after a source until it was removed or configured anew, is never to be looked at again, or the registry is gone.
pub(crate) async fn tend(inner: Weak<Inner>, tended: Tended, mut next: Next) {
    let mut retry = FIRST_RETRY;
    let mut pause = match next {
        Next::Read => Some(Duration::ZERO),
        Next::Look => tended.interval(),
    };
    while let Some(wait) = pause {
        tokio::time::sleep(wait).await;
        let Some(inner) = inner.upgrade() else { return };
        let registry = SourceRegistry { inner };
        if !tended.is_in(&registry) {
            return;
        }
        let done = match next {
            Next::Read => registry.refresh(&tended.name).await.map(drop),
            Next::Look => registry.refresh_if_changed(&tended.name).await,
        };
        pause = match done {
            Ok(()) => {
                (next, retry) = (Next::Look, FIRST_RETRY);
                tended.interval()
            }
            Err(error) if next == Next::Look && tended.is_connected_to => {
                tracing::debug!(source = tended.name, %error, "the source could not be looked at");
                tended.interval().map(|interval| interval.min(LONGEST_RETRY))
            }
            Err(error) => {
                tracing::warn!(source = tended.name, %error, ?retry, "the source is tried again after a pause");
                let wait = retry;
                retry = (retry * 2).min(LONGEST_RETRY);
                Some(wait)
            }
        };
    }
}

/// Reads a server anew when it says that its tools changed or when it is back; says when it is away.
pub(crate) async fn follow(inner: Weak<Inner>, mut heard: mpsc::Receiver<(String, UpstreamEvent)>) {
    while let Some((name, event)) = heard.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let registry = SourceRegistry { inner };
        match event {
            UpstreamEvent::Connected | UpstreamEvent::ToolsChanged => {
                tokio::spawn(async move {
                    // Its health says what went wrong.
                    let _ = registry.refresh(&name).await;
                });
            }
            UpstreamEvent::Disconnected { reason } | UpstreamEvent::Off { reason } => {
                if let Ok(entry) = registry.entry(&name) {
                    let mut state = entry.state();
                    (state.health, state.problem) = (SourceHealth::Failing, Some(reason));
                }
            }
            UpstreamEvent::ResourcesChanged => {
                registry.inner.gateway.tell_list_changed(&name, SourceList::Resources);
            }
            UpstreamEvent::PromptsChanged => {
                registry.inner.gateway.tell_list_changed(&name, SourceList::Prompts);
            }
        }
    }
}
