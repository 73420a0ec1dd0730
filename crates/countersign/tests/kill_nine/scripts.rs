//! Scripts: killed at random moments and at every step of the lifecycle, they end as if nothing had happened.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use countersign_testkit::chance::Chance;
use serde_json::{Value, json};

use crate::process::{LONGEST_ANSWER, Process, text};

const KILLS: u64 = 200;
/// After so many kills without a script that ended, processes live longer.
const KILLS_WITHOUT_AN_END: u32 = 10;
/// Fifty safe calls and five destructive ones, in five rounds.
const SOURCE: &str = r#"
    let sum = 0;
    for (let round = 0; round < 5; round++) {
        for (let look = 0; look < 10; look++) sum += (await tools.ledger.look({ n: round * 10 + look })).n;
        sum += (await tools.ledger.append({ n: 1000 + round })).n;
    }
    return sum;
"#;
/// What it gives when nobody disturbs it.
const SUM: i64 = 1225 + 5010;

#[test]
fn killed_at_two_hundred_random_moments_a_script_ends_like_an_undisturbed_one() {
    let kills = std::env::var("COUNTERSIGN_SOAK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Chance::new(17);
    let (mut script, mut ended, mut doubts) = (Script::new(0), 0, 0);
    let (mut longest_life_ms, mut kills_since_an_end) = (150, 0);
    for _ in 0..kills {
        let mut process = Process::start(folder.path());
        // Where other work slows the machine down, lives that are too short for a script to end would show nothing.
        kills_since_an_end += 1;
        if kills_since_an_end % KILLS_WITHOUT_AN_END == 0 {
            longest_life_ms += 100;
        }
        let death = Instant::now() + Duration::from_millis(10 + chance.below(longest_life_ms));
        while Instant::now() < death {
            match script.go_on(&mut process, folder.path(), death) {
                Stand::Ended => {
                    script.check(folder.path());
                    (ended, kills_since_an_end) = (ended + 1, 0);
                    script = Script::new(ended);
                }
                Stand::Under { in_doubt } => doubts += in_doubt,
                Stand::Dead => break,
            }
        }
        process.kill();
    }
    let mut last = Process::start(folder.path());
    let patience = Instant::now() + LONGEST_ANSWER;
    while script.go_on(&mut last, folder.path(), patience) != Stand::Ended {
        assert!(Instant::now() < patience, "the last script does not end");
    }
    script.check(folder.path());
    let audit = last.ask(json!({ "op": "audit" }));
    assert_eq!(audit["ok"], true, "{audit}");
    last.kill();
    println!("{kills} kills: {} scripts ended with {SUM}, {doubts} doubts", ended + 1);
    assert!(ended > kills / 50, "the kills came so fast that hardly anything was tried: {ended}");
}

#[test]
fn the_pause_survives_a_kill_at_every_step_of_the_lifecycle() {
    const CREATE: &str = "return (await tools.ledger.append({ n: 7 })).n;";
    for step in 1..=8 {
        let folder = tempfile::tempdir().unwrap();
        let run = || json!({ "op": "run", "script": CREATE, "key": "lifecycle" });
        let mut first = Process::start(folder.path());
        first.live_until(step, &run());
        first.kill();
        let mut second = Process::start(folder.path());
        let told = second.ask(run());
        assert_eq!(told["ok"], true, "step {step}: {told}");
        let pending = told["pending"].as_array().cloned().unwrap_or_default();
        for elicitation in pending {
            let decide = json!({ "op": "decide", "elicitation": elicitation, "approve": true, "as": "ann" });
            let answer = second.ask(decide);
            assert_eq!(answer["ok"], true, "step {step}: {answer}");
        }
        let wait = json!({ "op": "wait", "execution": told["execution"] });
        let mut end = second.ask(wait.clone());
        if end["status"] == "in_doubt" {
            assert!(step >= 6, "step {step}: nothing had started: {end}");
            settle_truthfully(&mut second, folder.path(), &end);
            end = second.ask(wait);
        }
        assert_eq!((&end["status"], &end["value"]), (&json!("succeeded"), &json!(7)), "step {step}: {end}");
        let lines = count(&folder.path().join("ledger.txt"), &text(&told["execution"]));
        assert_eq!(lines, BTreeMap::from([(7, 1)]), "step {step}: it ran once");
        second.kill();
    }
}

impl Process {
    /// Goes on with seed 001's lifecycle until a step is done.
    fn live_until(&mut self, step: u32, run: &Value) {
        if step <= 2 {
            // 1: the script calls; 2: the gate is asked. Nobody waits for the answer.
            self.send(run.clone());
            std::thread::sleep(Duration::from_millis(u64::from(step) * 20));
            return;
        }
        // 3: it is pending; 4: the result says so.
        let told = self.ask(run.clone());
        assert_eq!(told["pending"].as_array().map(Vec::len), Some(1), "{told}");
        if step >= 5 {
            // 5: somebody is shown what waits.
            let shown = self.ask(json!({ "op": "pending" }));
            assert_eq!(shown["pending"].as_array().map(Vec::len), Some(1), "{shown}");
        }
        let decide =
            json!({ "op": "decide", "elicitation": told["pending"][0], "approve": true, "as": "ann" });
        match step {
            // 6: somebody approves, and never hears that it was taken.
            6 => drop(self.send(decide)),
            // 7: they hear it; 8: it goes on.
            7 | 8 => {
                assert_eq!(self.ask(decide)["ok"], true);
                if step == 8 {
                    let end = self.ask(json!({ "op": "wait", "execution": told["execution"] }));
                    assert_eq!(end["value"], 7, "{end}");
                }
            }
            _ => {}
        }
    }
}

/// How far a script is.
#[derive(PartialEq)]
enum Stand {
    Ended,
    Under { in_doubt: u64 },
    Dead,
}

/// One script, across the processes it lives through.
struct Script {
    key: String,
    execution: String,
    /// What had been looked at when it was last seen waiting.
    looked: BTreeMap<i64, usize>,
    value: Value,
}

impl Script {
    fn new(n: u64) -> Self {
        Self {
            key: format!("script-{n}"),
            execution: String::new(),
            looked: BTreeMap::new(),
            value: Value::Null,
        }
    }

    /// Brings it on by one decision.
    fn go_on(&mut self, process: &mut Process, folder: &Path, death: Instant) -> Stand {
        let run = process.send(json!({ "op": "run", "script": SOURCE, "key": self.key }));
        let Some(told) = process.answer_before(run, death) else { return Stand::Dead };
        assert_eq!(told["ok"], true, "{told}");
        self.execution = text(&told["execution"]);
        match told["status"].as_str() {
            Some("succeeded") => {
                self.value = told["value"].clone();
                return Stand::Ended;
            }
            Some("in_doubt") => {
                settle_truthfully(process, folder, &told);
                return Stand::Under { in_doubt: 1 };
            }
            Some("running" | "waiting") => {}
            other => panic!("a script ended as {other:?}: {told}"),
        }
        self.looked = count(&folder.join("looks.txt"), &self.execution);
        for elicitation in told["pending"].as_array().into_iter().flatten() {
            let decide = json!({ "op": "decide", "elicitation": elicitation, "approve": true, "as": "ann" });
            let sent = process.send(decide);
            if process.answer_before(sent, death).is_none() {
                return Stand::Dead;
            }
        }
        Stand::Under { in_doubt: 0 }
    }

    fn check(&self, folder: &Path) {
        assert_eq!(self.value, SUM, "{}", self.key);
        let appended = count(&folder.join("ledger.txt"), &self.execution);
        let once: BTreeMap<i64, usize> = (1000..1005).map(|n| (n, 1)).collect();
        assert_eq!(appended, once, "{}: each destructive call ran exactly once", self.key);
        let looks = count(&folder.join("looks.txt"), &self.execution);
        for (n, times) in &self.looked {
            assert_eq!(looks[n], *times, "{}: look {n} was recorded before a pause, and ran again", self.key);
        }
    }
}

impl Process {
    fn answer_before(&mut self, id: u64, death: Instant) -> Option<Value> {
        loop {
            let left = death.checked_duration_since(Instant::now())?;
            let answer = self.answers.recv_timeout(left).ok()?;
            if answer["id"] == id {
                return Some(answer);
            }
        }
    }
}

/// Somebody looks at the outside system and says what really happened.
fn settle_truthfully(process: &mut Process, folder: &Path, told: &Value) {
    let execution = text(&told["execution"]);
    let calls = told["calls"].as_array().cloned().unwrap_or_default();
    let (no, call) =
        calls.iter().enumerate().find(|(_, call)| call["status"] == "in_doubt").expect("a doubt");
    let n = call["args"]["n"].as_i64().expect("a number");
    let happened = count(&folder.join("ledger.txt"), &execution).contains_key(&n);
    let settle = if happened {
        json!({ "op": "settle", "execution": execution, "call": no, "as": "done", "value": { "n": n } })
    } else {
        json!({ "op": "settle", "execution": execution, "call": no, "as": "retry" })
    };
    let settled = process.ask(settle);
    assert_eq!(settled["ok"], true, "{settled}");
}

/// How often each number stands in a file under an execution.
fn count(file: &Path, execution: &str) -> BTreeMap<i64, usize> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        if let Some((id, n)) = line.split_once(' ')
            && id == execution
            && let Ok(n) = n.parse()
        {
            *counts.entry(n).or_default() += 1;
        }
    }
    counts
}
