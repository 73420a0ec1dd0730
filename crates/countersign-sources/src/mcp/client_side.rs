//! Requests of a server to its client: a model's answer (sampling) and roots.
//!
//! Promises: both are refused unless the operator says otherwise, and the refusal names the setting. Where they are passed on, the
//! client that made the call gets no more than the conversation itself, marked as the source's: context of other servers and
//! tools are taken out. Roots are the operator's own or the calling client's, never both: servers such as the published one for
//! files take the folders that they may touch from roots, so that an agent's client would widen what the operator allowed (R18).

#![expect(deprecated, reason = "servers ask for sampling and roots, and must get an answer")]

use countersign_sdk::{ClientCapability, ClientRequest};
use rmcp::model::{CreateMessageResult, ListRootsResult};
use serde_json::{Map, Value, json};

use crate::mcp::calls::CallInFlight;
use crate::mcp::config::{Roots, Sampling, UpstreamConfig};

/// The parts of a sampling request that are passed on. `includeContext` is not: at the client it would mean every source behind
/// this gateway. Nor are tools: the server is told that they are not served.
const PASSED_ON: [&str; 7] =
    ["messages", "modelPreferences", "systemPrompt", "temperature", "maxTokens", "stopSequences", "metadata"];
/// Where a request says which source it is from.
const SOURCE_KEY: &str = "countersign/source";

const SAMPLING_REFUSED: &str = "sampling is refused for this source: this gateway has no model. Its operator can have the model of \
                                the client that calls asked with sampling = \"client\"";
const NO_CALL: &str = "it is not clear which call this request belongs to, so no client is asked: a server may use its client's \
                       model and roots only during a call. Where another client gave up a call of this server, requests are \
                       refused until that call has ended";

/// How requests for a client's own are answered for one source.
pub(super) struct ClientSide {
    source: String,
    sampling: Sampling,
    roots: Roots,
}

impl ClientSide {
    pub(super) fn of(config: &UpstreamConfig) -> Self {
        let UpstreamConfig { name, sampling, roots, .. } = config;
        Self { source: name.clone(), sampling: *sampling, roots: roots.clone() }
    }

    /// Whether the server is told that it may ask for a model.
    pub(super) fn has_sampling(&self) -> bool {
        self.sampling == Sampling::Client
    }

    /// Whether the server is told that there are roots.
    pub(super) fn has_roots(&self) -> bool {
        match &self.roots {
            Roots::Listed(roots) => !roots.is_empty(),
            Roots::Client => true,
        }
    }

    /// The answer to `sampling/createMessage`, or why there is none.
    pub(super) async fn sample(&self, call: Option<&CallInFlight>, params: Value) -> Result<Value, String> {
        if !self.has_sampling() {
            return Err(SAMPLING_REFUSED.to_owned());
        }
        let call = call.ok_or(NO_CALL)?;
        let params = self.passed_on(params);
        let answer =
            call.ask_client(ClientRequest { capability: ClientCapability::Sampling, params }).await?;
        serde_json::from_value::<CreateMessageResult>(answer.clone())
            .map_err(|error| format!("the client's answer is no message of a model: {error}"))?;
        Ok(answer)
    }

    /// The answer to `roots/list`, or why there is none.
    pub(super) async fn list_roots(&self, call: Option<&CallInFlight>) -> Result<Value, String> {
        let listed = match &self.roots {
            Roots::Client => {
                let call = call.ok_or(NO_CALL)?;
                let request = ClientRequest { capability: ClientCapability::Roots, params: json!({}) };
                let answer = call.ask_client(request).await?;
                serde_json::from_value::<ListRootsResult>(answer)
                    .map_err(|error| format!("the client's answer is no list of roots: {error}"))?
            }
            Roots::Listed(roots) => ListRootsResult::new(
                roots
                    .iter()
                    .map(|root| {
                        let mut told = rmcp::model::Root::new(root.uri.clone());
                        told.name.clone_from(&root.name);
                        told
                    })
                    .collect(),
            ),
        };
        serde_json::to_value(listed).map_err(|error| error.to_string())
    }

    /// The part of a sampling request that the calling client gets.
    fn passed_on(&self, params: Value) -> Value {
        let mut params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        params.retain(|key, _| PASSED_ON.contains(&key.as_str()));
        let label = format!("[This request is from the source \"{}\" behind Countersign.]", self.source);
        let prompt = match params.get("systemPrompt").and_then(Value::as_str) {
            Some(theirs) => format!("{label}\n\n{theirs}"),
            None => label,
        };
        params.insert("systemPrompt".to_owned(), prompt.into());
        params.insert("_meta".to_owned(), json!({ SOURCE_KEY: self.source }));
        Value::Object(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::config::{CommandConfig, Endpoint};

    fn config() -> UpstreamConfig {
        let command =
            CommandConfig { program: "x".into(), arguments: vec![], variables: vec![], folder: None };
        UpstreamConfig::new("shop", Endpoint::Command(command))
    }

    #[test]
    fn the_client_gets_the_conversation_with_its_source_named_and_nothing_that_reaches_further() {
        let messages = json!([{ "role": "user", "content": { "type": "text", "text": "Hi\u{202e}" } }]);
        let asked = json!({
            "messages": messages, "maxTokens": 7, "systemPrompt": "Be brief.", "temperature": 0.5,
            "includeContext": "allServers", "tools": [{ "name": "x" }], "toolChoice": { "mode": "required" },
            "task": { "ttl": 1 }, "_meta": { "progressToken": 1, "countersign/source": "bank" },
        });
        let passed = ClientSide::of(&config()).passed_on(asked);
        let prompt = "[This request is from the source \"shop\" behind Countersign.]\n\nBe brief.";
        let expected = json!({
            "messages": messages, "maxTokens": 7, "temperature": 0.5, "systemPrompt": prompt,
            "_meta": { "countersign/source": "shop" },
        });
        assert_eq!(passed, expected);
    }

    #[tokio::test]
    async fn by_default_both_are_refused_and_the_refusal_names_the_setting() {
        let side = ClientSide::of(&config());
        assert!(!side.has_sampling() && !side.has_roots());
        assert!(side.sample(None, json!({})).await.unwrap_err().contains("sampling = \"client\""));
        assert_eq!(side.list_roots(None).await.unwrap(), json!({ "roots": [] }), "there are none");
        let open = UpstreamConfig { sampling: Sampling::Client, roots: Roots::Client, ..config() };
        let side = ClientSide::of(&open);
        assert!(side.sample(None, json!({})).await.unwrap_err().contains("which call"));
        assert!(side.list_roots(None).await.unwrap_err().contains("which call"));
    }
}
