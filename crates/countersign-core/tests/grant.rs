//! A grant covers exactly the tools that it was given for, as they were then.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

use countersign_core::canonical::Canonical;
use countersign_core::digest::{Digest, Fingerprint};
use countersign_core::grant::{Grant, GrantedTool};
use countersign_core::ids::GrantId;
use countersign_core::time::Timestamp;
use countersign_sdk::{PrincipalId, SessionId, ToolPath};

fn print(n: u8) -> Fingerprint {
    Fingerprint(Digest::of(&[n]))
}

fn grant() -> Grant {
    Grant {
        id: GrantId::from_random([1; 16]),
        session: SessionId::parse("ses_1").unwrap(),
        tools: vec![GrantedTool { path: ToolPath::parse("a.b").unwrap(), fingerprint: print(1) }],
        args: None,
        pattern: None,
        by: PrincipalId::parse("ann").unwrap(),
        token: None,
        elicitation: None,
        given_at: Timestamp::from_millis(0),
        expires_at: Some(Timestamp::from_millis(100)),
        uses_left: Some(2),
    }
}

fn args(n: u64) -> Canonical {
    Canonical::of(&serde_json::json!({ "n": n })).unwrap()
}

#[test]
fn it_covers_only_its_session_its_tool_its_fingerprint_its_arguments_and_its_time() {
    let (ses, path, now) =
        (SessionId::parse("ses_1").unwrap(), ToolPath::parse("a.b").unwrap(), Timestamp::from_millis(99));
    let g = grant();
    assert!(g.covers(&ses, &path, print(1), &args(1), now));
    assert!(!g.covers(&SessionId::parse("ses_2").unwrap(), &path, print(1), &args(1), now));
    assert!(!g.covers(&ses, &ToolPath::parse("a.c").unwrap(), print(1), &args(1), now));
    assert!(!g.covers(&ses, &path, print(2), &args(1), now), "a changed tool is another tool (R14)");
    assert!(!g.covers(&ses, &path, print(1), &args(1), Timestamp::from_millis(100)), "expiry is exclusive");
    let narrow = Grant { args: Some(args(1)), ..g };
    assert!(narrow.covers(&ses, &path, print(1), &args(1), now));
    assert!(
        !narrow.covers(&ses, &path, print(1), &args(2), now),
        "other arguments than those that were approved"
    );
}

#[test]
fn uses_run_out() {
    let once = grant().used().unwrap();
    let twice = once.used().unwrap();
    assert!(!twice.is_live(Timestamp::from_millis(0)));
    assert!(twice.used().is_none());
}
