//! Scripts, on a host whose scripts are recipes: each line is a call, all of them at once.

use async_trait::async_trait;
use countersign_core::canonical::{Canonical, Verbatim};
use countersign_core::event::LogLine;
use countersign_kernel::ports::{
    Completion, Program, Request, ScriptEnd, ScriptFault, ScriptHost, Stripped, Turn, Vm, Wanted,
};
use countersign_sdk::LogLevel;
use serde_json::json;

use crate::client::{Era, approve, code, execution};
use crate::house::House;

/// Runs `path what` lines.
pub(crate) struct Recipe;

#[derive(Default)]
struct Kitchen {
    open: usize,
}

#[async_trait]
impl ScriptHost for Recipe {
    async fn open(&self) -> Result<Box<dyn Vm>, ScriptFault> {
        Ok(Box::new(Kitchen::default()))
    }
}

#[async_trait]
impl Vm for Kitchen {
    async fn strip(&mut self, source: &str) -> Result<Stripped, ScriptFault> {
        Ok(Stripped { code: source.to_owned(), mappings: String::new() })
    }

    async fn start(&mut self, program: Program) -> Result<Turn, ScriptFault> {
        let lines = program.stripped.code.lines().map(|line| line.split_once(' ').unwrap());
        let requests = lines.zip(0..).map(|((path, what), no)| Request {
            no,
            line: Some(no + 1),
            wanted: Wanted::Call {
                path: path.to_owned(),
                args: Canonical::of(&json!({ "what": what })).unwrap(),
            },
        });
        let requests: Vec<Request> = requests.collect();
        self.open = requests.len();
        let logs = vec![LogLine { level: LogLevel::Info, message: "cooking".into() }];
        Ok(Turn { requests, logs, end: self.end() })
    }

    async fn deliver(&mut self, completions: Vec<Completion>) -> Result<Turn, ScriptFault> {
        self.open -= completions.len();
        Ok(Turn { end: self.end(), ..Turn::default() })
    }
}

impl Kitchen {
    fn end(&self) -> Option<ScriptEnd> {
        (self.open == 0).then(|| ScriptEnd::Returned(Verbatim::of(&json!("served")).unwrap()))
    }
}

const TWO: &str = "lab.destroy_each a\nlab.destroy_each b";

#[tokio::test]
async fn a_script_asks_one_prompt_after_another_and_gives_its_value() {
    let house = House::open().await;
    let client = house.client(Era::November2025).await;
    let mut call = client.begin("run", json!({ "script": TWO })).await;
    for _ in 0..2 {
        let prompt = call.until("elicitation/create").await;
        client.answer(&prompt, approve()).await;
    }
    let result = call.answer().await["result"].clone();
    assert_eq!(result["structuredContent"]["value"], "served", "{result}");
    assert_eq!(result["structuredContent"]["status"], "succeeded");
    let mut effects = house.effects();
    effects.sort();
    assert_eq!(effects, ["a", "b"]);
}

#[tokio::test]
async fn a_script_puts_all_its_questions_into_one_round() {
    let house = House::open().await;
    let client = house.client(Era::July2026).await;
    let args = json!({ "script": TWO });
    let mut asked = client.call("run", args.clone()).await;
    house.until_open(2).await;
    if asked["inputRequests"].as_object().unwrap().len() < 2 {
        // The first question was told of before the second was there; coming back without answers shows both.
        let again = client.retry_with("run", args.clone(), &asked["requestState"], json!({})).await;
        asked = again["result"].clone();
    }
    let keys: Vec<String> = asked["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 2, "{asked}");
    let one = json!({ keys[0].clone(): approve() });
    let rest = client.retry_with("run", args.clone(), &asked["requestState"], one).await;
    let rest = rest["result"].clone();
    assert_eq!(rest["inputRequests"].as_object().unwrap().len(), 1, "what was not answered is asked again");
    let done = client.retry("run", args, &rest, approve()).await;
    assert_eq!(done["result"]["structuredContent"]["value"], "served", "{done}");
    assert_eq!(house.effects().len(), 2);
}

#[tokio::test]
async fn a_script_without_a_client_that_asks_is_paused_with_all_it_waits_for_and_resumed_by_id() {
    let house = House::open().await;
    let key = house.key(countersign_sdk::Role::Agent).await;
    let client = house.client_that(&key, Era::July2026, json!({})).await;
    let paused = client.call("run", json!({ "script": TWO })).await;
    assert_eq!(paused["structuredContent"]["pending"].as_array().unwrap().len(), 2, "{paused}");
    for list in ["pending", "calls"] {
        let lines: Vec<_> =
            paused["structuredContent"][list].as_array().unwrap().iter().map(|of| &of["line"]).collect();
        assert_eq!(lines, [1, 2], "where the script waits: {paused}");
    }
    for row in house.open_questions().await {
        house.ann_says(row.elicitation.id, countersign_testkit::world::yes()).await;
    }
    let done = client.call("resume", json!({ "execution_id": execution(&paused) })).await;
    assert_eq!(done["structuredContent"]["value"], "served");
    assert_eq!(done["structuredContent"]["logs"][0]["message"], "cooking");
    assert_eq!(code(&client.call("run", json!({})).await), "invalid_input");
}
