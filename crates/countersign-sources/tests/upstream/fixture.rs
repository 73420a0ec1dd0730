//! What every test of this crate needs: an upstream, its events, somebody who answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use countersign_sources::http::Intent;
use countersign_sources::mcp::{
    Asker, Call, CallFailure, CallOutcome, Question, Reply, Round, Upstream, UpstreamConfig, UpstreamEvent,
};
use serde_json::{Map, Value, json};

/// An upstream and what it told.
pub(crate) struct Connected {
    pub(crate) upstream: Upstream,
    events: Arc<Mutex<Vec<UpstreamEvent>>>,
}

impl std::ops::Deref for Connected {
    type Target = Upstream;
    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}

pub(crate) async fn connect(config: UpstreamConfig) -> Connected {
    let events = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&events);
    let upstream = Upstream::connect(config, Arc::new(move |event| told.lock().unwrap().push(event))).await;
    Connected { upstream: upstream.unwrap(), events }
}

impl Connected {
    pub(crate) fn events(&self) -> Vec<UpstreamEvent> {
        self.events.lock().unwrap().clone()
    }

    pub(crate) async fn event(&self, wanted: impl Fn(&UpstreamEvent) -> bool) {
        eventually(|| self.events().iter().any(&wanted)).await;
    }

    pub(crate) async fn read(&self, tool: &str, arguments: Value) -> Result<CallOutcome, CallFailure> {
        self.upstream.call(call(tool, arguments, Intent::Read)).await
    }

    pub(crate) async fn write(&self, tool: &str, arguments: Value) -> Result<CallOutcome, CallFailure> {
        self.upstream.call(call(tool, arguments, Intent::Write)).await
    }
}

pub(crate) fn call(tool: &str, arguments: Value, intent: Intent) -> Call {
    Call::new(tool, object(arguments), intent)
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("no object: {other}"),
    }
}

/// The text of an outcome's first block.
pub(crate) fn text(outcome: &CallOutcome) -> &str {
    outcome.content[0]["text"].as_str().unwrap()
}

/// Waits until something is so. The bound only ends a test that would wait for ever.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never became so");
}

/// Answers every question alike and remembers them.
#[derive(Default)]
pub(crate) struct Person {
    pub(crate) reply: Option<Reply>,
    pub(crate) questions: Mutex<Vec<Question>>,
    pub(crate) rounds: Mutex<Vec<Round>>,
}

impl Person {
    pub(crate) fn who_says(reply: Reply) -> Arc<Self> {
        Arc::new(Self { reply: Some(reply), ..Self::default() })
    }

    pub(crate) fn who_accepts(content: Value) -> Arc<Self> {
        Self::who_says(Reply::Accepted(content))
    }

    pub(crate) fn messages(&self) -> Vec<String> {
        self.questions.lock().unwrap().iter().map(|question| question.message.clone()).collect()
    }
}

#[async_trait]
impl Asker for Person {
    async fn ask(&self, question: Question) -> Reply {
        self.questions.lock().unwrap().push(question);
        self.reply.clone().unwrap_or(Reply::Declined)
    }

    async fn record(&self, round: &Round) {
        self.rounds.lock().unwrap().push(round.clone());
    }
}

pub(crate) fn no_arguments() -> Value {
    json!({})
}
