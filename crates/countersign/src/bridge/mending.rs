//! A session of the 2025 era, begun anew after the server forgot it, and the server's own stream to the client.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;

use super::Bridge;
use super::exchange::Patience;
use super::failure::Failure;
use super::http::{self, Answer, SESSION_ID};
use super::message::{FromServer, Id, Message, from_server};
use super::questions::Question;
use super::session::{Beginning, Head};

/// How often a server that has been gone for long is asked for its stream.
const LISTEN_EVERY: Duration = Duration::from_secs(30);

impl Bridge {
    /// Agrees on the session anew with the client's own words, unless somebody else just did. What the server had asked
    /// is withdrawn: nobody waits for those answers any more.
    pub(super) async fn reinitialise(&self, seen: u64) -> Result<(), Failure> {
        let _one = self.session.mending.lock().await;
        if self.session.head().generation != seen {
            return Ok(());
        }
        let (beginning, initialized) = self.session.beginning().ok_or(Failure::Lost { execution: None })?;
        self.withdraw(self.session.withdraw()).await;
        tracing::info!("the server does not know the session; beginning it anew");
        let (head, version) = self.initialise(&beginning).await?;
        if version != beginning.version {
            return Err(Failure::OtherRevision(version.unwrap_or_default()));
        }
        // A stream of the old session may have asked something meanwhile.
        let late = self.session.begin(beginning, head.id);
        self.withdraw(late).await;
        if let Some(initialized) = initialized.and_then(|text| Message::parse(text).ok()) {
            self.deliver(&initialized).await;
        }
        Ok(())
    }

    async fn withdraw(&self, questions: Vec<Question>) {
        for question in questions {
            self.out.say(withdrawal(&question.shown())).await;
        }
    }

    async fn initialise(&self, beginning: &Beginning) -> Result<(Head, Option<String>), Failure> {
        let message = Message::parse(beginning.text.clone()).map_err(|_| Failure::NotJsonRpc)?;
        let (mut patience, nothing) = (Patience::new(), Head::default());
        loop {
            let place = self.upstream.place().await?;
            let response = match self.http.post(&place, &nothing, &message).send().await {
                Ok(response) => response,
                Err(error) => {
                    self.upstream.lost(&place);
                    patience.wait(&error).await?;
                    continue;
                }
            };
            let id = response.headers().get(SESSION_ID).cloned();
            let version = agreed(http::answer(response, &nothing).await?, &beginning.id).await;
            if version.is_some() {
                return Ok((Head { id, ..Head::default() }, version));
            }
            patience.wait(&"it does not initialise").await?;
        }
    }

    /// Carries the server's own stream, for as long as there is a session. A server that is gone for long is still looked
    /// for now and then: it may have something to ask when it is back.
    pub(super) async fn listen(self: Arc<Self>) {
        let (mut patience, mut last_event) = (Patience::new(), None::<String>);
        let mut generation = self.session.head().generation;
        loop {
            let head = self.session.head();
            if std::mem::replace(&mut generation, head.generation) != head.generation {
                last_event = None;
            }
            let heard = match self.open_stream(&head, last_event.as_deref()).await {
                Ok(Answer::Events(mut events)) => {
                    while let Some(Ok(event)) = events.next().await {
                        patience = Patience::new();
                        last_event = event.id.or(last_event);
                        if let Some(text) = event.data.filter(|data| !data.is_empty())
                            && let Some(text) = self.for_client(head.generation, text)
                        {
                            self.out.say(text).await;
                        }
                    }
                    Ok(())
                }
                Ok(Answer::SessionGone) => self.reinitialise(head.generation).await,
                Ok(Answer::Broken) => Ok(()),
                // It has no such stream.
                Ok(Answer::Json { .. }) => return,
                Err(failure) => Err(failure),
            };
            match heard {
                Ok(()) => {}
                Err(failure) if failure.may_pass() => {
                    tracing::debug!(code = failure.code(), "no stream of the server's");
                }
                // It has no such stream, or not for this token or this client.
                Err(_) => return,
            }
            if patience.wait(&"the server's stream").await.is_err() {
                tokio::time::sleep(LISTEN_EVERY).await;
            }
        }
    }

    async fn open_stream(&self, head: &Head, last_event: Option<&str>) -> Result<Answer, Failure> {
        let place = self.upstream.place().await?;
        let response = self.http.stream(&place, head, last_event).send().await.map_err(|error| {
            if error.is_connect() {
                self.upstream.lost(&place);
            }
            Failure::Unreachable(error.to_string())
        })?;
        match http::answer(response, head).await {
            Err(Failure::Unauthorised(_)) if self.upstream.moved_from(&place).await => {
                Err(Failure::Unreachable("it is somewhere else by now".to_owned()))
            }
            answer => answer,
        }
    }
}

/// The revision that was agreed on; none where the answer is no agreement.
async fn agreed(answer: Answer, id: &Id) -> Option<String> {
    let version_in = |text: &str| match from_server(text) {
        Some(FromServer::Answer { id: answered, version }) if answered == *id => version,
        _ => None,
    };
    match answer {
        Answer::Json { text, .. } => version_in(&text),
        Answer::Events(mut events) => {
            while let Some(Ok(event)) = events.next().await {
                if let Some(version) = event.data.as_deref().and_then(version_in) {
                    return Some(version);
                }
            }
            None
        }
        Answer::SessionGone | Answer::Broken => None,
    }
}

fn withdrawal(question: &Id) -> String {
    let reason = json!("Countersign was restarted. The question is still open: look at `countersign inbox`.");
    let id = question.as_json();
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
    )
}
