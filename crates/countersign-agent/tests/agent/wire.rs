//! Both wire protocols, held against the same promises over real sockets.

use std::time::Duration;

use countersign_agent::model::{MAX_ERROR_BYTES, ModelError, Retry};
use countersign_agent::{AgentBuilder, AgentError, AgentEvent, Reply};
use countersign_kernel::ports::{Clock, SystemClock};
use futures_util::StreamExt;

use crate::server::{Answer, Server};
use crate::shop::{Shop, results};
use crate::{anthropic, openai};

/// The key that must never show up where it does not belong.
pub(crate) const KEY: &str = "sk-secret";

/// Quick, so that tests are.
pub(crate) const QUICK: Retry =
    Retry { attempts: 3, first_wait: Duration::from_millis(1), longest_wait: Duration::from_secs(5) };

/// A protocol's shapes.
pub(crate) struct Protocol {
    pub(crate) name: &'static str,
    pub(crate) two_calls: String,
    pub(crate) says: String,
    pub(crate) no_last_event: String,
    pub(crate) no_reason: String,
    pub(crate) error: String,
    pub(crate) malformed: String,
    /// An event with a text, `KEY`, where the protocol has none.
    pub(crate) quoting: &'static str,
    pub(crate) bad_arguments: String,
    pub(crate) cut_off_words: String,
    pub(crate) cut_off_call: String,
    pub(crate) refusal: &'static str,
    pub(crate) agent: fn(&str, Retry) -> AgentBuilder,
    /// Builds a model at this base URL.
    pub(crate) build: fn(&str) -> Result<(), ModelError>,
    pub(crate) authorization: &'static str,
    pub(crate) path: &'static str,
}

impl Protocol {
    pub(crate) async fn chat(
        &self,
        answers: impl IntoIterator<Item = Answer>,
    ) -> (Result<Reply, AgentError>, Server, Shop) {
        let (server, shop) = (Server::answering(answers).await, Shop::default());
        let agent =
            (self.agent)(&server.base, QUICK).instructions("Be brief.").tool(shop.read()).build().unwrap();
        (agent.chat("Read ä and b.").await, server, shop)
    }

    async fn error(&self, answers: impl IntoIterator<Item = Answer>) -> (ModelError, usize) {
        let (reply, server, _) = self.chat(answers).await;
        match reply {
            Err(AgentError::Model(error)) => (error, server.requests().len()),
            other => panic!("{}: a model's error is expected, not {other:?}", self.name),
        }
    }
}

fn both() -> [Protocol; 2] {
    [openai::protocol(), anthropic::protocol()]
}

fn check_whole(protocol: &Protocol, reply: Result<Reply, AgentError>, how: &str) {
    let reply = reply.unwrap_or_else(|error| panic!("{} {how}: {error}", protocol.name));
    assert_eq!(reply.text, "Both read. ✓", "{} {how}", protocol.name);
    assert_eq!(results(&reply), ["contents of ä", "contents of b"], "{} {how}", protocol.name);
}

#[tokio::test]
async fn a_stream_means_the_same_however_many_pieces_it_comes_in() {
    for protocol in both() {
        let (two_calls, says) = (Answer::stream(&protocol.two_calls), Answer::stream(&protocol.says));
        let whole = protocol.chat([two_calls.clone(), says.clone()]).await.0;
        check_whole(&protocol, whole, "in one piece");
        let halves =
            protocol.chat([two_calls.clone().split_at(protocol.two_calls.len() / 2), says.clone()]).await.0;
        check_whole(&protocol, halves, "in two pieces");
        let bytes = protocol.chat([two_calls.in_bytes(), says.in_bytes()]).await.0;
        check_whole(&protocol, bytes, "byte by byte");
    }
}

#[tokio::test]
async fn line_ends_may_be_of_either_kind() {
    for protocol in both() {
        let answers = [&protocol.two_calls, &protocol.says].map(|s| Answer::stream(&s.replace('\n', "\r\n")));
        let (reply, _, _) = protocol.chat(answers).await;
        check_whole(&protocol, reply, "with carriage returns");
    }
}

