//! `countersign mcp`: a pipe between a client that speaks MCP on standard input and output, and a server that speaks it over
//! HTTP. Many clients can so share one server, and one inbox.
//!
//! Promises: standard output carries messages and nothing else; every message is passed on as it came, but for the names
//! of questions; a request is answered, or the client is told why not; a call is never sent twice, because that would be a
//! second execution; a person's answer reaches the question that the person saw, or none; a server that was restarted is
//! found again, and a client of the 2025 era need not notice; a call that the client cancels is cancelled in the server, in
//! either era; when the client goes, so does the bridge, and what waits for a person goes on waiting in the server.
//!
//! What is deliberately absent: any knowledge of tools, and any decision. Read `exchange.rs` next: one request.

mod delivery;
mod exchange;
mod failure;
mod http;
mod journey;
mod lines;
mod local_server;
mod mending;
mod message;
mod mirrors;
mod questions;
mod session;
mod upstream;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_kernel::ports::{Entropy as _, SystemEntropy};
use reqwest::header::HeaderValue;
use tokio::task::{AbortHandle, JoinSet};

use failure::Failure;
use http::{Distance, Http};
use journey::{Journey, Stage};
use lines::{Line, MAX_LINE, Outlet, Unusable};
use message::{Id, Kind, Message, NoMessage};
use mirrors::Mirrors;
use session::Session;

pub(crate) use http::Place;
pub(crate) use local_server::{LocalServer, Start};
pub(crate) use upstream::Upstream;

/// How many requests of one client may be under way.
const MAX_IN_FLIGHT: usize = 256;
/// How long answers may take once the client has stopped writing. Clients wait about two seconds before they kill.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long saying goodbye may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// One client, one server.
struct Bridge {
    upstream: Upstream,
    http: Http,
    session: Session,
    mirrors: Mirrors,
    out: Outlet,
    in_flight: Mutex<HashMap<Id, Flight>>,
}

/// A request under way.
struct Flight {
    task: AbortHandle,
    era: Era,
    journey: Arc<Journey>,
}

/// What the bridge does at once.
#[derive(Default)]
struct Tasks {
    /// Requests, and the server's own stream, which has no end of its own.
    requests: JoinSet<()>,
    /// Answers and cancellations of the client's on their way.
    answers: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    /// 2025-06-18 and 2025-11-25: sessions.
    Sessions,
    /// 2026-07-28: every request for itself.
    Stateless,
}

/// The journey of a request. A call of the 2026-07-28 era is named: hanging up on it must not be taken for cancelling it.
fn journey_of(message: &Message) -> Journey {
    let is_call = matches!(&message.kind, Kind::Request { method, .. } if method == "tools/call");
    let name = message.version.as_ref().filter(|_| is_call).and_then(|_| {
        let bits = SystemEntropy.bits()?;
        let name: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        HeaderValue::from_str(&name).ok()
    });
    name.map_or_else(Journey::default, Journey::named)
}

