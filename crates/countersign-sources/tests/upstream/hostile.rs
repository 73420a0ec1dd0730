//! A server that means harm, over stdio: whatever it does, a call ends, and a write that may have happened is in doubt.

use std::sync::Arc;
use std::time::Duration;

use countersign_sources::MASK;
use countersign_sources::http::Intent;
use countersign_sources::mcp::{
    CallFailure, Difference, Elicitation, McpLimits, Protocol, Root, Roots, Upstream, UpstreamConfig,
};
use serde_json::json;

use crate::fixture::{Connected, Person, call, connect, eventually, no_arguments, text};
use crate::toolbox::script_server;

fn config(mode: &str, variables: &[(&str, &str)]) -> UpstreamConfig {
    let mut config = script_server("hostile.mjs", &[mode], variables);
    config.protocol = Protocol::Legacy;
    config
}

async fn hostile(mode: &str) -> Connected {
    connect(config(mode, &[])).await
}

/// A ledger in which the server notes every call.
struct Ledger(tempfile::NamedTempFile);

impl Ledger {
    fn new() -> Self {
        Self(tempfile::NamedTempFile::new().unwrap())
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(self.0.path()).unwrap().lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_definition_that_changed_between_listing_and_call_is_noticed() {
    let changes = hostile("changes").await;
    let accepted = changes.offer().await.unwrap().tools.remove(0);
    let difference = changes.difference(&accepted).await.unwrap();
    assert!(
        matches!(&difference, Difference::Changed(now) if now.description != accepted.description),
        "{difference:?}"
    );
    let steady = hostile("steady").await;
    let mut accepted = steady.offer().await.unwrap().tools.remove(0);
    assert_eq!(steady.difference(&accepted).await, Ok(Difference::None));
    accepted.origin = "vanished".into();
    assert_eq!(steady.difference(&accepted).await, Ok(Difference::Gone));
}

#[tokio::test]
async fn one_bad_tool_does_not_spoil_the_list() {
    let offer = hostile("bad-schemas").await.offer().await.unwrap();
    assert_eq!(offer.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["act"]);
    assert_eq!(offer.unmapped.len(), 4, "{:?}", offer.unmapped);
}

#[tokio::test]
async fn five_thousand_tools_are_offered_and_the_next_one_is_left_out() {
    for (count, offered, warnings) in [(5_000, 5_000, 0), (5_001, 5_000, 1)] {
        let mut config = script_server("hostile.mjs", &["many", &count.to_string()], &[]);
        config.protocol = Protocol::Legacy;
        let offer = connect(config).await.offer().await.unwrap();
        assert_eq!((offer.tools.len(), offer.warnings.len()), (offered, warnings));
    }
}

#[tokio::test]
async fn a_list_without_end_is_cut_and_it_is_said() {
    let offer = hostile("endless").await.offer().await.unwrap();
    assert_eq!(offer.tools.len(), McpLimits::default().pages);
    assert!(offer.warnings[0].contains("pages"), "{:?}", offer.warnings);
}

#[tokio::test]
async fn terminal_escapes_and_bidirectional_text_pass_through_as_data() {
    let server = hostile("text").await;
    let said = "\u{1b}[31mred\u{1b}[0m \u{202e}gnp.exe";
    assert_eq!(server.offer().await.unwrap().tools[0].description, said);
    assert_eq!(text(&server.read("act", no_arguments()).await.unwrap()), said);
}

#[tokio::test]
async fn wherever_the_server_ends_a_write_is_in_doubt_and_runs_once() {
    for mode in ["dies", "dies-half", "closes-output", "bad-answer"] {
        let ledger = Ledger::new();
        let server = connect(config(mode, &[("LEDGER", ledger.path())])).await;
        let failure = server.write("act", no_arguments()).await.unwrap_err();
        assert!(failure.is_in_doubt(Intent::Write), "{mode}: {failure:?}");
        assert_eq!(ledger.lines(), ["act"], "{mode}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_at_the_deadline_and_a_write_is_not_cancelled() {
    let ledger = Ledger::new();
    let mut config = config("silent", &[("LEDGER", ledger.path())]);
    config.limits.call_silence = Duration::from_millis(500);
    let server = connect(config).await;
    let failure = server.write("act", no_arguments()).await.unwrap_err();
    assert!(failure.is_in_doubt(Intent::Write), "{failure:?}");
    let failure = server.read("other", no_arguments()).await.unwrap_err();
    assert!(matches!(failure, CallFailure::Lost(_)), "{failure:?}");
    eventually(|| ledger.lines() == ["act", "other", "cancelled"]).await;
}

#[tokio::test]
async fn a_cancelled_or_dropped_read_is_cancelled_at_the_server_and_a_write_never() {
    let ledger = Ledger::new();
    let mut config = config("silent", &[("LEDGER", ledger.path())]);
    config.elicitation = Elicitation::Refuse;
    let server = Arc::new(connect(config).await);
    for intent in [Intent::Write, Intent::Read] {
        let begun = ledger.lines().len();
        let calling = {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.call(call("act", no_arguments(), intent)).await })
        };
        eventually(|| ledger.lines().len() > begun).await;
        calling.abort();
    }
    eventually(|| ledger.lines() == ["act", "act", "cancelled"]).await;
    let read = call("other", no_arguments(), Intent::Read);
    let cancel = read.cancel.clone();
    let (outcome, ()) = tokio::join!(server.call(read), async {
        eventually(|| ledger.lines().len() == 4).await;
        cancel.cancel();
    });
    assert_eq!(outcome, Err(CallFailure::Cancelled));
    eventually(|| ledger.lines().len() == 5).await;
}

#[tokio::test]
async fn of_two_answers_the_first_counts() {
    let server = hostile("twice").await;
    for _ in 0..2 {
        assert_eq!(text(&server.write("act", no_arguments()).await.unwrap()), "first");
    }
}

#[tokio::test]
async fn a_gigabyte_is_not_read() {
    let server = hostile("floods").await;
    let failure = server.write("act", no_arguments()).await.unwrap_err();
    assert!(failure.is_in_doubt(Intent::Write), "{failure:?}");
    let limit = McpLimits::default().message_bytes.to_string();
    assert!(failure.to_string().contains(&limit), "{failure}");
}

#[tokio::test]
async fn a_message_is_taken_up_to_its_bound() {
    for (extra, is_taken) in [(0, true), (1, false)] {
        let mut config = config("many", &[]);
        if let countersign_sources::mcp::Endpoint::Command(command) = &mut config.endpoint {
            command.arguments.push("10".into());
        }
        let list: Vec<_> = (0..10)
            .map(|i| json!({ "name": format!("tool_{i}"), "description": "Acts", "inputSchema": { "type": "object" } }))
            .collect();
        // As the server writes it; the first request after the handshake has the id 1.
        let message = json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": list } });
        config.limits.message_bytes = message.to_string().len() - extra;
        config.limits.restart_wait = Duration::from_millis(100);
        assert_eq!(connect(config).await.offer().await.is_ok(), is_taken, "{extra}");
    }
}

#[tokio::test]
async fn lines_that_are_no_messages_are_passed_over() {
    let server = hostile("garbage").await;
    assert_eq!(text(&server.read("act", no_arguments()).await.unwrap()), "after the garbage");
}

#[tokio::test]
async fn a_server_gets_only_the_variables_it_was_given_and_cannot_hand_their_values_on() {
    let server = connect(config("env", &[("SECRET", "canary-12345")])).await;
    let outcome = server.read("act", no_arguments()).await.unwrap();
    let seen: serde_json::Map<_, _> = serde_json::from_str(text(&outcome)).unwrap();
    let names: Vec<_> = seen.keys().map(String::as_str).collect();
    assert_eq!(names, ["HOME", "PATH", "SECRET"]);
    assert_eq!(seen["SECRET"], MASK);
}

#[tokio::test]
async fn sampling_is_refused_clearly_and_there_are_no_roots_unless_configured() {
    let ledger = Ledger::new();
    let server = connect(config("asks-unasked", &[("LEDGER", ledger.path())])).await;
    server.read("act", no_arguments()).await.unwrap();
    eventually(|| ledger.lines().len() == 3).await;
    let answers = ledger.lines().join("\n");
    assert!(answers.contains("sampling is refused"), "{answers}");
    assert!(answers.contains(r#"{"id":"q2","result":{"roots":[]}}"#), "{answers}");
}

#[tokio::test]
async fn a_modern_server_too_gets_no_model_and_only_configured_roots() {
    let mut config = config("asks-unasked-modern", &[]);
    config.protocol = Protocol::Modern;
    let server = connect(config.clone()).await;
    let sampling =
        json!({ "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
    for intent in [Intent::Read, Intent::Write] {
        let failure = server.call(call("act", json!({ "request": sampling }), intent)).await.unwrap_err();
        assert_eq!(failure.code(), "upstream_refused", "it is not in doubt: {failure:?}");
        assert!(failure.to_string().contains("sampling is refused"), "{failure}");
    }
    let roots = json!({ "request": { "method": "roots/list" } });
    let none = server.read("act", roots.clone()).await.unwrap();
    assert_eq!(text(&none), r#"{"q":{"roots":[]}}"#);
    config.roots = Roots::Listed(vec![Root { uri: "file:///srv".to_owned(), name: None }]);
    let configured = connect(config).await.read("act", roots).await.unwrap();
    assert_eq!(text(&configured), r#"{"q":{"roots":[{"uri":"file:///srv"}]}}"#);
}

#[tokio::test]
async fn two_calls_at_once_each_get_their_own_question() {
    let server = connect(config("asks", &[])).await;
    let asked = async |who: &str| {
        let person = Person::who_accepts(json!({ "a": who }));
        let mut call = call("act", json!({ "who": who }), Intent::Write);
        call.asker = person.clone();
        let outcome = server.call(call).await.unwrap();
        (person.messages(), text(&outcome).to_owned())
    };
    let (ada, bob) = tokio::join!(asked("ada"), asked("bob"));
    assert_eq!(ada, (vec!["ada?".to_owned()], r#"{"action":"accept","content":{"a":"ada"}}"#.to_owned()));
    assert_eq!(bob, (vec!["bob?".to_owned()], r#"{"action":"accept","content":{"a":"bob"}}"#.to_owned()));
}

#[tokio::test]
async fn where_nobody_may_be_asked_the_server_is_told_so() {
    let mut config = config("asks", &[]);
    config.elicitation = Elicitation::Refuse;
    let outcome = connect(config).await.write("act", json!({ "who": "ada" })).await.unwrap();
    assert!(text(&outcome).contains("nobody can be asked"), "{outcome:?}");
}

#[tokio::test]
async fn the_time_a_person_takes_does_not_count_against_the_call() {
    struct Slow;
    #[async_trait::async_trait]
    impl countersign_sources::mcp::Asker for Slow {
        async fn ask(&self, _: countersign_sources::mcp::Question) -> countersign_sources::mcp::Reply {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            countersign_sources::mcp::Reply::Declined
        }
    }
    let mut config = config("asks", &[]);
    config.limits.call_silence = Duration::from_millis(1_000);
    let mut asking = call("act", json!({ "who": "ada" }), Intent::Write);
    asking.asker = Arc::new(Slow);
    let outcome = connect(config).await.call(asking).await.unwrap();
    assert_eq!(text(&outcome), r#"{"action":"decline"}"#);
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_an_error_that_says_why() {
    let mut silent = config("no-handshake", &[]);
    silent.limits.connect = Duration::from_millis(700);
    let mut missing = config("", &[]);
    if let countersign_sources::mcp::Endpoint::Command(command) = &mut missing.endpoint {
        command.program = "no-such-program".into();
    }
    for (config, said) in
        [(silent, "handshake"), (config("dies-at-handshake", &[]), "ended"), (missing, "cannot be started")]
    {
        let error = Upstream::connect(config, Arc::new(|_| ())).await.err().unwrap().to_string();
        assert!(error.contains(said) || error.contains("closed"), "{said}: {error}");
    }
}

#[tokio::test]
async fn a_call_behind_one_that_waits_for_a_person_is_not_sent_and_says_why() {
    struct Never;
    #[async_trait::async_trait]
    impl countersign_sources::mcp::Asker for Never {
        async fn ask(&self, _: countersign_sources::mcp::Question) -> countersign_sources::mcp::Reply {
            std::future::pending().await
        }
    }
    let ledger = Ledger::new();
    let mut config = config("asks", &[("LEDGER", ledger.path())]);
    config.limits.turn = Duration::from_millis(200);
    let server = Arc::new(connect(config).await);
    let mut asking = call("act", json!({ "who": "ada" }), Intent::Write);
    asking.asker = Arc::new(Never);
    let first = {
        let server = Arc::clone(&server);
        tokio::spawn(async move { server.call(asking).await })
    };
    eventually(|| ledger.lines() == ["act"]).await;
    let failure = server.write("act", json!({ "who": "bob" })).await.unwrap_err();
    assert!(
        matches!(&failure, CallFailure::NotSent(reason) if reason.contains("one call at a time")),
        "{failure:?}"
    );
    assert_eq!(ledger.lines(), ["act"]);
    first.abort();
}

#[tokio::test]
async fn a_server_that_ends_when_asked_for_its_era_is_spoken_to_as_the_older_era_does() {
    let mut config = config("ends-on-discover", &[]);
    config.protocol = Protocol::Auto;
    let server = connect(config).await;
    assert_eq!(server.era().await, Ok(countersign_sources::mcp::Era::Legacy));
    assert!(text(&server.read("act", no_arguments()).await.unwrap()).starts_with("call 1"));
}

#[tokio::test]
async fn a_server_that_ends_while_it_lists_is_listed_after_its_restart() {
    let server = hostile("dies-at-list").await;
    assert_eq!(server.offer().await.unwrap().tools.len(), 2);
    let failure = server.offer().await.unwrap_err();
    assert!(matches!(failure, CallFailure::Lost(_)), "{failure:?}");
    assert_eq!(server.offer().await.unwrap().tools.len(), 2);
}