#[tokio::test]
async fn the_requests_are_what_the_protocol_says() {
    for protocol in both() {
        let answers = [Answer::stream(&protocol.two_calls), Answer::stream(&protocol.says)];
        let (_, server, _) = protocol.chat(answers).await;
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let head = &requests[0].head;
        assert!(head.starts_with(protocol.path), "{head}");
        assert!(head.contains(protocol.authorization), "{head}");
        let body = serde_json::to_string_pretty(&requests[1].body).unwrap();
        insta::assert_snapshot!(format!("request_{}", protocol.name), body);
    }
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_whole_if_it_said_why_it_stopped() {
    for protocol in both() {
        let answers = [Answer::stream(&protocol.two_calls), Answer::stream(&protocol.no_last_event)];
        let (reply, _, _) = protocol.chat(answers).await;
        check_whole(&protocol, reply, "without its last event");
    }
}

#[tokio::test]
async fn a_stream_that_ends_in_the_middle_is_truncated_and_not_tried_again() {
    for protocol in both() {
        let (error, requests) = protocol.error([Answer::stream(&protocol.no_reason)]).await;
        assert_eq!((error.code(), requests), ("stream_truncated", 1), "{}", protocol.name);
        let (error, requests) = protocol.error([Answer::stream(&protocol.no_reason).cut()]).await;
        assert_eq!((error.code(), requests), ("stream_broken", 1), "{}", protocol.name);
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_is_reported_with_what_it_says() {
    for protocol in both() {
        let (error, requests) = protocol.error([Answer::stream(&protocol.error)]).await;
        assert!(matches!(&error, ModelError::Reported { kind, .. } if kind.contains("error")), "{error:?}");
        assert_eq!(requests, 1, "what was told is not told again");
    }
}

#[tokio::test]
async fn an_event_that_is_no_json_is_malformed() {
    for protocol in both() {
        let (error, _) = protocol.error([Answer::stream(&protocol.malformed)]).await;
        assert_eq!(error.code(), "stream_malformed", "{}", protocol.name);
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_told_to_the_model() {
    for protocol in both() {
        let answers = [Answer::stream(&protocol.bad_arguments), Answer::stream(&protocol.says)];
        let (reply, server, shop) = protocol.chat(answers).await;
        let told = results(&reply.unwrap());
        assert!(told[0].starts_with("Invalid tool input: the arguments are not JSON"), "{told:?}");
        assert_eq!((shop.ran().len(), server.requests().len()), (0, 2));
        let echoed = server.requests()[1].body["messages"].to_string();
        assert!(echoed.contains("malformed"), "{}: told back as an object: {echoed}", protocol.name);
    }
}

#[tokio::test]
async fn a_call_that_is_cut_off_at_the_limit_of_tokens_is_not_taken_for_one_without_arguments() {
    for protocol in both() {
        let (error, requests) = protocol.error([Answer::stream(&protocol.cut_off_call)]).await;
        assert_eq!((error.code(), requests), ("turn_cut_off", 1), "{}", protocol.name);
        let (reply, ..) = protocol.chat([Answer::stream(&protocol.cut_off_words)]).await;
        assert_eq!(reply.unwrap().text, "Both", "{}: words are as good as they are", protocol.name);
    }
}

#[tokio::test]
async fn words_that_are_cut_off_at_the_limit_of_tokens_come_with_a_warning() {
    for protocol in both() {
        let server = Server::answering([Answer::stream(&protocol.cut_off_words)]).await;
        let agent = (protocol.agent)(&server.base, QUICK).build().unwrap();
        let events: Vec<AgentEvent> = agent.chat_stream("Hello").collect().await;
        let warnings: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::Warning { message } => Some(message.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(warnings, ["the model's turn was cut off at its limit of tokens"], "{}", protocol.name);
        assert!(matches!(events.last(), Some(AgentEvent::Complete(_))), "{}", protocol.name);
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_as_long_as_the_server_says() {
    for protocol in both() {
        let limited = Answer::status(429, protocol.refusal).header("retry-after", "0.05");
        let answers = [limited, Answer::stream(&protocol.two_calls), Answer::stream(&protocol.says)];
        let begun = tokio::time::Instant::now();
        let (reply, server, _) = protocol.chat(answers).await;
        assert!(begun.elapsed() >= Duration::from_millis(50), "it did wait");
        assert_eq!(server.requests().len(), 3);
        check_whole(&protocol, reply, "after a rate limit");
    }
}

#[tokio::test]
async fn a_rate_limit_in_milliseconds_goes_before_one_in_seconds() {
    for protocol in both() {
        let limited = Answer::status(429, protocol.refusal)
            .header("retry-after-ms", "50")
            .header("retry-after", "3600");
        let answers = [limited, Answer::stream(&protocol.two_calls), Answer::stream(&protocol.says)];
        let begun = tokio::time::Instant::now();
        let (reply, ..) = protocol.chat(answers).await;
        assert!(begun.elapsed() >= Duration::from_millis(50), "it did wait");
        check_whole(&protocol, reply, "after a rate limit in milliseconds");
    }
}

#[tokio::test]
async fn a_rate_limit_until_a_date_is_as_good_as_one_in_seconds() {
    for protocol in both() {
        let millis = i64::try_from(SystemClock.now().as_millis()).unwrap();
        let date = |later: i64| {
            let moment = jiff::Timestamp::from_millisecond(millis + later).unwrap();
            jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&moment).unwrap()
        };
        let limited = |later| Answer::status(429, protocol.refusal).header("retry-after", date(later));
        let (error, requests) = protocol.error([limited(3_600_000)]).await;
        // A date has whole seconds, and some time passes until it is read.
        let about_an_hour = Duration::from_secs(3_580)..=Duration::from_secs(3_600);
        let wanted = match error {
            ModelError::RateLimited { retry_after, .. } => retry_after.unwrap_or_default(),
            other => panic!("{}: {other:?}", protocol.name),
        };
        assert!(about_an_hour.contains(&wanted), "{}: {wanted:?}", protocol.name);
        assert_eq!(requests, 1);
        let answers = [limited(-1_000), Answer::stream(&protocol.two_calls), Answer::stream(&protocol.says)];
        check_whole(&protocol, protocol.chat(answers).await.0, "after a date that has passed");
    }
}

#[tokio::test]
async fn a_rate_limit_longer_than_is_waited_fails_at_once_and_says_how_long() {
    for protocol in both() {
        let (error, requests) =
            protocol.error([Answer::status(429, protocol.refusal).header("retry-after", "3600")]).await;
        let hour = Some(Duration::from_secs(3600));
        assert!(
            matches!(error, ModelError::RateLimited { retry_after, .. } if retry_after == hour),
            "{error:?}"
        );
        assert_eq!(requests, 1);
    }
}

#[tokio::test]
async fn a_failing_server_is_tried_again_so_many_times_and_no_more() {
    for protocol in both() {
        for status in [500, 503, 529] {
            let (error, requests) = protocol.error([Answer::status(status, "down")]).await;
            let expected = (status, QUICK.attempts);
            assert!(
                matches!(&error, ModelError::Failing { status, attempts, .. } if (*status, *attempts) == expected),
                "{error:?}"
            );
            assert_eq!(requests, QUICK.attempts as usize);
        }
        let answers = [Answer::status(502, "down"), Answer::stream(&protocol.says)];
        assert!(protocol.chat(answers).await.0.is_ok(), "it came back");
    }
}

#[tokio::test]
async fn a_refusal_is_not_tried_again_and_never_shows_the_key() {
    for protocol in both() {
        let said = protocol.refusal.replace("KEY", KEY);
        let (error, requests) = protocol.error([Answer::status(401, &said)]).await;
        let text = format!("{error} {error:?}");
        assert!(text.contains("[key]") && !text.contains(KEY), "{text}");
        assert_eq!((error.code(), requests), ("model_refused", 1));
    }
}

/// Everything an error says, to a person and to a programmer.
fn everything(error: &ModelError) -> String {
    format!("{error} {error:?}")
}

#[tokio::test]
async fn an_error_inside_a_stream_never_shows_the_key_and_is_cut() {
    for protocol in both() {
        let long = "x".repeat(MAX_ERROR_BYTES);
        let reported = protocol.refusal.replace("KEY", &format!("{KEY} {long}"));
        let (error, _) = protocol.error([Answer::stream(&format!("data: {reported}\n\n"))]).await;
        let text = everything(&error);
        assert!(text.contains("[key]") && !text.contains(KEY), "{text}");
        assert!(matches!(&error, ModelError::Reported { message, .. } if message.len() == MAX_ERROR_BYTES));
        let kind = reported.replace("invalid_request_error", KEY).replace("authentication_error", KEY);
        let (error, _) = protocol.error([Answer::stream(&format!("data: {kind}\n\n"))]).await;
        assert!(matches!(&error, ModelError::Reported { kind, .. } if kind == "[key]"), "{error:?}");
        let quoting = protocol.quoting.replace("KEY", &format!("{KEY} {long}"));
        let (error, _) = protocol.error([Answer::stream(&format!("data: {quoting}\n\n"))]).await;
        let text = everything(&error);
        assert_eq!(error.code(), "stream_malformed", "{text}");
        assert!(text.contains("[key]") && !text.contains(KEY), "{text}");
        assert!(matches!(&error, ModelError::Malformed(text) if text.len() == MAX_ERROR_BYTES));
    }
}

#[tokio::test]
async fn what_a_refusal_says_is_cut_at_its_bound_and_no_key_is_cut_in_two() {
    for protocol in both() {
        for (said, kept) in [(MAX_ERROR_BYTES, MAX_ERROR_BYTES), (MAX_ERROR_BYTES + 1, MAX_ERROR_BYTES)] {
            let (error, _) = protocol.error([Answer::status(400, &"x".repeat(said))]).await;
            assert!(
                matches!(&error, ModelError::Refused { message, .. } if message.len() == kept),
                "{error:?}"
            );
        }
        for room in 1..KEY.len() {
            let said = format!("{}{KEY} is wrong", "x".repeat(MAX_ERROR_BYTES - room));
            let (error, _) = protocol.error([Answer::status(400, &said)]).await;
            assert!(!everything(&error).contains("sk-"), "{room} bytes before the cut: {error}");
        }
        let torn = format!("wrong: {}", &KEY[..KEY.len() - 1]);
        let (error, _) = protocol.error([Answer::status(400, &torn).cut()]).await;
        assert!(!everything(&error).contains("sk-"), "the connection broke inside the key: {error}");
    }
}

#[test]
fn a_base_url_that_is_none_is_refused_before_anything_is_asked() {
    for protocol in both() {
        for bad in ["", "127.0.0.1:11434/v1", "localhost:11434/v1", "/v1", "https://", "ftp://host", KEY] {
            let error = (protocol.build)(bad).expect_err(bad);
            assert_eq!(error.code(), "bad_base_url", "{bad:?}");
            assert!(!everything(&error).contains(KEY), "it may be a key in the wrong place: {error}");
        }
        assert!((protocol.build)("http://127.0.0.1:11434/v1").is_ok());
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    for protocol in both() {
        let elsewhere = Server::answering([Answer::stream(&protocol.says)]).await;
        let away = Answer::status(307, "").header("location", elsewhere.base.clone());
        let (error, _) = protocol.error([away]).await;
        assert_eq!((error.code(), elsewhere.requests().len()), ("model_refused", 0));
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_says_so() {
    for protocol in both() {
        let server = Server::answering([Answer::status(500, "")]).await;
        let base = server.base.clone();
        drop(server);
        // The port is free again once the listener is gone.
        tokio::task::yield_now().await;
        let agent = (protocol.agent)(&base, QUICK).build().unwrap();
        assert_eq!(agent.chat("Hello").await.unwrap_err().code(), "model_unreachable");
    }
}
