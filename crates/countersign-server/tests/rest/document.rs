//! The OpenAPI document: that it says what is served, and that nobody changes it unawares.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::house::{House, Who};

/// Set it to write the golden file anew.
const UPDATE: &str = "COUNTERSIGN_UPDATE_GOLDEN";

fn document() -> Value {
    serde_json::from_str(countersign_server::openapi()).unwrap()
}

#[test]
fn the_golden_file_is_the_document() {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let now = format!("{}\n", countersign_server::openapi().trim_end());
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&golden, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&golden).unwrap_or_default();
    assert!(
        kept == now,
        "the API changed; look at it, then run with {UPDATE}=1 and commit docs/openapi.json"
    );
}

#[tokio::test]
async fn the_document_is_served_to_everybody() {
    let house = House::open().await;
    let answer = house.get(Who::Nobody, "/openapi.json").await;
    assert_eq!(answer.with(200), document());
    assert_eq!(answer.header("content-type"), "application/json");
}

#[test]
fn every_api_route_stands_in_the_document_and_back() {
    let described: BTreeSet<(String, String)> =
        operations(&document()).into_iter().map(|(method, path, _)| (method.to_uppercase(), path)).collect();
    let served: BTreeSet<(String, String)> = countersign_server::routes()
        .into_iter()
        .filter(|(_, path)| path.starts_with("/api/"))
        .map(|(method, path)| (method.to_owned(), path.to_owned()))
        .collect();
    assert_eq!(described, served);
}

#[test]
fn the_document_holds_together() {
    let document = document();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."), "{}", document["openapi"]);
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut seen = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let name =
            operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no operationId"));
        assert!(seen.insert(name.to_owned()), "two operations are called {name}");
        assert!(operation["summary"].is_string(), "{method} {path} says nothing of itself");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path} never succeeds");
        assert!(responses.values().all(|response| response["description"].is_string()), "{method} {path}");
        let declared: BTreeSet<&str> = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let written: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(declared, written, "{method} {path}");
    }
    let mut references = BTreeSet::new();
    refer(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer =
            reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads out of the document"));
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for requirement in document["security"].as_array().unwrap() {
        for name in requirement.as_object().unwrap().keys() {
            assert!(document["components"]["securitySchemes"][name].is_object(), "{name}");
        }
    }
}

#[test]
fn every_answer_that_contract_md_names_is_described() {
    let document = document();
    for (path, statuses) in [("/api/elicitation/{id}/resolve", ["200", "403", "404", "409", "410", "422"])] {
        for status in statuses {
            assert!(document["paths"][path]["post"]["responses"][status].is_object(), "{path} {status}");
        }
    }
    for shape in ["ExecutionResult", "ElicitationResponse", "Problem", "Pending", "Happened"] {
        assert!(document["components"]["schemas"][shape].is_object(), "{shape}");
    }
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(["get", "post", "delete", "put", "patch"].contains(&method.as_str()), "{method} {path}");
            all.push((method.clone(), path.clone(), operation.clone()));
        }
    }
    all
}

fn refer(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| refer(item, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "$ref" => drop(found.insert(text.to_owned())),
                    _ => refer(value, found),
                }
            }
        }
        _ => {}
    }
}
