//! A source's form whose choices and default hide characters: a person reads them written out, and the source gets them exactly.

use countersign_sdk::{Ctx, ForeignInput, Form, Tool};
use serde_json::{Value, json};

use crate::client::{Era, text};
use crate::house::House;
use crate::sources::READS;

const HIDDEN: [char; 3] = ['\u{202e}', '\u{200b}', '\u{1b}'];

/// A tool that asks for a colour and a note, and answers with what it was given.
fn asks() -> Tool {
    let schema = json!({ "type": "object", "required": ["color"], "properties": {
        "color": { "type": "string", "enum": ["red", "r\u{202e}der"] },
        "size": { "type": "string", "oneOf": [{ "const": "s\u{200b}", "title": "small" }, { "const": "l", "title": "large" }] },
        "note": { "type": "string", "default": "keep\u{1b}[2J" },
    } });
    let tool = Tool::foreign("far.ask", json!({ "type": "object" }), None, READS).unwrap();
    tool.handler(move |ctx: Ctx, _: ForeignInput| {
        let form = Form::<Value>::with_schema("Which one?", schema.clone());
        async move { Ok(json!({ "given": ctx.elicit(form).await? })) }
    })
}

fn is_visible(shown: &Value) {
    let found = shown.to_string();
    assert!(!found.contains(HIDDEN) && !found.contains("\\u001b"), "{found}");
    for part in ["r⟦U+202E⟧der", "⟦U+200B⟧"] {
        assert!(found.contains(part), "{part} in {found}");
    }
}

#[tokio::test]
async fn hidden_characters_of_choices_are_shown_and_the_answer_is_exact() {
    for era in Era::ALL {
        let house = House::open().await;
        house.gateway.replace_source("far", vec![asks()]).await.unwrap();
        let client = house.client(era).await;
        // A default is shown only where the revision has defaults of texts.
        let note = if era == Era::June2025 { "my own" } else { "keep⟦U+001B⟧[2J" };
        let said = json!({ "action": "accept", "content": { "color": "r⟦U+202E⟧der", "size": "s⟦U+200B⟧", "note": note } });
        let answer = if era == Era::July2026 {
            let asked = client.call("far__ask", json!({})).await;
            let question = asked["inputRequests"].as_object().unwrap().values().next().unwrap();
            is_visible(&question["params"]);
            client.retry("far__ask", json!({}), &asked, said).await
        } else {
            let mut call = client.begin("far__ask", json!({})).await;
            let prompt = call.until("elicitation/create").await;
            is_visible(&prompt["params"]);
            let message = prompt["params"]["message"].as_str().unwrap();
            assert!(message.contains("Beware") && message.contains("reorder text"), "{message}");
            client.answer(&prompt, said).await;
            call.answer().await
        };
        let given: Value = serde_json::from_str(text(&answer["result"])).unwrap();
        let note = if era == Era::June2025 { "my own" } else { "keep\u{1b}[2J" };
        assert_eq!(
            given["given"],
            json!({ "color": "r\u{202e}der", "size": "s\u{200b}", "note": note }),
            "{era:?}"
        );
    }
}
