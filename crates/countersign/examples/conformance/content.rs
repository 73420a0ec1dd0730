//! What the suite wants to read and see, word for word: prompts, resources, and content that is no text.

use serde_json::{Value, json};

/// One red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
/// No sound at all.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
/// How long a client may keep a list, in milliseconds.
const FRESH_MS: u64 = 1_000;

/// The result of a tool that answers with content, if it is one.
pub(crate) fn of_tool(name: &str) -> Option<Value> {
    let content = match name {
        "test_image_content" => json!([image()]),
        "test_audio_content" => json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]),
        "test_embedded_resource" => json!([resource(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content."
        )]),
        "test_multiple_content_types" => json!([
            text("Multiple content types test:"),
            image(),
            resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ]),
        "json_schema_2020_12_tool" => json!([text("Fits")]),
        _ => return None,
    };
    Some(json!({ "content": content }))
}

/// A text.
pub(crate) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The input of `json_schema_2020_12_tool`, with every keyword that a listing must keep.
pub(crate) fn every_keyword() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}

/// `prompts/list`.
pub(crate) fn prompts() -> Value {
    let argument = |name: &str| json!({ "name": name, "description": "A test argument", "required": true });
    fresh(json!({ "prompts": [
        { "name": "test_simple_prompt", "description": "Without arguments" },
        { "name": "test_prompt_with_arguments", "description": "With two", "arguments": [argument("arg1"), argument("arg2")] },
        { "name": "test_prompt_with_embedded_resource", "description": "With a resource", "arguments": [argument("resourceUri")] },
        { "name": "test_prompt_with_image", "description": "With an image" },
        { "name": "test_input_required_result_prompt", "description": "Asks for context first" },
    ] }))
}

/// `prompts/get`, if there is such a prompt. `argument` gives what the client filled in.
pub(crate) fn prompt(name: &str, argument: impl Fn(&str) -> String) -> Option<Value> {
    let said = |content: Value| json!({ "role": "user", "content": content });
    let messages = match name {
        "test_simple_prompt" => json!([said(text("This is a simple prompt for testing."))]),
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            json!([said(text(&format!("Prompt with arguments: arg1='{first}', arg2='{second}'")))])
        }
        "test_prompt_with_embedded_resource" => json!([
            said(resource(&argument("resourceUri"), "text/plain", "Embedded resource content for testing.")),
            said(text("Please process the embedded resource above.")),
        ]),
        "test_prompt_with_image" => {
            json!([said(image()), said(text("Please analyze the image above."))])
        }
        _ => return None,
    };
    Some(json!({ "messages": messages }))
}

/// `resources/list`.
pub(crate) fn resources() -> Value {
    let described = |uri: &str, mime: &str| json!({ "uri": uri, "name": uri, "description": "A test resource", "mimeType": mime });
    fresh(json!({ "resources": [
        described("test://static-text", "text/plain"),
        described("test://static-binary", "image/png"),
        described("test://watched-resource", "text/plain"),
    ] }))
}

/// `resources/templates/list`.
pub(crate) fn templates() -> Value {
    fresh(json!({ "resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "A test template",
        "mimeType": "application/json",
    }] }))
}

/// `resources/read`, if there is such a resource.
pub(crate) fn read(uri: &str) -> Option<Value> {
    let contents = match uri {
        "test://static-text" => {
            json!({ "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource." })
        }
        "test://static-binary" => json!({ "uri": uri, "mimeType": "image/png", "blob": PNG }),
        "test://watched-resource" => json!({ "uri": uri, "mimeType": "text/plain", "text": "Watched." }),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            json!({ "uri": uri, "mimeType": "application/json", "text": data.to_string() })
        }
    };
    Some(fresh(json!({ "contents": [contents] })))
}

fn fresh(mut result: Value) -> Value {
    result["ttlMs"] = json!(FRESH_MS);
    result["cacheScope"] = json!("private");
    result
}

fn image() -> Value {
    json!({ "type": "image", "data": PNG, "mimeType": "image/png" })
}

fn resource(uri: &str, mime: &str, text: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": mime, "text": text } })
}
