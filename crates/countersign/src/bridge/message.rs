//! One JSON-RPC message, looked into just far enough to carry it: what it is, whose it is, and which headers it needs.
//! Its text is passed on as it came, but for the names of questions (`questions.rs`).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Where a message of the 2026-07-28 era says which revision it speaks. Older ones say it once, when they initialise.
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// Where the server says which execution a message is about.
const EXECUTION_KEY: &str = "countersign/executionId";

/// How either side says that it does not wait for an answer any more.
const CANCELLED: &str = "notifications/cancelled";

/// A request's id, as it was written. Two are the same that mean the same: JSON has many ways to write a letter, and a server
/// need not choose the client's.
#[derive(Debug, Clone)]
pub(super) struct Id {
    written: Box<str>,
    means: Value,
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.means == other.means
    }
}

impl Eq for Id {}

impl std::hash::Hash for Id {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.means.hash(state);
    }
}

/// A message from the client.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) kind: Kind,
    /// The revision that the message itself names: it is of the 2026-07-28 era.
    pub(super) version: Option<String>,
}

/// What a message is.
#[derive(Debug)]
pub(super) enum Kind {
    Request {
        id: Id,
        method: String,
        /// What the request is about, where it is about something with a name.
        name: Option<String>,
    },
    Notification {
        method: String,
        /// The request that the client gave up.
        cancels: Option<Id>,
    },
    /// The answer to a question of the server's.
    Answer { id: Id },
}

/// Why a line is no message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoMessage {
    NotJson,
    NotJsonRpc,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    params: Option<Params<'a>>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(rename = "_meta")]
    meta: Option<Value>,
    name: Option<Value>,
    uri: Option<Value>,
    task_id: Option<Value>,
    #[serde(borrow)]
    request_id: Option<&'a RawValue>,
}

impl Message {
    pub(super) fn parse(text: String) -> Result<Self, NoMessage> {
        let envelope: Envelope<'_> = match serde_json::from_str(&text) {
            Ok(envelope) => envelope,
            Err(error) if error.is_data() => return Err(NoMessage::NotJsonRpc),
            Err(_) => return Err(NoMessage::NotJson),
        };
        let version = envelope.params.as_ref().and_then(|params| in_meta(params, VERSION_KEY));
        let kind = match (envelope.method, envelope.id) {
            (Some(method), Some(id)) => {
                let name = envelope.params.as_ref().and_then(|params| params.name_for(&method));
                Kind::Request { id: Id::of(id), method, name }
            }
            (Some(method), None) => {
                let cancels = envelope.params.and_then(|params| params.request_id).map(Id::of);
                let cancels = cancels.filter(|_| method == CANCELLED);
                Kind::Notification { method, cancels }
            }
            (None, Some(id)) if envelope.result.is_some() || envelope.error.is_some() => {
                Kind::Answer { id: Id::of(id) }
            }
            (None, _) => return Err(NoMessage::NotJsonRpc),
        };
        Ok(Self { text, kind, version })
    }

    /// Whether it begins a session of the 2025 era.
    pub(super) fn is_initialize(&self) -> bool {
        self.version.is_none() && matches!(&self.kind, Kind::Request { method, .. } if method == "initialize")
    }

    /// Whether sending it twice is the same as sending it once. A call is not: it would be a second execution.
    pub(super) fn may_be_repeated(&self) -> bool {
        const REPEATABLE: [&str; 12] = [
            "completion/complete",
            "logging/setLevel",
            "ping",
            "prompts/get",
            "prompts/list",
            "resources/list",
            "resources/read",
            "resources/templates/list",
            "server/discover",
            "tasks/get",
            "tools/list",
            "initialize",
        ];
        matches!(&self.kind, Kind::Request { method, .. } if REPEATABLE.contains(&method.as_str()))
    }
}

impl Params<'_> {
    fn name_for(&self, method: &str) -> Option<String> {
        let field = match method {
            "tools/call" | "prompts/get" => &self.name,
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => &self.uri,
            "tasks/get" | "tasks/update" | "tasks/cancel" => &self.task_id,
            _ => return None,
        };
        field.as_ref().and_then(Value::as_str).map(str::to_owned)
    }
}

impl Id {
    fn of(raw: &RawValue) -> Self {
        Self::written(raw.get().to_owned())
    }

    /// An id that is JSON already.
    pub(super) fn written(json: String) -> Self {
        let means = serde_json::from_str(&json).unwrap_or_default();
        Self { written: json.into(), means }
    }

    /// As it was written.
    pub(super) fn as_json(&self) -> &str {
        &self.written
    }
}

/// What a message from the server is to whoever waits for an answer.
#[derive(Debug)]
pub(super) enum FromServer {
    Answer {
        id: Id,
        /// The revision that was agreed on, where it answers `initialize`.
        version: Option<String>,
    },
    /// A question to the client.
    Question(Id),
    /// A question to the client has no use for an answer any more.
    Withdrawal(Id),
    Notification,
}

