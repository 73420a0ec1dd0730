//! Messages that have no answer: brought once, or, where they carry what a person decided, with patience.

use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;

use super::exchange::Patience;
use super::message::{Message, renamed};
use super::questions::Question;
use super::session::Head;
use super::{Bridge, Flight};

/// How long the server may take over a message that has no answer.
const DELIVER_WITHIN: Duration = Duration::from_secs(10);
/// How long and how often a cancellation waits for the call that it overtook.
const OVERTAKEN_PAUSE: Duration = Duration::from_millis(50);
const MOST_PAUSES: u32 = 100;

/// Why the server did not take a message.
#[derive(Debug)]
enum NotTaken {
    /// It may take it another time.
    NotNow(String),
    Never(String),
}

impl Bridge {
    /// Brings a message. Once is enough: where the server is gone, so is what it was about.
    pub(super) async fn deliver(&self, message: &Message) {
        let head = if message.version.is_some() { Head::default() } else { self.session.head() };
        if let Err(NotTaken::NotNow(why) | NotTaken::Never(why)) = self.bring(message, &head).await {
            tracing::warn!(%why, "the server did not take a message");
        }
    }

    /// Brings a person's answer, to the session that asked and to no other. Twice is like once: the server knows which
    /// of its questions are open.
    pub(super) async fn deliver_answer(self: Arc<Self>, message: Message, question: Question) {
        let Some(text) = renamed(&message.text, &question.asked) else { return };
        let message = Message { text, ..message };
        let mut patience = Patience::new();
        let why = loop {
            let head = self.session.head();
            if head.generation != question.generation {
                break "the session that asked is gone".to_owned();
            }
            match self.bring(&message, &head).await {
                Ok(()) => return,
                Err(NotTaken::Never(why)) => break why,
                Err(NotTaken::NotNow(why)) => {
                    if patience.wait(&why).await.is_err() {
                        break why;
                    }
                }
            }
        };
        tracing::warn!(%why, "an answer did not reach the server; the question is still in `countersign inbox`");
        // Open again, it can be answered again, and is withdrawn where the session turns out to be gone.
        self.session.asked(question);
    }

    /// Tells the server that the client cancels a call of the 2026-07-28 era, and hangs up. Hanging up alone would say
    /// nothing: so does a lost connection, and that leaves the question where it is.
    pub(super) async fn deliver_cancellation(self: Arc<Self>, message: Message, flight: Flight) {
        let (mut pauses, name) = (0, flight.journey.name());
        while let (Some(name), Some(place)) = (name, self.upstream.known()) {
            let sending = self.http.post_named(&place, &Head::default(), &message, Some(name));
            match sending.timeout(DELIVER_WITHIN).send().await.map(|response| response.status()) {
                Ok(status) if status.is_success() => break,
                // It may have overtaken its call.
                Ok(StatusCode::NOT_FOUND) if !flight.task.is_finished() && pauses < MOST_PAUSES => {
                    pauses += 1;
                    tokio::time::sleep(OVERTAKEN_PAUSE).await;
                }
                Ok(status) => {
                    tracing::warn!(%status, "the server did not take a cancellation; a question of the call stays in `countersign inbox`");
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "a cancellation did not reach the server; a question of the call stays in `countersign inbox`");
                    break;
                }
            }
        }
        flight.task.abort();
    }

    async fn bring(&self, message: &Message, head: &Head) -> Result<(), NotTaken> {
        let place =
            self.upstream.place().await.map_err(|failure| NotTaken::NotNow(failure.code().to_owned()))?;
        let sent = self.http.post(&place, head, message).timeout(DELIVER_WITHIN).send().await;
        let status = match sent {
            Ok(response) => response.status(),
            Err(error) => {
                if error.is_connect() {
                    self.upstream.lost(&place);
                }
                return Err(NotTaken::NotNow(error.to_string()));
            }
        };
        let passes = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
        match () {
            () if status.is_success() => Ok(()),
            () if passes || status.is_server_error() => Err(NotTaken::NotNow(status.to_string())),
            () => Err(NotTaken::Never(status.to_string())),
        }
    }
}
