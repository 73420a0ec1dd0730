//! Bodies with `oneOf` and with schemas that contain themselves, from the document to the bytes that reach the service.

use countersign_kernel::ports::{Acceptance, SourceConfig, Sources as _};
use countersign_testkit::world::{InTests as _, admin};
use serde_json::{Value, json};

use crate::shop::Shop;

/// A payment by card or by transfer, and a folder that contains folders.
fn shaped(server: &str) -> Value {
    let body = |schema: &str| {
        let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
        json!({ "required": true, "content": { "application/json": { "schema": schema } } })
    };
    let operation = |id: &str, schema: &str| json!({ "operationId": id, "requestBody": body(schema), "responses": { "201": { "description": "made" } } });
    let kind = |kind: &str, field: &str| {
        json!({
            "type": "object",
            "required": ["kind", field],
            "additionalProperties": false,
            "properties": { "kind": { "type": "string", "enum": [kind] }, field: { "type": "string" } },
        })
    };
    json!({
        "openapi": "3.0.3",
        "info": { "title": "Shapes", "version": "1" },
        "servers": [{ "url": server }],
        "paths": {
            "/payments": { "post": operation("payments/create", "Payment") },
            "/folders": { "post": operation("folders/create", "Folder") },
        },
        "components": { "schemas": {
            "Card": kind("card", "number"),
            "Transfer": kind("transfer", "iban"),
            "Payment": {
                "oneOf": [{ "$ref": "#/components/schemas/Card" }, { "$ref": "#/components/schemas/Transfer" }],
                "discriminator": { "propertyName": "kind" },
            },
            "Folder": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": false,
                "properties": {
                    "name": { "type": "string" },
                    "folders": { "type": "array", "items": { "$ref": "#/components/schemas/Folder" } },
                },
            },
        } },
    })
}

async fn open() -> Shop {
    let shop = Shop::open().await;
    std::fs::write(shop.document(), shaped(&shop.service.url).to_string()).unwrap();
    let mut config = SourceConfig { name: "shapes".to_owned(), ..shop.config() };
    // Nothing but the bodies matters here.
    config.tools.writes = vec!["**".to_owned()];
    shop.registry.put(&admin(), config).await.unwrap();
    let detail = shop.registry.accept(&admin(), "shapes", Acceptance::default()).await.unwrap();
    assert_eq!((detail.summary.callable, detail.unmapped.len()), (2, 0), "{detail:?}");
    shop
}

#[tokio::test]
async fn each_choice_of_a_one_of_body_reaches_the_service_as_it_was_given_and_no_mixture_does() {
    let shop = open().await;
    let card = json!({ "kind": "card", "number": "4711" });
    let transfer = json!({ "kind": "transfer", "iban": "DE02" });
    for body in [&card, &transfer] {
        let end = shop.gateway.ask("shapes.payments.create", json!({ "body": body })).await.unwrap();
        assert!(end.success(), "{end:?}");
    }
    for wrong in [
        json!({ "kind": "card", "iban": "DE02" }),
        json!({ "kind": "card", "number": "4711", "iban": "DE02" }),
        json!({ "number": "4711" }),
        json!({}),
    ] {
        let refused = shop.gateway.ask("shapes.payments.create", json!({ "body": wrong })).await.unwrap_err();
        assert_eq!(refused.code(), "invalid_input", "{wrong}");
    }
    let sent = [format!("POST /payments {card}"), format!("POST /payments {transfer}")];
    assert_eq!(shop.service.asked(), sent);
}

#[tokio::test]
async fn a_body_whose_schema_contains_itself_is_checked_and_sent_at_any_depth() {
    let shop = open().await;
    let nested = |leaf: Value| {
        (0..20).fold(leaf, |folder, depth| json!({ "folders": [folder], "name": depth.to_string() }))
    };
    let deep = nested(json!({ "name": "leaf" }));
    let end = shop.gateway.ask("shapes.folders.create", json!({ "body": deep })).await.unwrap();
    assert!(end.success(), "{end:?}");
    for wrong in
        [nested(json!({ "name": 7 })), nested(json!({ "name": "leaf", "other": 1 })), nested(json!({}))]
    {
        let refused = shop.gateway.ask("shapes.folders.create", json!({ "body": wrong })).await.unwrap_err();
        assert_eq!(refused.code(), "invalid_input");
    }
    assert_eq!(shop.service.asked(), [format!("POST /folders {deep}")]);
}
