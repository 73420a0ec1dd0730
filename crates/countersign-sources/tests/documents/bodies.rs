//! Bodies of every kind, byte for byte.

use countersign_sources::openapi::MAX_FILE_BYTES;
use serde_json::{Value, json};

use crate::small::{self, send};

fn content(media: &str, schema: Value) -> Value {
    json!({ "required": true, "content": { media: { "schema": schema } } })
}

fn text(body: Option<Vec<u8>>) -> String {
    String::from_utf8(body.unwrap()).unwrap()
}

#[test]
fn json_is_preferred_and_sent_whole() {
    let body = json!({ "content": { "text/xml": {}, "application/x-www-form-urlencoded": {}, "application/json": {} } });
    let request = send(body, json!({ "a": [1, null, { "b": "ü" }] }));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(text(request.body), r#"{"a":[1,null,{"b":"ü"}]}"#);
}

#[test]
fn a_form_nests_where_its_encoding_says_deep_object() {
    let body = json!({ "content": { "application/x-www-form-urlencoded": {
        "schema": { "type": "object", "properties": { "expand": {}, "metadata": {}, "items": {}, "amount": {}, "tags": {}, "raw": {} } },
        "encoding": {
            "expand": { "style": "deepObject", "explode": true },
            "metadata": { "style": "deepObject", "explode": true },
            "items": { "style": "deepObject", "explode": true },
        },
    } } });
    let value = json!({
        "amount": 5, "expand": ["a", "b c"], "items": [{ "price": "p1" }, { "price": "p2" }],
        "metadata": { "k&1": "v" }, "raw": { "x": 1 }, "tags": ["t1", "t2"],
    });
    let request = send(body, value);
    assert_eq!(request.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(
        text(request.body),
        "amount=5&expand%5B%5D=a&expand%5B%5D=b+c&items%5B0%5D%5Bprice%5D=p1&items%5B1%5D%5Bprice%5D=p2\
         &metadata%5Bk%261%5D=v&raw=%7B%22x%22%3A1%7D&tags=t1&tags=t2"
    );
}

#[test]
fn a_multipart_body_has_files_texts_and_json_and_the_same_bytes_each_time() {
    let schema = json!({ "type": "object", "properties": {
        "file": { "type": "string", "format": "binary" }, "note": { "type": "string" },
        "meta": { "type": "object" }, "more": { "type": "array", "items": { "type": "string", "format": "binary" } },
    } });
    let value = json!({
        "file": { "base64": "aGk=", "filename": "a\"\r\nX: y.txt", "contentType": "text/plain" },
        "meta": { "k": 1 }, "more": [{ "base64": "MQ==" }, { "base64": "Mg==" }], "note": "hello",
    });
    let request = send(content("multipart/form-data", schema.clone()), value.clone());
    let again = send(content("multipart/form-data", schema), value);
    assert_eq!(request, again);
    let boundary =
        request.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let shown = String::from_utf8(request.body.clone().unwrap())
        .unwrap()
        .replace(boundary, "BOUNDARY")
        .replace("\r\n", "\n");
    insta::assert_snapshot!("multipart", shown);
}

#[test]
fn a_boundary_that_stands_in_a_file_is_not_used() {
    let schema = json!({ "type": "object", "properties": { "note": { "type": "string" } } });
    let first = send(content("multipart/form-data", schema.clone()), json!({ "note": "x" }));
    let boundary = first.header("content-type").unwrap().split("boundary=").nth(1).unwrap().to_owned();
    let request = send(content("multipart/form-data", schema), json!({ "note": format!("--{boundary}--") }));
    let other = request.header("content-type").unwrap().split("boundary=").nth(1).unwrap().to_owned();
    assert_eq!(text(request.body).matches(&other).count(), 2);
}

#[test]
fn bytes_and_text_are_sent_as_they_are() {
    let file = send(
        content("application/octet-stream", json!({ "type": "string", "format": "binary" })),
        json!({ "base64": "AAH/" }),
    );
    assert_eq!(file.body, Some(vec![0, 1, 255]));
    assert_eq!(file.header("content-type"), Some("application/octet-stream"));
    let image = send(content("image/*", json!({})), json!({ "base64": "AAH/", "contentType": "image/png" }));
    assert_eq!(image.header("content-type"), Some("image/png"));
    let xml = send(content("application/xml", json!({ "type": "object" })), json!("<a/>"));
    assert_eq!(
        (xml.header("content-type"), text(xml.body.clone())),
        (Some("application/xml"), "<a/>".to_owned())
    );
}

#[test]
fn a_file_is_bounded_and_must_be_base64_with_a_media_type() {
    let mapped = small::map(
        json!({ "/send": { "post": { "requestBody": content("application/octet-stream", json!({})) } } }),
    );
    let request = |file: Value| small::only(&mapped).request(&json!({ "body": file }));
    let of = |bytes: usize| json!({ "base64": base64(bytes) });
    assert!(request(of(MAX_FILE_BYTES)).is_ok());
    assert!(request(of(MAX_FILE_BYTES + 1)).is_err());
    for file in
        [json!("plain"), json!({ "base64": "%%%" }), json!({ "base64": "", "contentType": "a/b\r\nX: y" })]
    {
        assert!(request(file.clone()).is_err(), "{file}");
    }
}

fn base64(bytes: usize) -> String {
    let rest = ["", "AA==", "AAA="][bytes % 3];
    format!("{}{rest}", "AAAA".repeat(bytes / 3))
}

#[test]
fn swagger2_forms_are_bodies_too() {
    let form = |consumes: &str, parameters: Value| {
        let operation = json!({ "consumes": [consumes], "parameters": parameters });
        small::swagger2(json!({ "/send": { "post": operation } })).map(&Default::default())
    };
    let fields = json!([
        { "name": "tags", "in": "formData", "type": "array", "items": { "type": "string" }, "required": true },
        { "name": "note", "in": "formData", "type": "string" },
    ]);
    let mapped = form("application/x-www-form-urlencoded", fields);
    let request =
        small::only(&mapped).request(&json!({ "body": { "tags": ["a", "b"], "note": "x y" } })).unwrap();
    assert_eq!(text(request.body), "note=x+y&tags=a%2Cb");
    let upload = form(
        "multipart/form-data",
        json!([{ "name": "file", "in": "formData", "type": "file", "required": true }]),
    );
    let file = &upload.offer.tools[0].input_schema.to_value()["properties"]["body"]["properties"]["file"];
    assert_eq!(file["required"], json!(["base64"]));
    let request = small::only(&upload).request(&json!({ "body": { "file": { "base64": "aGk=" } } })).unwrap();
    assert!(
        text(request.body)
            .contains("filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\nhi\r\n")
    );
}

#[test]
fn a_form_without_fields_is_no_body() {
    let empty = json!({ "content": { "application/x-www-form-urlencoded": { "schema": { "type": "object", "properties": {} } } } });
    let mapped = small::map(json!({ "/x": { "get": { "requestBody": empty } } }));
    assert_eq!(small::only(&mapped).request(&json!({})).unwrap().body, None);
    assert_eq!(mapped.offer.tools[0].input_schema.to_value()["properties"], json!({}));
}
