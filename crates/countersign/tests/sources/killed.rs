//! SIGKILL of the gateway, and of the upstream server, at each step of an approved call of a script: its effect happens once,
//! or the call is in doubt and it happened at most once, or the script is told that nothing was sent. Never twice, and no
//! decision is forgotten.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::ledger::{Hold, Ledger, Transport};
use crate::server::{Home, PATIENCE};

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Gateway,
    Upstream,
}

/// When it is killed.
#[derive(Debug, Clone, Copy)]
enum Step {
    AfterTheAsk,
    /// So long after the decision was answered: somewhere between there and the end of the call.
    AfterTheApproval(Duration),
    BeforeTheEffect,
    AfterTheEffect,
    AfterTheSettle,
}

/// What became of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Once,
    /// A person had to look what happened.
    InDoubt,
    /// The script was told that the call was not sent.
    NotSent,
}

/// A gateway, and the upstream behind it, accepted.
struct Scene {
    home: Home,
    ledger: Ledger,
    rounds: usize,
}

impl Scene {
    fn new(transport: Transport) -> Self {
        let (home, ledger) = (Home::served(), Ledger::new(transport));
        let place = ledger.place();
        let words = ["source", "add", "mcp", "ledger", "--read-only", "look", "--json"];
        let words: Vec<&str> = words.into_iter().chain(place.iter().map(String::as_str)).collect();
        let added = home.said(&words);
        assert_eq!(added["new"], 2, "{added:#}");
        let digest = added["digest"].as_str().unwrap();
        home.said(&["source", "accept", "ledger", "--yes", "--digest", digest, "--json"]);
        Self { home, ledger, rounds: 0 }
    }

    /// One script from its start to its end, with a kill in its first destructive call.
    async fn round(&mut self, victim: Victim, step: Step) -> Outcome {
        self.rounds += 1;
        let (first, second) = (format!("first {}", self.rounds), format!("second {}", self.rounds));
        let execution = self.up_to(step, &first, &second).await;
        match victim {
            Victim::Gateway => self.home.kill(),
            Victim::Upstream => self.ledger.kill(),
        }
        self.ledger.release();
        if victim == Victim::Gateway {
            self.home.start();
        }
        let is_decided = !matches!(step, Step::AfterTheAsk);
        let (outcome, value) = self.to_the_end(&execution, &first, is_decided).await;
        let expected = if outcome == Outcome::NotSent { 0 } else { 1 };
        assert_eq!(self.ledger.count(&first), expected, "{victim:?} {step:?} {outcome:?}");
        assert_eq!(self.ledger.count(&second), 1, "{victim:?} {step:?}: the script went on to its end");
        assert_eq!(value, json!("ended"), "{victim:?} {step:?}");
        outcome
    }

    /// Starts the script and brings it to this step; gives its execution.
    async fn up_to(&mut self, step: Step, first: &str, second: &str) -> String {
        match step {
            Step::BeforeTheEffect => self.ledger.hold(Hold::BeforeTheEffect),
            Step::AfterTheEffect => self.ledger.hold(Hold::AfterTheEffect),
            _ => {}
        }
        let agent = self.home.client("agent");
        // A call that was not sent is an error that the script sees.
        let code = format!(
            "await tools.ledger.look({{}});
             try {{ await tools.ledger.append({{ line: {first:?} }}) }} catch (error) {{ console.log(error.code) }}
             await tools.ledger.append({{ line: {second:?} }});
             return 'ended';"
        );
        let waiting = agent.post("/api/executions", &json!({ "code": code })).await;
        assert_eq!(
            (&waiting["status"], &waiting["paused"]["args"]["line"]),
            (&json!("paused"), &json!(first))
        );
        let execution = waiting["executionId"].as_str().unwrap().to_owned();
        if matches!(step, Step::AfterTheAsk) {
            return execution;
        }
        self.approve(&waiting).await;
        match step {
            Step::AfterTheAsk => {}
            Step::AfterTheApproval(delay) => tokio::time::sleep(delay).await,
            Step::BeforeTheEffect => self.ledger.until_reached(Hold::BeforeTheEffect),
            Step::AfterTheEffect => self.ledger.until_reached(Hold::AfterTheEffect),
            Step::AfterTheSettle => {
                let begun = Instant::now();
                while agent.get(&format!("/api/executions/{execution}")).await["calls"][1]["status"]
                    != "succeeded"
                {
                    assert!(begun.elapsed() < PATIENCE, "it never settles");
                }
            }
        }
        execution
    }

