//! Looking and calling: what needs nobody.

use serde_json::{Value, json};

use crate::client::{Elicitation, Era, in_every_era};
use crate::conformance::fixtures;
use crate::server::Server;

in_every_era!(
    every_tool_is_listed_with_what_it_does_to_the_world,
    reading_flows_through,
    a_wrong_argument_is_named_so_that_the_model_can_mend_it,
    prompts_are_declared_where_they_are_served,
);

fn every_tool_is_listed_with_what_it_does_to_the_world(era: Era) {
    let server = Server::start();
    let mut client = server.client(era, Elicitation::Absent);
    let tools = client.tools();
    let named = |name: &str| -> &Value {
        tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} is not listed"))
    };
    for name in ["run", "resume", "search_tools", "read_tool", "notes__list", "bank__pay", "stock__check"] {
        assert_eq!(named(name)["inputSchema"]["type"], "object", "{name}");
    }
    let (list, pay) = (&named("notes__list")["annotations"], &named("bank__pay")["annotations"]);
    assert_eq!((&list["destructiveHint"], &pay["destructiveHint"]), (&json!(false), &json!(true)));
    assert_eq!(named("notes__add")["annotations"].get("readOnlyHint"), None, "it writes");
}

fn reading_flows_through(era: Era) {
    let server = Server::start();
    let mut client = server.client(era, Elicitation::Absent);
    let said = client.call("echo__say", &json!({ "text": "Grüße" }));
    assert_eq!(said["structuredContent"]["text"], "Grüße", "{said}");
    client.call("notes__add", &json!({ "title": "Milk" }));
    let notes = client.call("notes__list", &json!({}));
    assert_eq!(notes["structuredContent"]["notes"][0]["title"], "Milk", "{notes}");
    let script = "const { notes } = await tools.notes.list({}); return notes.length;";
    let ran = client.call("run", &json!({ "script": script }));
    assert_eq!(ran["structuredContent"]["value"], 1, "{ran}");
}

fn a_wrong_argument_is_named_so_that_the_model_can_mend_it(era: Era) {
    let server = Server::start();
    let mut client = server.client(era, Elicitation::Absent);
    let result = client.call("bank__pay", &json!({ "to": 7 }));
    assert_eq!(result["isError"], true, "{result}");
    let text = crate::client::text(&result);
    assert!(text.contains("/to") && text.contains("amount"), "all of what is wrong, at once: {text}");
    assert_eq!(result["_meta"]["countersign/error"]["code"], "invalid_input", "{result}");
}

fn prompts_are_declared_where_they_are_served(era: Era) {
    let with_prompts = Server::of(&fixtures(), &[]);
    let prompts = with_prompts.client(era, Elicitation::Absent).prompts().expect("prompts are declared");
    assert!(prompts.iter().any(|prompt| prompt["name"] == "test_simple_prompt"), "{prompts:?}");
    let without = Server::start();
    // A source may bring prompts while a client is connected, so they are declared while there are none.
    assert_eq!(without.client(era, Elicitation::Absent).prompts(), Some(vec![]));
}
