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

#[tokio::test]
async fn the_figures_are_read_with_a_token_unless_they_are_asked_for_from_this_machine() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let house = House::recorded_by(recorder.handle()).await;
    assert_eq!(house.get(Who::Nobody, "/metrics").await.status, 200);
    let through_a_proxy = async |who: Who, name: &str| {
        let request = house.request(who, reqwest::Method::GET, "/metrics").header(name, "203.0.113.7");
        request.send().await.unwrap().status().as_u16()
    };
    for name in ["x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host"] {
        assert_eq!(through_a_proxy(Who::Nobody, name).await, 401, "{name}");
        assert_eq!(through_a_proxy(Who::Garbage, name).await, 401, "{name}");
        assert_eq!(through_a_proxy(Who::Agent, name).await, 200, "{name}");
    }
}

#[tokio::test]
async fn behind_a_public_address_or_name_the_figures_need_a_token() {
    let public = House::with(|options| {
        options.links = countersign_server::Links::below("https://gate.example.com");
        options.hosts = vec!["gate.example.com".to_owned()];
    })
    .await;
    public.get(Who::Nobody, "/metrics").await.refused(401, "unauthenticated");
    public.get(Who::Agent, "/metrics").await.refused(501, "no_metrics");
    let named = House::with(|options| options.hosts = vec!["gate.example.com".to_owned()]).await;
    let asked = named.raw_as(Who::Nobody, "GET /metrics", "host: gate.example.com\r\n", "").await;
    assert_eq!(asked.0, 401, "{}", asked.1);
    named.get(Who::Nobody, "/metrics").await.refused(501, "no_metrics");
}

#[tokio::test]
async fn asked_often_readiness_reads_the_store_once_a_second() {
    let house = House::open().await;
    let (before, begun) = (house.faults.standing_reads(), tokio::time::Instant::now());
    for _ in 0..100 {
        assert_eq!(house.get(Who::Nobody, "/readyz").await.status, 200);
    }
    let reads = house.faults.standing_reads() - before;
    assert!(reads <= begun.elapsed().as_secs() + 1, "{reads} reads for 100 questions");
}

#[tokio::test]
async fn while_decisions_cannot_be_stored_the_server_is_not_ready_and_then_it_is_again() {
    let house = House::open().await;
    assert_eq!(house.get(Who::Nobody, "/readyz").await.status, 200);
    let waiting = house.wants_to_destroy("a").await;
    house.faults.fill_disk();
    house.resolve(Who::Approver, &waiting.elicitation, true).await.refused(503, "unavailable");
    let answer = house.get(Who::Nobody, "/readyz").await;
    answer.refused(503, "not_writable");
    assert_eq!(answer.header("retry-after"), "1");
    house.faults.free_disk();
    assert_eq!(house.get(Who::Nobody, "/readyz").await.status, 200);
    house.resolve(Who::Approver, &waiting.elicitation, true).await.with(200);
}
