//! A child that was taken over can say what it likes. The host believes none of it, and serves the next script.

use std::time::Duration;

use countersign_kernel::ports::{ScriptEnd, ScriptFault, ScriptHost, Turn};
use countersign_sandbox::{ChildHost, ChildOptions};
use serde_json::{Value, json};

use super::scene::{assert_crashed, hello, hello_of_version, host, limits, probe, returned, run, start};

/// What a host makes of a child that answers an order to start with these frames.
async fn told(replies: &[&str]) -> Result<Turn, ScriptFault> {
    let greeting = hello();
    let host = probe(&[&["says", greeting.as_str()], replies].concat());
    let mut vm = host.open().await?;
    vm.deliver(vec![]).await
}

fn part(of: &Value) -> String {
    let mut part = json!({ "requests": [], "logs": [], "end": null, "then": "nothing" });
    for (key, value) in of.as_object().unwrap() {
        part[key] = value.clone();
    }
    json!({ "part": part }).to_string()
}

fn call(no: u32) -> Value {
    json!({ "no": no, "wanted": { "call": { "path": "a.b", "args": { "x": 1 } } } })
}

#[tokio::test]
async fn an_honest_part_passes() {
    let turn = told(&[&part(&json!({ "requests": [call(0), call(1)] }))]).await.unwrap();
    assert_eq!(turn.requests.len(), 2);
    let end = json!({ "end": { "returned": [1, 12_345_678_901_234_567_890_u64] } });
    let turn = told(&[&part(&end)]).await.unwrap();
    assert!(matches!(turn.end, Some(ScriptEnd::Returned(v)) if v.as_str() == "[1,12345678901234567890]"));
}

#[tokio::test]
async fn another_version_is_told_apart() {
    let host = probe(&["says", &hello_of_version(1)]);
    let fault = host.open().await.err().unwrap();
    let words = "it speaks version 1 of the protocol, this gateway 2";
    assert!(matches!(&fault, ScriptFault::Unavailable { cause } if cause == words), "{fault:?}");
}

