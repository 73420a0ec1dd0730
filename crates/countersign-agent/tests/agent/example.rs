//! The example, run as it stands.

#[path = "../../examples/agent.rs"]
#[expect(dead_code, reason = "its `main` is the example, not the test")]
mod agent;

use crate::shop::SOON;

#[tokio::test]
async fn the_example_asks_and_rejects_where_there_is_no_terminal() {
    let mut out = Vec::new();
    let told = agent::talk(&mut out, countersign_agent::providers::TerminalConfirmation::unattended());
    let deleted = tokio::time::timeout(SOON, told).await.unwrap().unwrap();
    let said = String::from_utf8(out).unwrap();
    assert_eq!(deleted, 0, "{said}");
    assert!(said.contains("nobody is at a terminal to ask"), "{said}");
}

#[tokio::test]
async fn the_example_deletes_once_somebody_says_yes() {
    let mut out = Vec::new();
    let told = agent::talk(&mut out, countersign_agent::providers::AlwaysApprove);
    let deleted = tokio::time::timeout(SOON, told).await.unwrap().unwrap();
    assert_eq!(deleted, 1, "{}", String::from_utf8(out).unwrap());
}
