//! Telling connected clients that a list changed.
//!
//! An [`Announcer`] is made by whoever changes lists and given to the front in its options. Clients of the 2025 era hear of it
//! on their stream, those of 2026-07-28 through `subscriptions/listen`. Nobody has to listen, and a slow client hears of a
//! later change instead of an earlier one: lists are read anew anyway.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::broadcast;

/// How many announcements a slow client may fall behind.
const BACKLOG: usize = 64;

/// Tells every connected client. Clones are one.
#[derive(Clone)]
pub struct Announcer {
    announced: broadcast::Sender<Announcement>,
    sessions: Arc<Mutex<Vec<Peer<RoleServer>>>>,
}

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announcement {
    /// The tools.
    Tools,
    /// The prompts of a companion.
    Prompts,
    /// The resources of a companion.
    Resources,
    /// One resource of a companion.
    Resource(String),
}

impl Default for Announcer {
    fn default() -> Self {
        Self { announced: broadcast::Sender::new(BACKLOG), sessions: Arc::default() }
    }
}

impl Announcer {
    /// Tells every connected client. One resource is told to those that subscribed to it; in the 2025 era the companion
    /// knows who did, and tells them itself.
    pub async fn announce(&self, announcement: Announcement) {
        // Without listeners there is nobody to tell.
        let _ = self.announced.send(announcement.clone());
        for peer in self.connected() {
            let told = match &announcement {
                Announcement::Tools => peer.notify_tool_list_changed().await,
                Announcement::Prompts => peer.notify_prompt_list_changed().await,
                Announcement::Resources => peer.notify_resource_list_changed().await,
                Announcement::Resource(_) => Ok(()),
            };
            if let Err(error) = told {
                tracing::debug!(%error, "a client was not told of a change");
            }
        }
    }

    /// A client of the 2025 era is connected.
    pub(super) fn connect(&self, peer: Peer<RoleServer>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|peer| !peer.is_transport_closed());
        sessions.push(peer);
    }

    /// Tells one client of the 2026-07-28 era what it asked to hear, until it stops listening.
    pub(super) async fn tell(&self, subscription: &SubscriptionContext) -> Result<(), ErrorData> {
        let mut announced = self.announced.subscribe();
        let sink = subscription.sink();
        loop {
            let announcement = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                announcement = announced.recv() => announcement,
            };
            // What this client did not ask for is refused by the sink, and that is right.
            let _ = match announcement {
                Ok(Announcement::Tools) => sink.notify_tool_list_changed().await,
                Ok(Announcement::Prompts) => sink.notify_prompt_list_changed().await,
                Ok(Announcement::Resources) => sink.notify_resource_list_changed().await,
                Ok(Announcement::Resource(uri)) => sink.notify_resource_updated(uri).await,
                Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
        }
    }

    fn connected(&self) -> Vec<Peer<RoleServer>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|peer| !peer.is_transport_closed());
        sessions.clone()
    }
}