#[tokio::test]
async fn a_later_version_may_greet_with_more() {
    let host = probe(&["says", r#"{"protocol":3,"news":[1]}"#]);
    let fault = host.open().await.err().unwrap();
    assert!(matches!(&fault, ScriptFault::Unavailable { cause } if cause.contains("version 3")), "{fault:?}");
}

#[tokio::test]
async fn a_child_that_never_greets_is_unavailable() {
    let host = probe(&["stays", "silent"]);
    tokio::time::pause();
    let fault = host.open().await.err().unwrap();
    assert!(
        matches!(&fault, ScriptFault::Unavailable { cause } if cause.contains("within 10 s")),
        "{fault:?}"
    );
}

#[tokio::test]
async fn requests_with_a_gap_are_not_believed() {
    assert_crashed(told(&[&part(&json!({ "requests": [call(1)] }))]).await, "request 1 where 0 is next");
    let twice = part(&json!({ "requests": [call(0), call(0)] }));
    assert_crashed(told(&[&twice]).await, "request 0 where 1 is next");
}

#[tokio::test]
async fn arguments_that_are_not_canonical_are_not_believed() {
    let frame = part(&json!({ "requests": [call(0)] }));
    for args in
        [r#"{"x": 1}"#, r#"{"x":1.0}"#, r#"{"x":1,"a":2}"#, r#"{"x":1,"x":1}"#, r#"{"x":9007199254740993}"#]
    {
        let frame = frame.replace(r#"{"x":1}"#, args);
        assert_crashed(told(&[&frame]).await, "not in its canonical form");
    }
}

#[tokio::test]
async fn more_requests_than_the_limit_are_not_believed() {
    let greeting = hello();
    let program = env!("CARGO_BIN_EXE_countersign-sandbox-probe");
    let mut options = ChildOptions::new(
        program,
        ["says", &greeting, &part(&json!({ "requests": [call(0), call(1), call(2)] }))],
    );
    options.limits.calls = 3;
    let three = ChildHost::new(options.clone()).unwrap();
    assert_eq!(three.open().await.unwrap().deliver(vec![]).await.unwrap().requests.len(), 3);
    options.limits.calls = 2;
    let two = ChildHost::new(options).unwrap();
    assert_crashed(two.open().await.unwrap().deliver(vec![]).await, "more than 2 requests");
}

#[tokio::test]
async fn values_beyond_their_bounds_are_not_believed() {
    let deep = format!("{}1{}", "[".repeat(65), "]".repeat(65));
    let frame = part(&json!({ "end": { "returned": 0 } }));
    let too_deep = frame.replace(r#""returned":0"#, &format!(r#""returned":{deep}"#));
    assert_crashed(told(&[&too_deep]).await, "nested deeper");
    let greeting = hello();
    let program = env!("CARGO_BIN_EXE_countersign-sandbox-probe");
    let long = part(&json!({ "end": { "returned": "xxxxxxxx" } }));
    let mut options = ChildOptions::new(program, ["says", &greeting, &long]);
    options.limits.value_bytes = 10;
    let fits = ChildHost::new(options.clone()).unwrap();
    assert_eq!(returned(&fits.open().await.unwrap().deliver(vec![]).await.unwrap()), json!("xxxxxxxx"));
    options.limits.value_bytes = 9;
    let over = ChildHost::new(options).unwrap();
    assert_crashed(over.open().await.unwrap().deliver(vec![]).await, "a value of more than 9 bytes");
}

#[tokio::test]
async fn paths_and_lines_beyond_their_bounds_are_not_believed() {
    let long = |bytes: usize| part(&json!({ "requests": [call(0)] })).replace("a.b", &"p".repeat(bytes));
    assert!(told(&[&long(200)]).await.is_ok());
    assert_crashed(told(&[&long(201)]).await, "a path of more than 200 bytes");
    let line = |bytes: usize| part(&json!({ "logs": [{ "level": "info", "message": "l".repeat(bytes) }] }));
    assert!(told(&[&line(16 * 1024)]).await.is_ok());
    assert_crashed(told(&[&line(16 * 1024 + 1)]).await, "a line of more than 16384 bytes");
}

#[tokio::test]
async fn lines_of_the_source_that_no_source_has_are_not_believed() {
    let from = |line: usize| {
        let mut call = call(0);
        call["line"] = json!(line);
        part(&json!({ "requests": [call] }))
    };
    let last = limits().source_bytes + 1;
    for line in [1, last] {
        assert_eq!(told(&[&from(line)]).await.unwrap().requests[0].line, u32::try_from(line).ok());
    }
    for line in [0, last + 1] {
        assert_crashed(told(&[&from(line)]).await, "a line that no source has");
    }
}

#[tokio::test]
async fn a_turn_without_end_is_cut_off() {
    let lines = |bytes: usize| {
        let line = json!({ "level": "info", "message": "l".repeat(bytes) });
        format!("for ever {}", part(&json!({ "logs": vec![line; 100_000 / bytes], "then": "more" })))
    };
    assert_crashed(told(&[&lines(1_000)]).await, "more than 10000 lines");
    let bound = limits().memory_bytes + 4 * 1024 * 1024;
    assert_crashed(told(&[&lines(10_000)]).await, &format!("a turn of more than {bound} bytes"));
    let empty = part(&json!({ "then": "more" }));
    assert_crashed(told(&[&format!("for ever {empty}")]).await, "a part with nothing in it");
}

#[tokio::test]
async fn whatever_else_it_says_ends_it() {
    for (replies, why) in [
        (vec!["null"], "a frame that no child writes"),
        (vec!["{"], "a frame that no child writes"),
        (vec![r#"{"part":{}}"#], "missing field"),
        (vec![r#"{"turn":{}}"#], "unknown variant"),
        (vec![r#"{"stripped":{"code":"","mappings":""}}"#], "something else than it was asked"),
        (vec![r#"{"fault":{"unavailable":{"cause":"try later"}}}"#], "try later"),
    ] {
        assert_crashed(told(&replies).await, why);
    }
}

#[tokio::test]
async fn what_it_says_without_being_asked_answers_nothing() {
    let greeting = hello();
    let host = probe(&["says", &greeting, &part(&json!({ "requests": [call(0)] })), &part(&json!({}))]);
    let mut vm = host.open().await.unwrap();
    assert!(vm.deliver(vec![]).await.is_ok());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_crashed(vm.deliver(vec![]).await, "without being asked");
}

#[tokio::test]
async fn frames_of_a_false_length_end_it() {
    let greeting = hello();
    for (length, bytes, why) in [
        ("4294967295", "10", "a frame of 4294967295 bytes"),
        ("4194305", "10", "a frame of 4194305 bytes"),
        ("0", "0", "an empty frame"),
        ("100", "99", "exit status: 0"),
        ("4194304", "4194304", "a frame that no child writes"),
    ] {
        let host = probe(&["writes", &greeting, length, bytes]);
        let mut vm = host.open().await.unwrap();
        assert_crashed(vm.deliver(vec![]).await, why);
    }
}

#[tokio::test]
async fn the_next_script_is_served_whatever_the_last_child_did() {
    let host = host();
    for _ in 0..3 {
        let mut vm = host.open().await.unwrap();
        assert!(start(&mut vm, "for (;;) {}").await.is_err());
        assert_eq!(returned(&run(&host, "return 7").await.unwrap()), json!(7));
    }
}
