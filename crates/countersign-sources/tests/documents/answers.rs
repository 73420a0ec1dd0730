//! What an upstream's answer becomes.

use countersign_sources::MAX_ERROR_BODY_BYTES;
use serde_json::{Value, json};

use crate::small;

fn answer(operation: Value, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Result<Value, String> {
    let mapped = small::map(json!({ "/x": operation }));
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    small::only(&mapped).result(status, &headers, body).map_err(|error| error.to_string())
}

fn list() -> Value {
    let content = json!({ "application/json": { "schema": { "type": "array", "items": {} } } });
    json!({ "get": { "responses": { "200": { "content": content } } } })
}

const JSON: (&str, &str) = ("Content-Type", "application/vnd.api+json; charset=utf-8");

#[test]
fn json_is_a_value_text_is_text_and_bytes_are_base64() {
    let plain = || json!({ "get": {} });
    assert_eq!(answer(plain(), 200, &[JSON], br#"{"a":1}"#), Ok(json!({ "a": 1 })));
    assert_eq!(answer(plain(), 200, &[], br#"{"a":1}"#), Ok(json!({ "a": 1 })));
    assert_eq!(answer(plain(), 200, &[("content-type", "text/html")], b"<p>"), Ok(json!("<p>")));
    assert_eq!(answer(plain(), 204, &[], b""), Ok(Value::Null));
    assert_eq!(answer(plain(), 200, &[JSON], b"{broken"), Ok(json!("{broken")));
    let png = answer(plain(), 200, &[("content-type", "image/png")], &[0, 255]);
    assert_eq!(png, Ok(json!({ "base64": "AP8=", "contentType": "image/png" })));
}

#[test]
fn a_list_is_always_under_items_and_the_next_page_beside_it() {
    let link = (
        "Link",
        r#"<https://api.example/x?page=1>; rel="prev", <https://api.example/x?page=3>; title="a, b"; rel="last next""#,
    );
    let next = "https://api.example/x?page=3";
    assert_eq!(answer(list(), 200, &[JSON], b"[1]"), Ok(json!({ "items": [1] })));
    assert_eq!(answer(list(), 200, &[JSON, link], b"[1]"), Ok(json!({ "items": [1], "next": next })));
    let undeclared = || json!({ "get": {} });
    assert_eq!(answer(undeclared(), 200, &[JSON], b"[1]"), Ok(json!([1])));
    assert_eq!(answer(undeclared(), 200, &[JSON, link], b"[1]"), Ok(json!({ "items": [1], "next": next })));
    assert_eq!(answer(undeclared(), 200, &[JSON, link], br#"{"a":1}"#), Ok(json!({ "a": 1, "next": next })));
    assert_eq!(answer(undeclared(), 200, &[JSON, link], br#"{"next":2}"#), Ok(json!({ "next": 2 })));
    let mapped = small::map(json!({ "/x": list() }));
    let schema = mapped.offer.tools[0].output_schema.as_ref().unwrap().to_value();
    assert_eq!(schema["required"], json!(["items"]));
    assert!(jsonschema::draft202012::new(&schema).unwrap().is_valid(&json!({ "items": [1], "next": next })));
}

#[test]
fn an_error_has_its_status_and_a_bounded_readable_body() {
    let plain = || json!({ "get": {} });
    let failed = answer(plain(), 404, &[JSON], br#"{"message":"Not Found"}"#);
    assert_eq!(failed, Err(r#"the upstream answered 404: {"message":"Not Found"}"#.to_owned()));
    assert_eq!(answer(plain(), 500, &[], b""), Err("the upstream answered 500".to_owned()));
    let moved = answer(plain(), 302, &[("location", "http://169.254.169.254/")], b"").unwrap_err();
    assert!(moved.contains("302") && moved.contains("not followed"), "{moved}");
    let image = answer(plain(), 400, &[("content-type", "image/png")], &[0xff, 0xfe]).unwrap_err();
    assert_eq!(image, "the upstream answered 400: 2 bytes of image/png");
    let mapped = small::map(json!({ "/x": { "get": {} } }));
    for (given, kept) in
        [(MAX_ERROR_BODY_BYTES, MAX_ERROR_BODY_BYTES), (MAX_ERROR_BODY_BYTES * 9, MAX_ERROR_BODY_BYTES)]
    {
        let body = small::only(&mapped).result(500, &[], &vec![b'x'; given]).unwrap_err().body;
        assert_eq!(body.len(), kept);
    }
    let umlauts =
        small::only(&mapped).result(500, &[], "ü".repeat(MAX_ERROR_BODY_BYTES).as_bytes()).unwrap_err().body;
    assert!(umlauts.len() <= MAX_ERROR_BODY_BYTES && umlauts.ends_with('…'));
}
