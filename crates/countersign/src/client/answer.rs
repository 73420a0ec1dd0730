//! What a server answers: a value, or why not.

use countersign_server::wire;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

use super::Client;
use crate::exit::{Exit, Problem};

/// The code of a problem that is nobody's no: the server could not be asked, or its answer got lost.
pub(crate) const UNREACHABLE: &str = "server_unreachable";
/// The longest answer that is read. A list's part of the largest arguments stays below it.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// How much of an answer that is none of ours is quoted.
const QUOTED_CHARS: usize = 200;

impl Client {
    /// Sends a request and reads its JSON.
    pub(super) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Problem> {
        let bytes = self.bytes(request).await?;
        serde_json::from_slice(&bytes).map_err(|e| {
            tracing::debug!(cause = %e, "an answer could not be read");
            let message =
                format!("the server at {} answered something that this program does not know", self.url());
            Problem::new("unknown_answer", message)
                .hint("Use the same version here and there; `countersign doctor` shows both.")
        })
    }

    /// Sends a request and reads its text.
    pub(super) async fn text(&self, request: RequestBuilder) -> Result<String, Problem> {
        Ok(String::from_utf8_lossy(&self.bytes(request).await?).into_owned())
    }

    /// Sends a request whose answer says nothing but yes.
    pub(super) async fn done(&self, request: RequestBuilder) -> Result<(), Problem> {
        self.bytes(request).await.map(drop)
    }

    /// Sends a request; what is not a success becomes a problem.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, Problem> {
        let response = request.send().await.map_err(|error| self.lost(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = self.body(response).await?;
        Err(match serde_json::from_slice::<wire::Problem>(&body) {
            Ok(problem) => refused(problem),
            Err(_) => self.stranger(status, &body),
        })
    }

    async fn bytes(&self, request: RequestBuilder) -> Result<Vec<u8>, Problem> {
        let response = self.send(request).await?;
        self.body(response).await
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Problem> {
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|error| self.lost(&error))? {
            if body.len() + part.len() > MOST_BYTES {
                let message = format!("the answer of {} has more than {MOST_BYTES} bytes", self.url());
                return Err(Problem::new("answer_too_long", message));
            }
            body.extend_from_slice(&part);
        }
        Ok(body)
    }

    /// Why there is no answer, and what to do about it.
    pub(super) fn lost(&self, error: &reqwest::Error) -> Problem {
        tracing::debug!(cause = ?error, "a request failed");
        let url = self.url();
        if error.is_connect() || error.is_timeout() {
            return Problem::new(UNREACHABLE, format!("no server answers at {url}"))
                .hint("Start one with `countersign serve`, or unset COUNTERSIGN_URL if it is another.");
        }
        Problem::new(UNREACHABLE, format!("the connection to {url} broke before the answer came"))
            .hint("What was asked for may have happened: look with `countersign executions` and `countersign inbox`.")
    }

    /// Somebody answered who does not speak as our server does.
    fn stranger(&self, status: StatusCode, body: &[u8]) -> Problem {
        let said: String = String::from_utf8_lossy(body).trim().chars().take(QUOTED_CHARS).collect();
        let said = if said.is_empty() { String::new() } else { format!(": {}", crate::shown::flat(&said)) };
        Problem::new("unknown_answer", format!("{} answered {status}{said}", self.url()))
            .hint("Is a Countersign server at this address? COUNTERSIGN_URL says which one is used.")
    }
}

/// What the server refused. Its detail says what to do; some refusals are mended on this side.
fn refused(problem: wire::Problem) -> Problem {
    let hint = match StatusCode::from_u16(problem.status) {
        Ok(StatusCode::UNAUTHORIZED) => Some(
            "Set COUNTERSIGN_TOKEN to a token of this server; on its own machine the commands find one by themselves.",
        ),
        Ok(StatusCode::FORBIDDEN) => Some(
            "COUNTERSIGN_TOKEN must belong to a role that may do this; `countersign token create` makes one.",
        ),
        _ => None,
    };
    let exit = if problem.code == "expired" { Exit::Refused } else { Exit::Failed };
    Problem {
        hint: hint.map(str::to_owned),
        exit,
        more: problem.more,
        ..Problem::new(problem.code, problem.detail)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;

    /// What a client makes of this answer.
    async fn answered(status: u16, body: &'static str) -> Problem {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        let router = Router::new().route("/api/whoami", get(async move || (status, body)));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await });
        let problem = Client::new(&url, "canary").unwrap().whoami().await.unwrap_err();
        serving.abort();
        assert!(!format!("{problem:?}").contains("canary"), "no error shows the token: {problem:?}");
        problem
    }

    #[tokio::test]
    async fn the_servers_own_words_and_code_come_through() {
        let problem = answered(
            410,
            r#"{"type":"urn:countersign:expired","title":"Gone","status":410,"code":"expired","detail":"too late","extra":1}"#,
        )
        .await;
        assert_eq!((problem.code.as_ref(), problem.message.as_str()), ("expired", "too late"));
        assert_eq!(problem.exit, Exit::Refused);
        assert_eq!(problem.more["extra"], 1);
    }

    #[tokio::test]
    async fn somebody_who_is_not_our_server_is_told_apart() {
        for (status, body) in [(502, "<html>Bad\nGateway"), (404, ""), (302, ""), (200, "hello"), (200, "{}")]
        {
            let problem = answered(status, body).await;
            assert_eq!(problem.code, "unknown_answer", "{status} {body}");
            assert!(problem.hint.is_some() && !problem.message.contains('\n'), "{problem:?}");
        }
    }

    #[tokio::test]
    async fn a_wrong_token_says_what_to_set() {
        let body =
            r#"{"type":"x","title":"Unauthorized","status":401,"code":"unauthenticated","detail":"unknown"}"#;
        let problem = answered(401, body).await;
        assert!(problem.hint.unwrap().contains("COUNTERSIGN_TOKEN"));
    }
}