/// Carries messages until the client stops writing or reading.
pub(crate) async fn run(
    upstream: Upstream,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> anyhow::Result<()> {
    let distance = if upstream.is_local() { Distance::ThisMachine } else { Distance::Elsewhere };
    let (out, writer) = Outlet::to(output);
    let bridge = Arc::new(Bridge {
        upstream,
        http: Http::new(distance)?,
        session: Session::default(),
        mirrors: Mirrors::default(),
        out: out.clone(),
        in_flight: Mutex::default(),
    });
    let mut lines = lines::read(input);
    let mut tasks = Tasks::default();
    loop {
        let line = tokio::select! {
            line = lines.recv() => line,
            () = out.closed() => None,
        };
        let Some(line) = line else { break };
        while tasks.requests.try_join_next().is_some() || tasks.answers.try_join_next().is_some() {}
        bridge.take(line, &mut tasks).await;
    }
    bridge.leave(&mut tasks).await;
    drop((bridge, out));
    // The last answers are written before the process ends; nobody else holds the outlet now.
    tokio::task::spawn_blocking(move || writer.join()).await?.ok();
    Ok(())
}

impl Bridge {
    async fn take(self: &Arc<Self>, line: Line, tasks: &mut Tasks) {
        let text = match line {
            Line::Text(text) => text,
            Line::Unusable(Unusable::TooLong) => return self.refuse(&Failure::TooLong(MAX_LINE)).await,
            Line::Unusable(Unusable::NotUnicode) => return self.refuse(&Failure::NotJson).await,
        };
        match Message::parse(text) {
            Ok(message) => self.carry(message, tasks).await,
            Err(NoMessage::NotJson) => self.refuse(&Failure::NotJson).await,
            Err(NoMessage::NotJsonRpc) => self.refuse(&Failure::NotJsonRpc).await,
        }
    }

    async fn refuse(&self, failure: &Failure) {
        self.out.say(failure.line(None)).await;
    }

    async fn carry(self: &Arc<Self>, message: Message, tasks: &mut Tasks) {
        match &message.kind {
            // Everything after it belongs to what is agreed on now.
            Kind::Request { id, .. } if message.is_initialize() => {
                let id = id.clone();
                let outcome = self.exchange(&message, &id, &Journey::default()).await;
                self.tell(&id, outcome).await;
            }
            Kind::Request { id, .. } => {
                let id = id.clone();
                self.launch(message, id, &mut tasks.requests).await;
            }
            Kind::Notification { cancels: Some(id), .. } => {
                let id = id.clone();
                self.cancel(&id, message, &mut tasks.answers).await;
            }
            Kind::Notification { method, .. } => {
                let is_initialized = method == "notifications/initialized" && message.version.is_none();
                let is_first = is_initialized && self.session.initialized(&message.text);
                self.deliver(&message).await;
                if is_first {
                    tasks.requests.spawn(Arc::clone(self).listen());
                }
            }
            Kind::Answer { id } => match self.session.answered(id) {
                Some(question) => {
                    tasks.answers.spawn(Arc::clone(self).deliver_answer(message, question));
                }
                None => tracing::debug!("an answer to a question that was withdrawn"),
            },
        }
    }

    async fn launch(self: &Arc<Self>, message: Message, id: Id, tasks: &mut JoinSet<()>) {
        let era = if message.version.is_some() { Era::Stateless } else { Era::Sessions };
        let bridge = Arc::clone(self);
        let (key, journey) = (id.clone(), Arc::new(journey_of(&message)));
        let refused = {
            // Held until it is written down, so that an exchange cannot end before it began.
            let mut in_flight = self.in_flight();
            let refused = match in_flight.len() {
                _ if in_flight.contains_key(&key) => Some(Failure::IdInUse),
                MAX_IN_FLIGHT.. => Some(Failure::TooMany(MAX_IN_FLIGHT)),
                _ => None,
            };
            if refused.is_none() {
                let on_its_way = Arc::clone(&journey);
                let task = tasks.spawn(async move {
                    let outcome = bridge.exchange(&message, &id, &on_its_way).await;
                    // A request that the client gave up has no answer.
                    let is_wanted = bridge.in_flight().remove(&id).is_some();
                    if is_wanted {
                        bridge.tell(&id, outcome).await;
                    }
                });
                in_flight.insert(key.clone(), Flight { task, era, journey });
            }
            refused
        };
        if let Some(failure) = refused {
            self.out.say(failure.line(Some(&key))).await;
        }
    }

    async fn tell(&self, id: &Id, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            tracing::warn!(code = failure.code(), "a request has no answer");
            self.out.say(failure.line(Some(id))).await;
        }
    }

    /// The client gave a request up.
    async fn cancel(self: &Arc<Self>, id: &Id, message: Message, deliveries: &mut JoinSet<()>) {
        let Some(flight) = self.in_flight().remove(id) else { return };
        match (flight.journey.give_up(), flight.era) {
            // The server never heard of it and never will.
            (Stage::Here, _) => flight.task.abort(),
            (_, Era::Stateless) => {
                deliveries.spawn(Arc::clone(self).deliver_cancellation(message, flight));
            }
            (_, Era::Sessions) => self.deliver(&message).await,
        }
    }

    /// The client is gone: last answers, then goodbye.
    async fn leave(&self, tasks: &mut Tasks) {
        let Tasks { requests, answers } = tasks;
        let answered = async {
            while answers.join_next().await.is_some() {}
            while !self.in_flight().is_empty() && requests.join_next().await.is_some() {}
        };
        let _ = tokio::time::timeout(LAST_ANSWERS, answered).await;
        requests.shutdown().await;
        answers.shutdown().await;
        let head = self.session.head();
        if head.id.is_some()
            && let Some(place) = self.upstream.known()
        {
            let _ = self.http.leave(&place, &head).timeout(LEAVE_WITHIN).send().await;
        }
    }

    fn in_flight(&self) -> std::sync::MutexGuard<'_, HashMap<Id, Flight>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
