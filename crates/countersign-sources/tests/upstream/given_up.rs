//! A server that goes on with a call that was given up: what it asks of a client then is not asked of another one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use countersign_sdk::ClientRequest;
use countersign_sources::http::Intent;
use countersign_sources::mcp::{
    Asker, Call, CallFailure, Elicitation, Protocol, Question, Reply, Sampling, UpstreamConfig,
};
use serde_json::{Value, json};

use crate::fixture::{call, connect, text};
use crate::toolbox::script_server;

/// A client of one session, and how often its model was asked.
struct ClientOf {
    session: &'static str,
    asked: Mutex<usize>,
}

impl ClientOf {
    fn session(session: &'static str) -> Arc<Self> {
        Arc::new(Self { session, asked: Mutex::default() })
    }

    fn calling(self: &Arc<Self>, arguments: Value) -> Call {
        Call { asker: Arc::clone(self) as Arc<dyn Asker>, ..call("act", arguments, Intent::Read) }
    }
}

#[async_trait]
impl Asker for ClientOf {
    async fn ask(&self, _: Question) -> Reply {
        Reply::Declined
    }

    async fn ask_client(&self, _: ClientRequest) -> Result<Value, String> {
        *self.asked.lock().unwrap() += 1;
        Ok(json!({ "model": "m", "role": "assistant", "content": { "type": "text", "text": self.session } }))
    }

    fn session(&self) -> Option<String> {
        Some(self.session.to_owned())
    }
}

fn config() -> UpstreamConfig {
    let mut config = script_server("hostile.mjs", &["samples-late"], &[]);
    config.protocol = Protocol::Legacy;
    config.sampling = Sampling::Client;
    config.elicitation = Elicitation::Refuse;
    config.limits.call_silence = Duration::from_millis(300);
    config
}

#[tokio::test]
async fn a_request_that_may_be_for_anothers_call_that_was_given_up_is_refused() {
    let server = connect(config()).await;
    let (ann, bob) = (ClientOf::session("ann"), ClientOf::session("bob"));
    let first = server.call(ann.calling(json!({}))).await.unwrap();
    assert!(text(&first).contains("ann"), "{first:?}");
    let given_up = server.call(ann.calling(json!({ "late": true }))).await;
    assert!(matches!(given_up, Err(CallFailure::Lost(_))), "{given_up:?}");
    let refused = server.call(bob.calling(json!({}))).await.unwrap();
    assert!(text(&refused).contains("not clear which call"), "{refused:?}");
    assert_eq!(*bob.asked.lock().unwrap(), 0, "the text of Ann's call does not reach Bob's model");
    let own = server.call(ann.calling(json!({}))).await.unwrap();
    assert!(text(&own).contains("ann"), "her own client may be asked: {own:?}");
}
