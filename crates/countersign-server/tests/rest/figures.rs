//! What an operator watches.

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;

use crate::house::{House, Who, until};

/// The value of a figure.
fn figure(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()).and_then(|value| value.parse().ok())
}

#[tokio::test]
async fn calls_decisions_and_what_waits_are_counted_under_stable_names() {
    // This thread's own: others count elsewhere.
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let house = House::recorded_by(handle).await;
    let scrape = async || {
        let answer = house.get(Who::Nobody, "/metrics").await;
        assert!(
            answer.status == 200 && answer.header("content-type").starts_with("text/plain; version=0.0.4")
        );
        answer.text
    };
    let yes = house.wants_to_destroy("a").await;
    let no = house.wants_to_destroy("b").await;
    assert_eq!(figure(&scrape().await, "countersign_pending"), Some(2.0));
    assert_eq!(figure(&scrape().await, "countersign_executions_waiting"), Some(2.0));
    house.resolve(Who::Approver, &yes.elicitation, true).await.with(200);
    house.resolve(Who::Approver, &no.elicitation, false).await.with(200);
    house.end_of(&yes.execution).await;
    house.end_of(&no.execution).await;
    house.call("lab.read", json!({ "what": "x" })).await.with(200);
    until("the read is recorded", async || {
        figure(&scrape().await, "countersign_calls_total{outcome=\"succeeded\"}") == Some(2.0)
    })
    .await;
    let text = scrape().await;
    for (name, value) in [
        ("countersign_pending", 0.0),
        ("countersign_elicitations_total", 2.0),
        ("countersign_decisions_total{outcome=\"approved\"}", 1.0),
        ("countersign_decisions_total{outcome=\"denied\"}", 1.0),
        ("countersign_calls_total{outcome=\"failed\"}", 1.0),
        ("countersign_waiting_seconds_count", 2.0),
        ("countersign_executions_running", 0.0),
        ("countersign_executions_in_doubt", 0.0),
    ] {
        assert_eq!(figure(&text, name), Some(value), "{name} in\n{text}");
    }
    for name in
        ["countersign_commit_seconds_count", "countersign_executions_live", "countersign_executions_parked"]
    {
        assert!(figure(&text, name).is_some(), "{name} in\n{text}");
    }
    for secret in ["lab.destroy", "tok_", "exec_", "eli_"] {
        assert!(!text.contains(secret), "anybody may read the figures, and they tell of {secret}:\n{text}");
    }
}

#[tokio::test]
async fn a_server_without_a_recorder_says_so() {
    let house = House::open().await;
    house.get(Who::Nobody, "/metrics").await.refused(501, "no_metrics");
}
