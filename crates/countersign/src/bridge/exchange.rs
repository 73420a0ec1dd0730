//! One request from the client, until there is an answer: sent, waited for through broken connections and restarted
//! servers, and never sent a second time where that could be a second execution.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderValue};

use super::Bridge;
use super::failure::Failure;
use super::http::{self, Answer, Events, SESSION_ID};
use super::journey::Journey;
use super::message::{FromServer, Id, Kind, Message, execution_named, from_server};
use super::session::{Beginning, Head};

/// For how long a server that is gone is waited for.
const RECONNECT_WITHIN: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a stream that has brought its answer may take to end, so that its connection can serve again.
const LAST_BYTES: Duration = Duration::from_millis(50);

/// How often and how long to try again.
pub(super) struct Patience {
    pause: Duration,
    waited: Duration,
}

/// What is known of a stream of events.
#[derive(Default)]
struct Trail {
    last_event: Option<String>,
    execution: Option<String>,
    /// Whether anything came since it was taken up.
    is_alive: bool,
}

/// How a stream ended.
enum End {
    Answered,
    Broken,
}

impl Patience {
    pub(super) fn new() -> Self {
        Self { pause: FIRST_PAUSE, waited: Duration::ZERO }
    }

    /// Waits a little, a little longer each time; an error once it was long enough.
    pub(super) async fn wait(&mut self, why: &(dyn std::fmt::Display + Sync)) -> Result<(), Failure> {
        if self.waited >= RECONNECT_WITHIN {
            return Err(Failure::Unreachable(why.to_string()));
        }
        tokio::time::sleep(self.pause).await;
        self.waited += self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

impl Bridge {
    /// Brings a request to the server, and everything that comes back to the client.
    pub(super) async fn exchange(
        &self,
        message: &Message,
        id: &Id,
        journey: &Journey,
    ) -> Result<(), Failure> {
        let (mut patience, mut was_forgotten) = (Patience::new(), false);
        loop {
            let place = self.upstream.place().await?;
            let head = self.head_for(message);
            if !journey.may_depart() {
                return Ok(());
            }
            let sending = self.http.post_named(&place, &head, message, journey.name());
            let sending = sending.headers(self.mirrored(message));
            let response = match sending.send().await {
                Ok(response) => response,
                Err(error) if error.is_connect() => {
                    // It never got in, so it can be sent again.
                    journey.came_back();
                    self.upstream.lost(&place);
                    patience.wait(&error).await?;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, "the connection broke before an answer");
                    self.again(message, &mut patience, Trail::default()).await?;
                    continue;
                }
            };
            let session_id = response.headers().get(SESSION_ID).cloned();
            let answer = match http::answer(response, &head).await {
                Err(Failure::Unauthorised(_)) if self.upstream.moved_from(&place).await => {
                    journey.came_back();
                    continue;
                }
                answer => answer.map_err(|failure| in_doubt(message, failure))?,
            };
            match answer {
                Answer::SessionGone => {
                    journey.came_back();
                    // A server that forgets what it has just agreed on is not asked as fast as it can forget.
                    if std::mem::replace(&mut was_forgotten, true) {
                        patience.wait(&"it forgets every session").await?;
                    }
                    self.reinitialise(head.generation).await?;
                }
                Answer::Broken => self.again(message, &mut patience, Trail::default()).await?,
                Answer::Json { text, status } => {
                    return self.pass_json(message, id, text, status, session_id).await;
                }
                Answer::Events(events) => {
                    match self.follow_through(message, id, &head, events, session_id).await? {
                        None => return Ok(()),
                        Some(trail) => self.again(message, &mut patience, trail).await?,
                    }
                }
            }
        }
    }

    /// What goes with a message: nothing of a session where it is of the newer era, or begins one.
    fn head_for(&self, message: &Message) -> Head {
        if message.version.is_some() || message.is_initialize() {
            Head::default()
        } else {
            self.session.head()
        }
    }

    /// Lets the request be sent again, unless it could be a second execution.
    async fn again(&self, message: &Message, patience: &mut Patience, trail: Trail) -> Result<(), Failure> {
        if !message.may_be_repeated() {
            return Err(Failure::Lost { execution: trail.execution });
        }
        patience.wait(&"the connection broke").await
    }

    async fn pass_json(
        &self,
        message: &Message,
        id: &Id,
        text: String,
        status: StatusCode,
        session_id: Option<HeaderValue>,
    ) -> Result<(), Failure> {
        match from_server(&text) {
            Some(FromServer::Answer { id: answered, version }) if answered == *id => {
                self.learn(message, id, version, session_id, &text);
                self.out.say(text).await;
                Ok(())
            }
            _ => Err(in_doubt(message, http::refused(status, &text))),
        }
    }

    /// Reads a request's stream to its answer, taking it up again where it breaks and the server still has it. Where
    /// there is no answer to be had, what is known of the stream.
    async fn follow_through(
        &self,
        message: &Message,
        id: &Id,
        head: &Head,
        mut events: Events,
        session_id: Option<HeaderValue>,
    ) -> Result<Option<Trail>, Failure> {
        let (mut trail, mut patience) = (Trail::default(), Patience::new());
        loop {
            match self.follow(message, id, head, &mut events, &mut trail, session_id.clone()).await {
                End::Answered => return Ok(None),
                End::Broken if trail.last_event.is_none() || head.id.is_none() => return Ok(Some(trail)),
                End::Broken => {}
            }
            if std::mem::take(&mut trail.is_alive) {
                patience = Patience::new();
            }
            match self.take_up(head, &trail, &mut patience).await? {
                Some(rest) => events = rest,
                None => return Ok(Some(trail)),
            }
        }
    }

    async fn follow(
        &self,
        message: &Message,
        id: &Id,
        head: &Head,
        events: &mut Events,
        trail: &mut Trail,
        session_id: Option<HeaderValue>,
    ) -> End {
        while let Some(Ok(event)) = events.next().await {
            trail.is_alive = true;
            if event.id.is_some() {
                trail.last_event = event.id;
            }
            let Some(text) = event.data.filter(|data| !data.is_empty()) else { continue };
            match from_server(&text) {
                Some(FromServer::Answer { id: answered, version }) if answered == *id => {
                    self.learn(message, id, version, session_id, &text);
                    self.out.say(text).await;
                    let _ = tokio::time::timeout(LAST_BYTES, events.next()).await;
                    return End::Answered;
                }
                _ => {}
            }
            trail.execution = execution_named(&text).or(trail.execution.take());
            if let Some(text) = self.for_client(head.generation, text) {
                self.out.say(text).await;
            }
        }
        End::Broken
    }

    /// The rest of a stream that broke; none where the server has no such stream.
    async fn take_up(
        &self,
        head: &Head,
        trail: &Trail,
        patience: &mut Patience,
    ) -> Result<Option<Events>, Failure> {
        loop {
            let lost = |_| Failure::Lost { execution: trail.execution.clone() };
            patience.wait(&"the stream broke").await.map_err(lost)?;
            let place = self.upstream.place().await.map_err(lost)?;
            match self.http.stream(&place, head, trail.last_event.as_deref()).send().await {
                Err(error) if error.is_connect() => self.upstream.lost(&place),
                Err(error) => tracing::debug!(%error, "the stream cannot be taken up yet"),
                Ok(response) => {
                    return Ok(match http::answer(response, head).await {
                        Ok(Answer::Events(events)) => Some(events),
                        _ => None,
                    });
                }
            }
        }
    }

    /// Headers that repeat what is in the message.
    fn mirrored(&self, message: &Message) -> HeaderMap {
        match &message.kind {
            Kind::Request { method, name: Some(name), .. }
                if method == "tools/call" && message.version.is_some() =>
            {
                self.mirrors.of_call(name, &message.text)
            }
            _ => HeaderMap::new(),
        }
    }

    /// Takes from an answer what later messages need.
    fn learn(
        &self,
        message: &Message,
        id: &Id,
        version: Option<String>,
        session_id: Option<HeaderValue>,
        answer: &str,
    ) {
        // An answer without a revision is an error, and begins nothing.
        if message.is_initialize() && version.is_some() {
            let beginning = Beginning { text: message.text.clone(), id: id.clone(), version };
            self.session.begin(beginning, session_id);
        }
        if matches!(&message.kind, Kind::Request { method, .. } if method == "tools/list") {
            self.mirrors.learn(answer);
        }
    }
}

/// A server that failed over a call, or whoever stands before it, may have taken the call all the same.
fn in_doubt(message: &Message, failure: Failure) -> Failure {
    match failure {
        Failure::Refused { status, .. } if status >= 500 && !message.may_be_repeated() => {
            Failure::Lost { execution: None }
        }
        failure => failure,
    }
}
