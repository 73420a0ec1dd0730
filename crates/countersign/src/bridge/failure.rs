//! What the client is told when the bridge cannot bring it an answer: a JSON-RPC error with a stable code in `data`, and
//! words that say what to do next.

use serde_json::json;

use super::message::Id;

/// A server-defined code of JSON-RPC. The stable name is in `data.code`.
const SERVER_ERROR: i32 = -32000;
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request was on its way, or its answer, when the connection broke or the server failed.
    Lost {
        /// The execution, where the server had named it.
        execution: Option<String>,
    },
    /// Nobody answers at the address.
    Unreachable(String),
    /// The server does not take the token.
    Unauthorised(u16),
    /// The server answered with something that is no answer.
    Refused { status: u16, body: String },
    /// The server came back speaking another revision than the client was told.
    OtherRevision(String),
    /// The client has too many requests under way.
    TooMany(usize),
    /// The client uses an id that it waits for an answer to already.
    IdInUse,
    /// A line that is no JSON.
    NotJson,
    /// A line that is JSON and no message.
    NotJsonRpc,
    /// A line beyond the bound.
    TooLong(usize),
}

impl Failure {
    /// The error as a line; without an id it belongs to no request that could be read.
    pub(super) fn line(&self, id: Option<&Id>) -> String {
        let id = id.map_or("null", Id::as_json);
        let mut data = json!({ "code": self.code() });
        if let Self::Lost { execution: Some(execution) } = self {
            data["executionId"] = json!(execution);
        }
        let error = json!({ "code": self.json_rpc(), "message": self.message(), "data": data });
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }

    /// Whether the server may do another time what it did not do now.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500..),
            _ => false,
        }
    }

    /// Stable, for programs.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "connection_lost",
            Self::Unreachable(_) => "server_unreachable",
            Self::Unauthorised(_) => "unauthorised",
            Self::Refused { .. } => "server_refused",
            Self::OtherRevision(_) => "server_changed",
            Self::TooMany(_) => "too_many_requests",
            Self::IdInUse => "id_in_use",
            Self::NotJson => "not_json",
            Self::NotJsonRpc => "not_json_rpc",
            Self::TooLong(_) => "message_too_long",
        }
    }

    fn json_rpc(&self) -> i32 {
        match self {
            Self::NotJson => PARSE_ERROR,
            Self::NotJsonRpc | Self::TooLong(_) | Self::IdInUse => INVALID_REQUEST,
            _ => SERVER_ERROR,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Lost { execution } => {
                let which = match execution {
                    Some(id) => format!("call `resume` with execution_id {id}"),
                    None => "call `resume` with its execution id".to_owned(),
                };
                format!(
                    "The connection to Countersign broke, or the server failed, before there was an answer. The \
                     request was not sent again: the call may still be waiting for a person, or may have run. To find \
                     out, {which}, or look at `countersign inbox` and `countersign executions`."
                )
            }
            Self::Unreachable(why) => format!(
                "Countersign does not answer ({why}). Nothing was sent; try again once it runs. `countersign doctor` says \
                 more."
            ),
            Self::Unauthorised(status) => format!(
                "Countersign does not take this token (HTTP {status}). Put an agent's token into COUNTERSIGN_TOKEN; \
                 `countersign token create --role agent --name NAME` makes one."
            ),
            Self::Refused { status, body } => format!("The server answered HTTP {status}: {body}"),
            Self::OtherRevision(version) => {
                format!("Countersign was restarted and speaks protocol revision {version} now; connect anew.")
            }
            Self::TooMany(bound) => {
                format!("More than {bound} requests are under way; wait for answers first.")
            }
            Self::IdInUse => {
                "A request of this id is under way; the second one was not sent. Give each request an id of its own."
                    .to_owned()
            }
            Self::NotJson => "This line is no JSON.".to_owned(),
            Self::NotJsonRpc => "This line is no JSON-RPC message; batches are not taken.".to_owned(),
            Self::TooLong(bound) => format!("This line is longer than {bound} bytes."),
        }
    }
}
