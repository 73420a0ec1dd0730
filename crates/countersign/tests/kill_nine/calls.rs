//! Calls under load.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use countersign_testkit::chance::Chance;
use serde_json::{Value, json};

use crate::process::{LONGEST_ANSWER, Process, text};

const KILLS: u64 = 100;
/// How many calls are under way at once.
const CALLS_PER_LIFE: u64 = 12;

#[test]
fn a_hundred_kills_lose_no_acknowledged_decision_and_repeat_no_effect() {
    let kills = std::env::var("COUNTERSIGN_SOAK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    let mut chance = Chance::new(9);
    for life in 0..kills {
        let mut process = Process::start(folder.path());
        let death = Instant::now() + Duration::from_millis(5 + chance.below(120));
        process.live(life, death, &mut chance, &mut told);
        process.kill();
    }
    let mut last = Process::start(folder.path());
    last.bring_to_rest(&mut told);
    let ends = last.executions();
    last.check_decisions(&told);
    let audit = last.ask(json!({ "op": "audit" }));
    assert_eq!(audit["ok"], true, "{audit}");
    last.kill();
    check_effects(folder.path(), &ends, &told);
    let doubts = told.doubts.len();
    println!(
        "{kills} kills: {} executions, {} acknowledged decisions, {doubts} doubts",
        ends.len(),
        told.decisions.len()
    );
    assert!(told.decisions.len() as u64 > kills, "the load was too light to mean anything");
}

/// What the world was told.
#[derive(Default)]
struct Told {
    accepted: BTreeSet<String>,
    decisions: BTreeMap<String, &'static str>,
    denied: BTreeSet<String>,
    doubts: BTreeSet<String>,
}

impl Process {
    /// Load until the moment of death: calls go out together, and every question that comes back is answered.
    fn live(&mut self, life: u64, death: Instant, chance: &mut Chance, told: &mut Told) {
        let mut waiting: HashMap<u64, Sent> = HashMap::new();
        for n in 0..CALLS_PER_LIFE {
            let tool = if chance.one_in(4) { "ledger.big" } else { "ledger.append" };
            let call =
                json!({ "op": "call", "tool": tool, "args": { "n": n }, "key": format!("{life}-{n}") });
            waiting.insert(self.send(call), Sent::Call);
        }
        while let Some(left) = death.checked_duration_since(Instant::now()) {
            let Ok(answer) = self.answers.recv_timeout(left) else { return };
            match answer["id"].as_u64().and_then(|id| waiting.remove(&id)) {
                Some(Sent::Call) if answer["ok"] == true => {
                    let execution = text(&answer["execution"]);
                    told.accepted.insert(execution.clone());
                    for elicitation in answer["pending"].as_array().into_iter().flatten() {
                        let approve = !chance.one_in(4);
                        let elicitation = text(elicitation);
                        let decide = json!({ "op": "decide", "elicitation": elicitation, "approve": approve, "as": "ann" });
                        let outcome = if approve { "approved" } else { "denied" };
                        let sent = Sent::Decide { elicitation, execution: execution.clone(), outcome };
                        waiting.insert(self.send(decide), sent);
                    }
                }
                Some(Sent::Decide { elicitation, execution, outcome }) if answer["ok"] == true => {
                    assert_eq!(answer["outcome"], outcome, "{answer}");
                    told.decisions.insert(elicitation, outcome);
                    if outcome == "denied" {
                        told.denied.insert(execution);
                    }
                }
                _ => {}
            }
        }
    }

    /// Everything open is approved, every doubt settled, and then nothing may be running.
    fn bring_to_rest(&mut self, told: &mut Told) {
        let begun = Instant::now();
        loop {
            for pending in
                self.ask(json!({ "op": "pending" }))["pending"].as_array().cloned().unwrap_or_default()
            {
                let elicitation = elicitation_of(&pending);
                let answer = self
                    .ask(json!({ "op": "decide", "elicitation": elicitation, "approve": true, "as": "ann" }));
                if answer["ok"] == true {
                    told.decisions.insert(elicitation, "approved");
                }
            }
            let executions = self.executions();
            let of = |status: &str| {
                executions.iter().filter(|(_, s)| *s == status).map(|(id, _)| id.clone()).collect::<Vec<_>>()
            };
            for execution in of("in_doubt") {
                let settled =
                    self.ask(json!({ "op": "settle", "execution": execution, "call": 0, "as": "failed" }));
                assert_eq!(settled["ok"], true, "{settled}");
                told.doubts.insert(execution);
            }
            if of("running").is_empty() && of("waiting").is_empty() && of("in_doubt").is_empty() {
                return;
            }
            assert!(
                begun.elapsed() < LONGEST_ANSWER,
                "not at rest: {:?} running, {:?} waiting",
                of("running"),
                of("waiting")
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Somebody else says the opposite now, and must be shown what was acknowledged then.
    fn check_decisions(&mut self, told: &Told) {
        for (elicitation, outcome) in &told.decisions {
            let opposite = *outcome != "approved";
            let answer = self
                .ask(json!({ "op": "decide", "elicitation": elicitation, "approve": opposite, "as": "eve" }));
            assert_eq!(
                answer["code"], "already_decided",
                "R5: the acknowledged decision on {elicitation} is gone: {answer}"
            );
            let shown = answer.to_string().to_lowercase();
            assert!(shown.contains(outcome), "R5: {elicitation} was {outcome}, now it is {answer}");
        }
    }
}

enum Sent {
    Call,
    Decide { elicitation: String, execution: String, outcome: &'static str },
}

fn check_effects(folder: &Path, ends: &BTreeMap<String, String>, told: &Told) {
    let ledger = std::fs::read_to_string(folder.join("ledger.txt")).unwrap_or_default();
    let mut effects: BTreeMap<String, usize> = BTreeMap::new();
    for line in ledger.lines() {
        *effects.entry(line.split_whitespace().next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    for (execution, times) in &effects {
        assert_eq!(*times, 1, "R3: {execution} took effect {times} times");
        assert!(!told.denied.contains(execution), "R2: {execution} was denied and took effect");
        assert!(ends.contains_key(execution), "R1: {execution} took effect and is in no journal");
    }
    for execution in &told.accepted {
        assert!(ends.contains_key(execution), "R9: {execution} was accepted and is gone");
    }
    for (execution, status) in ends {
        let took_effect = effects.contains_key(execution);
        assert!(status != "succeeded" || took_effect, "{execution} succeeded without its effect");
        let doubted = told.doubts.contains(execution);
        assert!(
            status == "succeeded" || !took_effect || doubted,
            "{execution} took effect, is {status} and was never in doubt (R4)"
        );
    }
}

fn elicitation_of(pending: &Value) -> String {
    if pending.is_string() { text(pending) } else { text(&pending["elicitation"]) }
}