/// Looks into a message from the server; what is no message is nothing to anybody.
pub(super) fn from_server(text: &str) -> Option<FromServer> {
    #[derive(Deserialize)]
    struct Incoming<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        method: Option<&'a RawValue>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        result: Option<Initialised>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialised {
        protocol_version: Option<Value>,
    }
    let incoming: Incoming<'_> = serde_json::from_str(text).ok()?;
    Some(match (incoming.id, incoming.method) {
        (Some(id), Some(_)) => FromServer::Question(Id::of(id)),
        (Some(id), None) => {
            let version = incoming.result.and_then(|result| result.protocol_version);
            let version = version.as_ref().and_then(Value::as_str).map(str::to_owned);
            FromServer::Answer { id: Id::of(id), version }
        }
        (None, Some(method))
            if serde_json::from_str::<String>(method.get()).is_ok_and(|m| m == CANCELLED) =>
        {
            let params: Option<Params<'_>> =
                incoming.params.and_then(|raw| serde_json::from_str(raw.get()).ok());
            let question = params.and_then(|params| params.request_id).map(Id::of);
            question.map_or(FromServer::Notification, FromServer::Withdrawal)
        }
        (None, _) => FromServer::Notification,
    })
}

/// The same question, answer or withdrawal under another id. Nothing else in it changes.
pub(super) fn renamed(text: &str, id: &Id) -> Option<String> {
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    let written = envelope.id.or_else(|| envelope.params?.request_id)?.get();
    // It was borrowed from the text, so it is somewhere in it.
    let start = written.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let (before, after) = (text.get(..start)?, text.get(start + written.len()..)?);
    Some(format!("{before}{}{after}", id.as_json()))
}

/// The execution that a message from the server names, if it names one.
pub(super) fn execution_named(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Incoming<'a> {
        #[serde(borrow)]
        params: Option<Params<'a>>,
    }
    if !text.contains(EXECUTION_KEY) {
        return None;
    }
    let incoming: Incoming<'_> = serde_json::from_str(text).ok()?;
    in_meta(incoming.params.as_ref()?, EXECUTION_KEY)
}

fn in_meta(params: &Params<'_>, key: &str) -> Option<String> {
    params.meta.as_ref()?.get(key)?.as_str().map(str::to_owned)
}

/// A value as a header carries it: plain where that is safe, wrapped where it is not.
pub(super) fn header_value(value: &str) -> String {
    const WRAP: (&str, &str) = ("=?base64?", "?=");
    let is_plain = |c: char| ('\x20'..='\x7e').contains(&c);
    let padded = value.starts_with(' ') || value.ends_with(' ');
    let looks_wrapped = value.starts_with(WRAP.0) && value.ends_with(WRAP.1);
    if value.chars().all(is_plain) && !padded && !looks_wrapped {
        return value.to_owned();
    }
    format!("{}{}{}", WRAP.0, BASE64_STANDARD.encode(value), WRAP.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Message {
        Message::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn a_call_of_the_2026_era_names_its_revision_and_its_tool() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"notes__list","arguments":{},
            "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let message = parsed(text);
        assert_eq!(message.version.as_deref(), Some("2026-07-28"));
        assert_eq!(message.text, text, "it is passed on as it came");
        let Kind::Request { id, method, name } = &message.kind else { panic!("{message:?}") };
        assert_eq!(
            (id.as_json(), method.as_str(), name.as_deref()),
            (r#""a""#, "tools/call", Some("notes__list"))
        );
    }

    #[test]
    fn a_call_is_never_repeated_and_a_list_may_be() {
        let request = |method: &str| parsed(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#));
        assert!(request("tools/list").may_be_repeated());
        for method in ["tools/call", "tasks/update", "tasks/cancel", "made/up"] {
            assert!(!request(method).may_be_repeated(), "{method}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_as_what_it_is() {
        for (line, refusal) in [
            ("{", NoMessage::NotJson),
            ("[]", NoMessage::NotJsonRpc),
            ("{}", NoMessage::NotJsonRpc),
            (r#"{"id":1}"#, NoMessage::NotJsonRpc),
            (r#"{"method":7,"id":1}"#, NoMessage::NotJsonRpc),
        ] {
            assert_eq!(Message::parse(line.to_owned()).unwrap_err(), refusal, "{line}");
        }
    }

    #[test]
    fn a_cancelled_notification_names_the_request_it_gives_up() {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"reason":"enough"}}"#;
        let Kind::Notification { cancels: Some(id), .. } = parsed(text).kind else { panic!("{text}") };
        assert_eq!(id.as_json(), "7");
    }

    #[test]
    fn a_message_under_another_id_is_otherwise_as_it_came() {
        let id = Id::written(r#""g2-1""#.to_owned());
        for (text, other) in [
            (
                r#"{"params":{"id":1,"_meta":{"progressToken":1}}, "id" : 1,"method":"elicitation/create"}"#,
                r#"{"params":{"id":1,"_meta":{"progressToken":1}}, "id" : "g2-1","method":"elicitation/create"}"#,
            ),
            (r#"{"result":{"id":1},"id":1}"#, r#"{"result":{"id":1},"id":"g2-1"}"#),
            (
                r#"{"method":"notifications/cancelled","params":{"reason":"1","requestId":1}}"#,
                r#"{"method":"notifications/cancelled","params":{"reason":"1","requestId":"g2-1"}}"#,
            ),
        ] {
            assert_eq!(renamed(text, &id).as_deref(), Some(other));
        }
    }

    #[test]
    fn header_values_that_are_not_plain_are_wrapped() {
        assert_eq!(header_value("notes__list"), "notes__list");
        assert_eq!(header_value("file://grüße"), "=?base64?ZmlsZTovL2dyw7zDn2U=?=");
        assert_eq!(header_value(" x"), "=?base64?IHg=?=");
        assert!(header_value("=?base64?eA==?=").len() > "=?base64?eA==?=".len());
    }
}
