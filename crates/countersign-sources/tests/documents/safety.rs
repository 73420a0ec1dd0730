//! What no argument and no document can do: leave its segment, set the connection's headers, choose the host.

use countersign_sources::RequestError;
use countersign_sources::openapi::{Document, MAX_DOCUMENT_BYTES, MAX_OPERATIONS, Options};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::small;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_path_argument_never_escapes_its_segment(one in ".*", two in r"[./\\%2eE?#;@:a]{0,6}") {
        let mapped = small::map(json!({ "/a/{one}/b{two}c/{one}{two}": { "get": {} } }));
        let request = small::only(&mapped).request(&json!({ "one": one, "two": two }));
        if let Ok(request) = request {
            let url = url::Url::parse(&request.url).unwrap();
            prop_assert_eq!(url.host_str(), Some("api.example"));
            prop_assert!(url.query().is_none() && url.fragment().is_none());
            let segments: Vec<_> = url.path_segments().unwrap().collect();
            prop_assert_eq!(segments.len(), 5, "{}", request.url);
            prop_assert_eq!((segments[0], segments[1]), ("v1", "a"));
            let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
            prop_assert_eq!(decoded(segments[2]), one.clone());
            prop_assert_eq!(decoded(segments[3]), format!("b{two}c"));
            prop_assert_eq!(decoded(segments[4]), format!("{one}{two}"));
        } else {
            let whole = format!("{one}{two}");
            let is_dots = |text: &str| matches!(text, "" | "." | "..");
            prop_assert!(is_dots(&one) || is_dots(&two) || is_dots(&whole), "refused {:?} {:?}", one, two);
        }
    }

    #[test]
    fn a_query_argument_never_becomes_another_parameter(value in ".*") {
        for reserved in [false, true] {
            let parameter = json!({ "name": "q", "in": "query", "allowReserved": reserved, "schema": {} });
            let mapped = small::map(json!({ "/x": { "get": { "parameters": [parameter] } } }));
            let request = small::only(&mapped).request(&json!({ "q": value })).unwrap();
            let url = url::Url::parse(&request.url).unwrap();
            let pairs: Vec<_> = url.query_pairs().collect();
            prop_assert_eq!(pairs.len(), 1);
            prop_assert_eq!(&pairs[0].1, &value);
            prop_assert!(url.fragment().is_none());
        }
    }
}

#[test]
fn dots_and_nothing_are_refused_in_a_path() {
    let mapped = small::map(json!({ "/repos/{name}/x": { "get": {} } }));
    for value in [json!("."), json!(".."), json!(""), Value::Null, json!([])] {
        let refused = small::only(&mapped).request(&json!({ "name": value }));
        let names_it = matches!(&refused, Err(RequestError::Unusable { argument, .. }) if argument == "name");
        assert!(names_it, "{value}: {refused:?}");
    }
    let fine = small::only(&mapped).request(&json!({ "name": "..." })).unwrap();
    assert_eq!(fine.url, "https://api.example/v1/repos/.../x");
}

#[test]
fn a_parameter_of_several_segments_keeps_its_slashes_and_nothing_else() {
    let parameter =
        json!({ "name": "path", "in": "path", "required": true, "x-multi-segment": true, "schema": {} });
    let mapped = small::map(json!({ "/contents/{path}": { "get": { "parameters": [parameter] } } }));
    let request = |path: &str| small::only(&mapped).request(&json!({ "path": path }));
    assert_eq!(request("src/a b/main.rs").unwrap().url, "https://api.example/v1/contents/src/a%20b/main.rs");
    for path in ["../x", "a/../b", "a//b", "/a", "a/", "./a", ""] {
        assert!(request(path).is_err(), "{path}");
    }
}

#[test]
fn no_argument_sets_a_header_of_the_connection_or_a_credential() {
    let names = [
        "Host",
        "Cookie",
        "connection",
        "Transfer-Encoding",
        "Content-Length",
        "Authorization",
        "Accept",
        "Content-Type",
        "Upgrade",
        "TE",
    ];
    let parameters: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "in": "header", "required": true, "schema": {} }))
        .collect();
    let mapped = small::map(json!({ "/x": { "get": { "parameters": parameters } } }));
    assert_eq!(mapped.offer.tools[0].input_schema.to_value()["properties"], json!({}));
    let arguments: Value = names.iter().map(|name| ((*name).to_owned(), json!("evil"))).collect();
    let request = small::only(&mapped).request(&arguments).unwrap();
    assert_eq!(request.headers.len(), 1, "{:?}", request.headers);
    assert_eq!(request.header("accept"), Some("application/json, */*;q=0.5"));
}

#[test]
fn a_header_value_cannot_hold_another_header() {
    let parameter = json!({ "name": "X-Note", "in": "header", "schema": {} });
    let mapped = small::map(json!({ "/x": { "get": { "parameters": [parameter] } } }));
    for value in ["a\r\nHost: evil", "a\nb", "nul\0", "ümlaut"] {
        assert!(small::only(&mapped).request(&json!({ "X-Note": value })).is_err(), "{value:?}");
    }
}