    /// Answers what is asked and settles what is in doubt, by what is in the ledger, until the script ends.
    async fn to_the_end(&self, execution: &str, first: &str, is_decided: bool) -> (Outcome, Value) {
        let agent = self.home.client("agent");
        let mut outcome = Outcome::Once;
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "it never ends");
            let now = agent.get(&format!("/api/executions/{execution}?waitMs=1000")).await;
            match now["status"].as_str() {
                Some("succeeded") => {
                    if now["calls"][1]["status"] == "failed" {
                        let said = now["logs"][0]["message"].as_str().unwrap_or_default();
                        assert_eq!(said, "upstream_not_reached", "{now:#}");
                        outcome = Outcome::NotSent;
                    }
                    return (outcome, now["value"].clone());
                }
                Some("paused") => {
                    let asked = &now["paused"]["args"]["line"];
                    assert!(asked != first || !is_decided, "a decision was forgotten: {now:#}");
                    self.approve(&now).await;
                }
                Some("in_doubt") => {
                    outcome = Outcome::InDoubt;
                    self.settle(execution, &now, first).await;
                }
                Some("running") => {}
                other => panic!("it ended as {other:?}: {now:#}"),
            }
        }
    }

    /// As a person does at the inbox.
    async fn approve(&self, waiting: &Value) {
        let route =
            format!("/api/elicitation/{}/resolve", waiting["paused"]["elicitationId"].as_str().unwrap());
        self.once_loaded(&route, &json!({ "approved": true })).await;
    }

    /// As a person does who looks at the other system.
    async fn settle(&self, execution: &str, now: &Value, first: &str) {
        assert_eq!(now["calls"][1]["status"], "in_doubt", "{now:#}");
        let settlement = match self.ledger.count(first) {
            0 => json!({ "call": 1, "as": "retry" }),
            1 => json!({ "call": 1, "as": "done", "value": { "content": [] } }),
            more => panic!("it happened {more} times"),
        };
        self.once_loaded(&format!("/api/executions/{execution}/settle"), &settlement).await;
    }

    /// Sends what an admin decides, again where the source is not loaded yet after a restart: a busy machine takes its time.
    async fn once_loaded(&self, route: &str, body: &Value) {
        let (admin, begun) = (self.home.client("admin"), Instant::now());
        loop {
            let (status, answer) = admin.try_post(route, body).await.unwrap();
            if (200..300).contains(&status) {
                return;
            }
            assert_eq!(answer["error"]["code"], "tool_not_found", "{route}: {status} {answer}");
            assert!(begun.elapsed() < PATIENCE, "the source is never loaded");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Every step, once each, with what must come of it where only one thing can.
const STEPS: [(Step, Option<Outcome>); 4] = [
    (Step::AfterTheAsk, Some(Outcome::Once)),
    (Step::BeforeTheEffect, Some(Outcome::InDoubt)),
    (Step::AfterTheEffect, Some(Outcome::InDoubt)),
    (Step::AfterTheSettle, Some(Outcome::Once)),
];

async fn at_every_step(victim: Victim, transport: Transport) {
    let mut scene = Scene::new(transport);
    for (step, expected) in STEPS {
        let outcome = scene.round(victim, step).await;
        assert!(expected.is_none_or(|expected| expected == outcome), "{step:?}: {outcome:?}");
    }
}

/// Kills at many moments between the decision and the end of the call. A process of ours that ends too often is left off, so
/// each scene takes only a few.
async fn after_the_decision(victim: Victim, transport: Transport) {
    const SCENES: u64 = 2;
    const KILLS_EACH: u64 = 4;
    let mut seen = [0; 3];
    for scene_no in 0..SCENES {
        let mut scene = Scene::new(transport);
        for kill_no in 0..KILLS_EACH {
            let delay = Duration::from_millis(3 * (scene_no * KILLS_EACH + kill_no));
            seen[scene.round(victim, Step::AfterTheApproval(delay)).await as usize] += 1;
        }
    }
    let [once, in_doubt, not_sent] = seen;
    println!("{victim:?} killed, {transport:?}: {once} once, {in_doubt} in doubt, {not_sent} not sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_killed_at_each_step_of_a_call_over_stdio() {
    at_every_step(Victim::Gateway, Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_killed_at_each_step_of_a_call_over_http() {
    at_every_step(Victim::Gateway, Transport::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upstream_killed_at_each_step_of_a_call_over_stdio() {
    at_every_step(Victim::Upstream, Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upstream_killed_at_each_step_of_a_call_over_http() {
    at_every_step(Victim::Upstream, Transport::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_killed_right_after_a_decision_over_stdio() {
    after_the_decision(Victim::Gateway, Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateway_killed_right_after_a_decision_over_http() {
    after_the_decision(Victim::Gateway, Transport::Http).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upstream_killed_right_after_a_decision_over_stdio() {
    after_the_decision(Victim::Upstream, Transport::Stdio).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_upstream_killed_right_after_a_decision_over_http() {
    after_the_decision(Victim::Upstream, Transport::Http).await;
}
