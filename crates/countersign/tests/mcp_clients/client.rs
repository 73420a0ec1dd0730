//! One official client in a Node process of its own.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::node::toolbox;
use crate::server::PROGRAM;
use crate::unix_user::UnixUser;

/// No answer takes this long unless it never comes.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// A revision of the protocol, and with it a client that speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    June2025,
    November2025,
    July2026,
}

/// Whether the client says that it can ask its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elicitation {
    Declared,
    Absent,
}

/// Whether the client has roots and a model, and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Belongings {
    Own,
    None,
}

/// A connected client.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    unread: VecDeque<Value>,
    next_id: u64,
}

/// A call under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call(u64);

/// A question that the client puts to its user.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) key: u64,
    pub(crate) message: String,
    pub(crate) schema: Value,
}

/// Runs each promise once for every revision.
macro_rules! in_every_era {
    ($($promise:ident),+ $(,)?) => {
        mod revision_2025_06_18 { $(#[test] fn $promise() { super::$promise($crate::client::Era::June2025) })+ }
        mod revision_2025_11_25 { $(#[test] fn $promise() { super::$promise($crate::client::Era::November2025) })+ }
        mod revision_2026_07_28 { $(#[test] fn $promise() { super::$promise($crate::client::Era::July2026) })+ }
    };
}
pub(crate) use in_every_era;

impl Era {
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
            Self::July2026 => "2026-07-28",
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::June2025 | Self::November2025 => "sdk1.mjs",
            Self::July2026 => "client2.mjs",
        }
    }
}

impl Client {
    /// Over HTTP.
    pub(crate) fn over_http(era: Era, elicitation: Elicitation, url: &str, token: &str) -> Self {
        let mut client = Self::start(era);
        client.connect(era, elicitation, json!({ "url": format!("{url}/mcp"), "token": token }));
        client
    }

    /// Over HTTP, told when lists change.
    pub(crate) fn watching_over_http(era: Era, url: &str, token: &str) -> Self {
        let mut client = Self::start(era);
        let options = json!({ "url": format!("{url}/mcp"), "token": token, "watch": true });
        client.connect(era, Elicitation::Absent, options);
        client
    }

    /// Over HTTP, with roots and a model of its own.
    pub(crate) fn rich_over_http(era: Era, url: &str, token: &str) -> Self {
        let mut client = Self::start(era);
        let options = json!({ "url": format!("{url}/mcp"), "token": token, "rich": true });
        client.connect(era, Elicitation::Absent, options);
        client
    }

    /// Over standard input and output, through a bridge to this server, with roots and a model of its own.
    pub(crate) fn rich_over_bridge(era: Era, url: &str, token: &str) -> Self {
        let mut client = Self::start(era);
        let environment = json!({ "COUNTERSIGN_TOKEN": token });
        let words = ["mcp", "--connect", url];
        let options = json!({ "command": PROGRAM, "args": words, "env": environment, "rich": true });
        client.connect(era, Elicitation::Absent, options);
        client
    }

    /// Over standard input and output, through `countersign mcp`.
    pub(crate) fn over_stdio(era: Era, elicitation: Elicitation, user: &UnixUser, words: &[&str]) -> Self {
        let mut client = Self::start(era);
        let (uid, gid) = (format!("--reuid={}", user.uid), format!("--regid={}", user.gid));
        let program = crate::unix_user::program();
        let mut all = vec![&uid, &gid, "--clear-groups", program.to_str().unwrap()];
        all.extend(words);
        let environment = json!({ "HOME": user.home() });
        client.connect(era, elicitation, json!({ "command": "setpriv", "args": all, "env": environment }));
        client
    }

    /// Of another server than ours, which these words start.
    pub(crate) fn of_another(era: Era, elicitation: Elicitation, rich: Belongings, words: &[String]) -> Self {
        let mut client = Self::start(era);
        let (program, arguments) = words.split_first().expect("a program");
        let negotiates = era == Era::July2026;
        let options = json!({
            "command": program, "args": arguments, "env": {}, "negotiate": negotiates, "rich": rich == Belongings::Own
        });
        let answer = client.answer_to_connect(era, elicitation, options);
        assert_eq!(answer["ok"], true, "{era:?} does not connect: {answer}");
        client
    }

    /// Of another server than ours, at a URL.
    pub(crate) fn of_another_at(era: Era, elicitation: Elicitation, url: &str) -> Self {
        let mut client = Self::start(era);
        let negotiates = era == Era::July2026;
        let options = json!({ "url": url, "token": "none", "negotiate": negotiates });
        let answer = client.answer_to_connect(era, elicitation, options);
        assert_eq!(answer["ok"], true, "{era:?} does not connect: {answer}");
        client
    }

    fn start(era: Era) -> Self {
        let mut child = toolbox()
            .script(era.script())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the toolbox has Node");
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Ok(value) = serde_json::from_str(&line) else { panic!("the driver says {line}") };
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Self { child, input, output, unread: VecDeque::new(), next_id: 1 }
    }

    fn connect(&mut self, era: Era, elicitation: Elicitation, options: Value) {
        let answer = self.answer_to_connect(era, elicitation, options);
        assert_eq!(answer["ok"], true, "{era:?} does not connect: {answer}");
        assert_eq!(answer["server"]["name"], "countersign", "{answer}");
    }

    fn answer_to_connect(&mut self, era: Era, elicitation: Elicitation, mut options: Value) -> Value {
        options["op"] = json!("connect");
        options["elicitation"] = json!(elicitation == Elicitation::Declared);
        if era == Era::June2025 {
            options["version"] = json!(era.version());
        }
        let id = self.send(options);
        self.answer_to(id)
    }

    /// Every tool, by name.
    pub(crate) fn tools(&mut self) -> Vec<Value> {
        let id = self.send(json!({ "op": "list" }));
        let answer = self.answer_to(id);
        answer["tools"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// The prompts that the server declares; none where it declares none.
    pub(crate) fn prompts(&mut self) -> Option<Vec<Value>> {
        let id = self.send(json!({ "op": "prompts" }));
        let answer = self.answer_to(id);
        assert_eq!(answer["ok"], true, "{answer}");
        answer["prompts"].as_array().filter(|_| answer["declared"] == true).cloned()
    }

    /// Calls a tool and waits for its result.
    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> Value {
        let call = self.begin(name, arguments);
        self.result(call)
    }

    /// What a method of the client comes to: its `result`, or the `code` and `message` of its error.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(json!({ "op": "ask", "method": method, "params": params }));
        let mut answer = self.answer_to(id);
        let answer = answer.as_object_mut().expect("an answer is an object");
        answer.retain(|key, _| ["result", "code", "message", "data"].contains(&key.as_str()));
        Value::Object(std::mem::take(answer))
    }

    /// What a call comes to, and what it tells of its progress meanwhile.
    pub(crate) fn call_with_progress(&mut self, name: &str, arguments: &Value) -> (Value, Vec<Value>) {
        let id = self.send(json!({ "op": "call", "name": name, "arguments": arguments, "progress": true }));
        let mut answer = self.answer_to(id);
        let (told, rest) =
            self.unread.drain(..).partition(|line| line["event"] == "progress" && line["call"] == id);
        self.unread = rest;
        let told: VecDeque<Value> = told;
        let steps = told.into_iter().map(|mut step| {
            let step = step.as_object_mut().expect("a step is an object");
            step.retain(|key, _| !["event", "call"].contains(&key.as_str()));
            Value::Object(std::mem::take(step))
        });
        (answer["result"].take(), steps.collect())
    }

    /// Whether a server used the client's roots or model until now.
    pub(crate) fn was_used_for(&mut self, what: &str) -> bool {
        // What comes before an answer is read with it.
        self.ask("ping", &Value::Null);
        self.unread.iter().any(|line| line["event"] == "used" && line["what"] == what)
    }

    /// Changes something until the server says that this list changed. A client listens a moment after it is connected, and
    /// what happens before that is not told.
    pub(crate) fn sees_changed(&mut self, list: &str, mut change: impl FnMut(&mut Self)) {
        let is_it = |line: &Value| line["event"] == "changed" && line["list"] == list;
        let begun = Instant::now();
        while begun.elapsed() < LONGEST_ANSWER {
            change(self);
            let deadline = Instant::now() + Duration::from_secs(2);
            loop {
                if self.unread.iter().any(is_it) {
                    return self.unread.retain(|line| !is_it(line));
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let Ok(line) = self.output.recv_timeout(left) else { break };
                self.unread.push_back(line);
            }
        }
        panic!("the client is never told that {list} changed; it has {:?}", self.unread);
    }

    /// Calls a tool and goes on.
    pub(crate) fn begin(&mut self, name: &str, arguments: &Value) -> Call {
        Call(self.send(json!({ "op": "call", "name": name, "arguments": arguments })))
    }

    /// What a call came to; a protocol error is none.
    pub(crate) fn result(&mut self, call: Call) -> Value {
        let answer = self.outcome(call);
        assert_eq!(answer["ok"], true, "{answer}");
        answer["result"].clone()
    }

    /// What a call came to, whatever it is.
    pub(crate) fn outcome(&mut self, Call(id): Call) -> Value {
        self.answer_to(id)
    }

    /// The next question to the user.
    pub(crate) fn asked(&mut self) -> Question {
        let event = self.next("a question", |line| line["event"] == "asked");
        Question {
            key: event["key"].as_u64().unwrap(),
            message: event["params"]["message"].as_str().unwrap_or_default().to_owned(),
            schema: event["params"]["requestedSchema"].clone(),
        }
    }

    /// The user answers.
    pub(crate) fn answer(&mut self, question: &Question, reply: &Value) {
        let id = self.send(json!({ "op": "answer", "key": question.key, "reply": reply }));
        let answer = self.answer_to(id);
        assert_eq!(answer["was_open"], true, "the question is not open any more: {answer}");
    }

    /// Waits until the server takes a question back.
    pub(crate) fn sees_withdrawn(&mut self, question: &Question) {
        self.next("a withdrawal", |line| line["event"] == "withdrawn" && line["key"] == question.key);
    }

    /// Gives a call up.
    pub(crate) fn abort(&mut self, Call(call): Call) {
        let id = self.send(json!({ "op": "abort", "call": call }));
        self.answer_to(id);
    }

    /// SIGKILL: no goodbye.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn send(&mut self, mut command: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        command["id"] = json!(id);
        writeln!(self.input, "{command}").expect("the driver reads");
        id
    }

    fn answer_to(&mut self, id: u64) -> Value {
        self.next("an answer", |line| line["id"] == id && line["event"].is_null())
    }

    fn next(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&is_it) {
            return self.unread.remove(at).unwrap();
        }
        let deadline = Instant::now() + LONGEST_ANSWER;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.output.recv_timeout(left) else {
                panic!("the client waits for {what} in vain; it has {:?}", self.unread);
            };
            if is_it(&line) {
                return line;
            }
            self.unread.push_back(line);
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an accepting user sends.
pub(crate) fn accept(content: &Value) -> Value {
    json!({ "action": "accept", "content": content })
}

/// The text of a result.
pub(crate) fn text(result: &Value) -> String {
    let content = result["content"].as_array().cloned().unwrap_or_default();
    content.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}