#[test]
fn what_a_security_scheme_sends_is_no_argument() {
    let parameters = json!([
        { "name": "X-API-KEY", "in": "header", "schema": {} },
        { "name": "key", "in": "query", "schema": {} },
        { "name": "q", "in": "query", "schema": {} },
    ]);
    let schemes = json!({ "securitySchemes": {
        "header": { "type": "apiKey", "in": "header", "name": "x-api-key" },
        "query": { "type": "apiKey", "in": "query", "name": "key" },
        "login": { "type": "oauth2", "flows": { "authorizationCode": {
            "authorizationUrl": "https://id.example/authorize", "tokenUrl": "https://id.example/token",
            "scopes": { "read": "", "unused": "" } } } },
    } });
    let operation = json!({ "parameters": parameters, "security": [{ "header": [], "query": [] }, { "login": ["read"] }] });
    let mapped = small::document(json!({ "/x": { "get": operation } }), schemes).map(&Options::default());
    let input = mapped.offer.tools[0].input_schema.to_value();
    let properties = input["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["q"]);
    insta::assert_snapshot!("proposed_credentials", format!("{:#?}", mapped.security));
}

#[test]
fn the_operator_chooses_the_server_and_its_variables() {
    let whole = json!({
        "openapi": "3.0.0", "info": {},
        "servers": [{ "url": "https://{region}.example/{version}", "variables": { "region": { "default": "eu" }, "version": { "default": "v1" } } }],
        "paths": { "/x": { "get": {} } },
    });
    let document = Document::parse(whole.to_string().as_bytes()).unwrap();
    let url = |options: &Options| small::only(&document.map(options)).request(&json!({})).unwrap().url;
    assert_eq!(url(&Options::default()), "https://eu.example/v1/x");
    let chosen = Options { variables: [("region".to_owned(), "us".to_owned())].into(), ..Options::default() };
    assert_eq!(url(&chosen), "https://us.example/v1/x");
    let own = Options { server: Some("http://127.0.0.1:8080/base/".into()), ..Options::default() };
    assert_eq!(url(&own), "http://127.0.0.1:8080/base/x");
}

#[test]
fn without_a_usable_server_everything_is_listed_with_the_reason() {
    for server in [
        "ftp://x.example",
        "https://user:secret@x.example",
        "https://x.example/?a=b",
        "/relative",
        "https://{region}.example",
    ] {
        let options = Options { server: Some(server.into()), ..Options::default() };
        let mapped = small::document(json!({ "/x": { "get": {} } }), json!({})).map(&options);
        assert!(mapped.offer.tools.is_empty(), "{server}");
        assert_eq!(mapped.offer.unmapped.len(), 1);
        assert!(mapped.offer.unmapped[0].reason.contains("the server"), "{:?}", mapped.offer.unmapped);
    }
}

#[test]
fn a_document_past_its_bounds_is_refused_with_a_code() {
    let code = |bytes: &[u8]| Document::parse(bytes).unwrap_err().code();
    assert_eq!(code(&vec![b' '; MAX_DOCUMENT_BYTES + 1]), "document_too_large");
    assert_eq!(code(&vec![b' '; MAX_DOCUMENT_BYTES]), "document_version");
    let nested = |levels: usize| {
        format!("{{\"openapi\":\"3.0.0\",\"info\":{}1{}}}", "[".repeat(levels), "]".repeat(levels))
    };
    assert!(Document::parse(nested(119).as_bytes()).is_ok());
    assert_eq!(code(nested(120).as_bytes()), "document_too_deep");
    assert_eq!(code(nested(100_000).as_bytes()), "document_too_deep");
    let paths = |count: usize| {
        let paths: Value = (0..count).map(|at| (format!("/p{at}"), json!({ "get": {} }))).collect();
        json!({ "openapi": "3.0.0", "paths": paths }).to_string()
    };
    assert!(Document::parse(paths(MAX_OPERATIONS).as_bytes()).is_ok());
    assert_eq!(code(paths(MAX_OPERATIONS + 1).as_bytes()), "document_too_many_operations");
    assert_eq!(code(b"{\"openapi\": \"4.0\"}"), "document_version");
    assert_eq!(code(b"{\"openapi\": "), "document_syntax");
    assert_eq!(code(b"a: [b"), "document_syntax");
}

#[test]
fn yaml_nested_or_aliased_without_end_is_refused() {
    let deep = format!("openapi: 3.0.0\ninfo: {}", "[".repeat(100_000));
    assert!(Document::parse(deep.as_bytes()).is_err());
    let mut bomb = String::from("openapi: 3.0.0\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let previous = vec![format!("*a{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{previous}]\n"));
    }
    assert!(Document::parse(bomb.as_bytes()).is_err());
}

#[test]
fn a_schema_that_contains_itself_in_place_does_not_hang_the_validator() {
    let schemas = json!({ "schemas": {
        "Loop": { "allOf": [{ "$ref": "#/components/schemas/Loop" }, { "type": "object" }] },
        "Ping": { "anyOf": [{ "$ref": "#/components/schemas/Pong" }] },
        "Pong": { "anyOf": [{ "$ref": "#/components/schemas/Ping" }] },
        "Self": { "$ref": "#/components/schemas/Self" },
        "Tree": { "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#/components/schemas/Tree" } } } },
    } });
    for name in ["Loop", "Ping", "Self", "Tree"] {
        let content =
            json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{name}") } } });
        let paths = json!({ "/x": { "post": { "requestBody": { "content": content } } } });
        let mapped = small::document(paths, schemas.clone()).map(&Options::default());
        let validator = jsonschema::draft202012::new(&mapped.offer.tools[0].input_schema.to_value()).unwrap();
        assert!(validator.is_valid(&json!({ "body": { "children": [{ "children": [] }] } })), "{name}");
        // Validators of clients may be less patient than ours: the circle itself is gone, the tree is not.
        let definition = &mapped.offer.tools[0].input_schema.to_value()["$defs"][name];
        let stays = definition.to_string().contains("#/$defs/");
        assert_eq!(stays, matches!(name, "Ping" | "Tree"), "{name}: {definition}");
    }
}
