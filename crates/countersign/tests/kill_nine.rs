//! Black box: a real process on a real disk, killed with SIGKILL under load, again and again.
//!
//! What was acknowledged is remembered here, outside the process; what took effect is in the ledger file, which the
//! handlers sync line by line. After the last kill everything is brought to rest and held against both.
#![expect(
    clippy::disallowed_methods,
    reason = "it starts and kills processes, and its kills come at real times"
)]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected stops there")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use countersign_testkit::chance::Chance;
use serde_json::{Value, json};

const KILLS: u64 = 100;
/// How many calls are under way at once.
const CALLS_PER_LIFE: u64 = 12;
/// No answer takes this long unless it never comes.
const LONGEST_ANSWER: Duration = Duration::from_secs(20);

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

struct Process {
    child: Child,
    input: ChildStdin,
    answers: Receiver<Value>,
    early: HashMap<u64, Value>,
    next_id: u64,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(program())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example `embed` is built with the tests");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A line cut short by the kill is no answer.
                let Ok(answer) = serde_json::from_str(&line) else { break };
                if sender.send(answer).is_err() {
                    break;
                }
            }
        });
        let begun = Instant::now();
        let ready: Value = answers.recv_timeout(LONGEST_ANSWER).expect("it starts");
        assert_eq!(ready["ready"], true, "{ready}");
        assert!(begun.elapsed() < Duration::from_secs(2), "recovery took {:?} (R4)", begun.elapsed());
        Self { child, input, answers, early: HashMap::new(), next_id: 1 }
    }

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

    fn executions(&mut self) -> BTreeMap<String, String> {
        let answer = self.ask(json!({ "op": "executions" }));
        let all = answer["executions"].as_array().cloned().unwrap_or_default();
        all.iter().map(|e| (text(&e["id"]), text(&e["status"]))).collect()
    }

    fn ask(&mut self, command: Value) -> Value {
        let id = self.send(command);
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let answer = self.answers.recv_timeout(LONGEST_ANSWER).expect("an answer");
            self.early.insert(answer["id"].as_u64().unwrap_or(0), answer);
        }
    }

    fn send(&mut self, mut command: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        command["id"] = json!(id);
        writeln!(self.input, "{command}").expect("it reads its input");
        id
    }

    fn kill(mut self) {
        // On Unix this is SIGKILL: no handler, no flush, no goodbye.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
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

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Examples are built beside the tests: `target/debug/deps/kill_nine-…` and `target/debug/examples/embed`.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(2).unwrap().join("examples").join("embed")
}
