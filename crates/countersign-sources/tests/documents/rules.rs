//! Names, arguments and schemas: each rule on a small document, whole as a snapshot.

use std::collections::BTreeMap;

use countersign_core::compact::CompactJson;
use countersign_sources::openapi::{MAX_OUTPUT_BYTES, Mapped, Options};
use serde_json::{Value, json};

use crate::small::{self, shown};

fn names(mapped: &Mapped) -> BTreeMap<&str, &str> {
    mapped.offer.tools.iter().map(|tool| (tool.origin.as_str(), tool.name.as_str())).collect()
}

#[test]
fn names_come_from_the_operation_id_the_tag_or_the_path() {
    let mapped = small::map(json!({
        "/repos/{owner}/issues": { "post": { "operationId": "issues/create" } },
        "/repos/{owner}/contents": { "get": { "operationId": "repos/get-content" } },
        "/chat.postMessage": { "post": { "operationId": "chat_postMessage", "tags": ["chat"] } },
        "/v1/pets": { "get": { "operationId": "listPets" } },
        "/v1/toys": { "get": {}, "post": {} },
        "/v1/toys/{id}": { "get": {}, "put": {}, "patch": {}, "delete": {} },
        "/v1/toys/{id}/parts": { "get": {} },
        "/2fa": { "get": {} },
        "/": { "get": {} },
    }));
    insta::assert_snapshot!("names", format!("{:#?}", names(&mapped)));
}

#[test]
fn every_operation_of_a_shared_name_is_told_apart_by_its_own_origin() {
    let paths = json!({
        "/a": { "get": { "operationId": "things.list" } },
        "/b": { "get": { "operationId": "things.list" } },
        "/c": { "get": { "operationId": "things.list.all" } },
        "/d": { "get": { "operationId": "things.get" } },
        "/e": { "get": { "operationId": "stuff.list" } },
        "/f": { "get": { "operationId": "stuff.list.all" } },
    });
    let mapped = small::map(paths.clone());
    insta::assert_snapshot!("shared_names", format!("{:#?}", names(&mapped)));
    // Without the other one the name is free, and only then.
    let mut alone = paths;
    alone.as_object_mut().unwrap().retain(|path, _| path == "/a" || path == "/d");
    assert_eq!(names(&small::map(alone))["GET /a"], "things.list");
}

#[test]
fn a_name_once_given_stays_with_its_operation() {
    let paths = json!({
        "/old": { "get": { "operationId": "things.list" } },
        "/new": { "get": { "operationId": "things.list" } },
        "/third": { "get": { "operationId": "gone.get" } },
        "/below": { "get": { "operationId": "things.list.more" } },
    });
    let given = [("GET /old", "things.list"), ("GET /vanished", "gone.get")];
    let given = given.map(|(origin, name)| (origin.to_owned(), name.to_owned())).into();
    let overrides = [("GET /third".to_owned(), "Not A Name".to_owned())].into();
    let options = Options { given_names: given, name_overrides: overrides, ..Options::default() };
    let mapped = small::document(paths, json!({})).map(&options);
    let names = names(&mapped);
    assert_eq!(names["GET /old"], "things.list");
    assert!(names["GET /new"].starts_with("things.list_"), "{names:?}");
    assert!(
        names["GET /third"].starts_with("gone.get_"),
        "the name of a vanished operation is not given away: {names:?}"
    );
    assert!(names["GET /below"].starts_with("things_list_more_"), "{names:?}");
    assert_eq!(mapped.offer.warnings.len(), 1, "{:?}", mapped.offer.warnings);
}

#[test]
fn the_operators_name_wins() {
    let paths = json!({ "/a": { "get": { "operationId": "things.list" } }, "/b": { "get": { "operationId": "things.get" } } });
    let overrides = [("GET /a".to_owned(), "things.get".to_owned())].into();
    let options = Options { name_overrides: overrides, ..Options::default() };
    let mapped = small::document(paths, json!({})).map(&options);
    assert_eq!(names(&mapped)["GET /a"], "things.get");
    assert!(names(&mapped)["GET /b"].starts_with("things.get_"));
}

