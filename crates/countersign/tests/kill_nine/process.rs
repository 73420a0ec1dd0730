//! One process of the example `embed`, spoken to in lines and killed without warning.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// No answer takes this long unless it never comes.
pub(crate) const LONGEST_ANSWER: Duration = Duration::from_secs(60);

pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    pub(crate) answers: Receiver<Value>,
    early: HashMap<u64, Value>,
    next_id: u64,
}

impl Process {
    pub(crate) fn start(folder: &Path) -> Self {
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
        let ready: Value = answers.recv_timeout(LONGEST_ANSWER).expect("it starts");
        assert_eq!(ready["ready"], true, "{ready}");
        // Its own computing time: the clock would also count what else runs on this machine.
        if cfg!(target_os = "linux") {
            let took = computed(child.id());
            assert!(took < Duration::from_secs(2), "recovery took {took:?} (R4)");
        }
        Self { child, input, answers, early: HashMap::new(), next_id: 1 }
    }

    pub(crate) fn executions(&mut self) -> BTreeMap<String, String> {
        let answer = self.ask(json!({ "op": "executions" }));
        let all = answer["executions"].as_array().cloned().unwrap_or_default();
        all.iter().map(|e| (text(&e["id"]), text(&e["status"]))).collect()
    }

    pub(crate) fn ask(&mut self, command: Value) -> Value {
        let id = self.send(command);
        loop {
            if let Some(answer) = self.early.remove(&id) {
                return answer;
            }
            let answer = self.answers.recv_timeout(LONGEST_ANSWER).expect("an answer");
            self.early.insert(answer["id"].as_u64().unwrap_or(0), answer);
        }
    }

    pub(crate) fn send(&mut self, mut command: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        command["id"] = json!(id);
        writeln!(self.input, "{command}").expect("it reads its input");
        id
    }

    pub(crate) fn kill(mut self) {
        // On Unix this is SIGKILL: no handler, no flush, no goodbye.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Examples are built beside the tests: `target/debug/deps/kill_nine-…` and `target/debug/examples/embed`.
fn program() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(2).unwrap().join("examples").join("embed")
}

/// How long a process has computed so far, as Linux counts it: in hundredths of a second.
fn computed(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    // User and system time are fields 14 and 15; those after the name begin with the third.
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