#[test]
fn arguments_of_one_name_in_several_places_are_told_apart() {
    let parameters = json!([
        { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
        { "name": "id", "in": "query", "schema": { "type": "string" } },
        { "name": "body", "in": "query", "schema": { "type": "string" } },
        { "name": "query_id", "in": "header", "schema": { "type": "string" } },
    ]);
    let body = json!({ "required": true, "content": { "application/json": { "schema": { "type": "object", "properties": { "id": {} } } } } });
    let mapped =
        small::map(json!({ "/x/{id}": { "post": { "parameters": parameters, "requestBody": body } } }));
    let arguments = json!({ "path_id": "p", "query_query_id": "q", "query_body": "b", "query_id": "h", "body": { "id": 1 } });
    let request = small::only(&mapped).request(&arguments).unwrap();
    assert_eq!(request.url, "https://api.example/v1/x/p?id=q&body=b");
    assert_eq!(request.header("query_id"), Some("h"));
    assert_eq!(request.body.as_deref(), Some(&br#"{"id":1}"#[..]));
    insta::assert_snapshot!("arguments", shown(&mapped));
}

fn pet_schemas() -> Value {
    json!({ "schemas": {
        "Pet": {
            "type": "object", "required": ["id", "name", "owner"], "xml": { "name": "pet" }, "example": { "id": 1 },
            "properties": {
                "id": { "type": "integer", "format": "int64", "readOnly": true },
                "secret": { "type": "string", "writeOnly": true },
                "name": { "type": "string", "nullable": true, "pattern": "^[a-z]+$", "default": "rex" },
                "kind": { "enum": ["cat", "dog"], "type": "string", "nullable": true },
                "weight": { "type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false },
                "owner": { "$ref": "#/components/schemas/Owner" },
                "friend": { "nullable": true, "allOf": [{ "$ref": "#/components/schemas/Pet" }] },
                "example": { "type": "string", "description": "a property may be called so" },
                "broken": { "type": "strnig", "pattern": "(", "minLength": -1, "required": true, "items": 5 },
                "lost": { "$ref": "#/components/schemas/Missing" },
                "elsewhere": { "$ref": "other.yaml#/Pet" },
            },
            "discriminator": { "propertyName": "kind" },
        },
        "Owner": { "type": "object", "properties": { "pets": { "type": "array", "items": { "$ref": "#/components/schemas/Pet" } } } },
    } })
}

#[test]
fn schemas_become_json_schema_with_definitions() {
    let pet = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } });
    let operation = json!({
        "summary": "Create a pet", "requestBody": { "required": true, "content": pet },
        "responses": { "201": { "content": pet }, "400": { "content": {} } },
    });
    let mapped =
        small::document(json!({ "/pets": { "post": operation } }), pet_schemas()).map(&Options::default());
    insta::assert_snapshot!("schemas", shown(&mapped));
}

#[test]
fn schemas_of_3_1_keep_their_keywords() {
    let schema = json!({
        "type": ["object", "null"], "properties": {
            "either": { "$ref": "#/components/schemas/Name", "maxLength": 5 },
            "fixed": { "const": 1 }, "tuple": { "prefixItems": [{ "type": "string" }] },
            "above": { "exclusiveMinimum": 3 }, "upload": { "contentMediaType": "image/png" },
        },
        "unevaluatedProperties": false, "$schema": "https://example/other", "$id": "https://example/id",
    });
    let operation = json!({ "requestBody": { "content": { "multipart/form-data": { "schema": schema } } } });
    let components = json!({ "schemas": { "Name": { "type": "string", "minLength": 1 } } });
    let mapped = small::versioned("3.1.0", json!({ "/x": { "post": operation } }), components)
        .map(&Options::default());
    insta::assert_snapshot!("schemas_of_3_1", shown(&mapped));
}

#[test]
fn what_cannot_be_called_is_listed_with_its_reason_and_costs_nothing_else() {
    let mapped = small::map(json!({
        "/ok": { "get": {}, "head": {}, "options": {}, "trace": {} },
        "/#Action=Delete": { "get": {} },
        "/x?y": { "get": {} },
        "/a/../b": { "get": {} },
        "/open/{id": { "get": {} },
        "/param": { "get": { "parameters": [{ "$ref": "#/nowhere" }] } },
        "/unplaced": { "get": { "parameters": [{ "name": "a" }] } },
        "/body": { "post": { "requestBody": { "$ref": "other.json#/body" } } },
        "/item": { "$ref": "paths.yaml#/item" },
        "/odd": { "get": "not an operation", "servers": 5 },
        "/elsewhere": { "get": { "servers": [{ "url": "https://evil.example" }] } },
        "/relative": { "get": { "servers": [{ "url": "/v2" }] } },
    }));
    insta::assert_snapshot!("unmapped", format!("{:#?}\n{:#?}", names(&mapped), mapped.offer.unmapped));
}

#[test]
fn a_default_of_the_upstream_is_told_and_never_sent() {
    let schema =
        json!({ "type": "object", "properties": { "private": { "type": "boolean", "default": false } } });
    let operation = json!({
        "parameters": [{ "name": "page", "in": "query", "description": "Which page.", "schema": { "type": "integer", "default": 1 } }],
        "requestBody": { "content": { "application/json": { "schema": schema } } },
    });
    let mapped = small::map(json!({ "/x": { "patch": operation } }));
    let input = &mapped.offer.tools[0].input_schema.to_value();
    assert!(!input.to_string().contains("\"default\""), "{input}");
    assert_eq!(input["properties"]["page"]["description"], "Which page. Default: 1.");
    assert_eq!(input["properties"]["body"]["properties"]["private"]["description"], "Default: false.");
}

/// A schema of an object with this many described properties.
fn large(properties: usize, description: usize) -> Value {
    let properties: Value = (0..properties)
        .map(|at| {
            (format!("property_{at:04}"), json!({ "type": "string", "description": "x".repeat(description) }))
        })
        .collect();
    json!({ "type": "object", "properties": properties })
}

#[test]
fn large_inputs_lose_descriptions_before_they_lose_the_body() {
    let input = |properties, description| {
        let content = json!({ "application/json": { "schema": large(properties, description) } });
        let mapped = small::map(json!({ "/x": { "post": { "requestBody": { "content": content } } } }));
        mapped.offer.tools[0].input_schema.to_value()["properties"]["body"].clone()
    };
    assert!(input(50, 150).to_string().contains(&"x".repeat(150)), "small: as it is");
    let brief = input(50, 1000);
    assert!(brief.to_string().contains("x…") && !brief.to_string().contains(&"x".repeat(150)), "shortened");
    let bare = input(400, 200);
    assert!(
        bare["properties"]["property_0399"].is_object() && !bare.to_string().contains("xx"),
        "without descriptions"
    );
    assert_eq!(input(5000, 10), json!({}), "any body");
}

#[test]
fn output_schemas_are_left_out_where_they_are_large() {
    let output = |properties| {
        let content = json!({ "application/json": { "schema": large(properties, 0) } });
        let mapped =
            small::map(json!({ "/x": { "get": { "responses": { "200": { "content": content } } } } }));
        mapped.offer.tools[0].output_schema.as_ref().map(CompactJson::to_value)
    };
    assert!(output(100).unwrap().to_string().len() <= MAX_OUTPUT_BYTES);
    assert_eq!(output(2000), None);
}

#[test]
fn only_a_key_that_must_be_given_makes_a_write_idempotent() {
    let effects = |required: bool| {
        let key = json!({ "name": "Idempotency-Key", "in": "header", "required": required, "schema": {} });
        let mapped = small::map(json!({ "/x": { "post": { "parameters": [key] } } }));
        assert_eq!(small::only(&mapped).idempotency_header(), Some("Idempotency-Key"));
        mapped.offer.tools[0].effects
    };
    assert!(effects(true).idempotent && effects(true).destructive);
    assert!(!effects(false).idempotent);
}

#[test]
fn an_agent_is_told_which_property_tells_the_variants_of_a_choice_apart() {
    let pet = |name: &str| json!({ "type": "object", "required": ["kind"], "properties": { "kind": { "type": "string" }, name: {} } });
    let choice = json!({
        "description": "A pet.",
        "oneOf": [{ "$ref": "#/components/schemas/Cat" }, { "$ref": "#/components/schemas/Dog" }],
        "discriminator": { "propertyName": "kind", "mapping": { "meows": "#/components/schemas/Cat", "barks": "#/components/schemas/Dog" } },
    });
    let content = json!({ "application/json": { "schema": choice } });
    let paths = json!({ "/pets": { "post": { "requestBody": { "content": content } } } });
    let components = json!({ "schemas": { "Cat": pet("lives"), "Dog": pet("tricks") } });
    let mapped = small::document(paths, components).map(&Options::default());
    let body = &mapped.offer.tools[0].input_schema.to_value()["properties"]["body"];
    assert_eq!(
        body["description"],
        "A pet. `kind` says which variant it is: `barks` is Dog, `meows` is Cat."
    );
    assert!(body.get("discriminator").is_none(), "no keyword of JSON Schema");
}

#[test]
fn yaml_words_stay_words() {
    let text = "openapi: 3.0.0\nservers: [{url: 'https://api.example'}]\npaths:\n  /x:\n    get:\n      parameters:\n        - {name: y, in: query, required: yes, schema: {type: string, enum: [x, y, no, on]}}\n      responses:\n        200: {description: ok}\n";
    let mapped =
        countersign_sources::openapi::Document::parse(text.as_bytes()).unwrap().map(&Options::default());
    assert_eq!(
        mapped.offer.tools[0].input_schema.to_value()["properties"]["y"]["enum"],
        json!(["x", "y", "no", "on"])
    );
}
