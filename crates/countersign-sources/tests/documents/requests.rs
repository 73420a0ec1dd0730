//! Requests, byte for byte against those of swagger-client's `buildRequest`, an independent implementation.

use std::collections::BTreeMap;

use countersign_sources::HttpRequest;
use countersign_sources::openapi::Document;
use serde_json::{Value, json};

use crate::generated;
use crate::npm;
use crate::published::{at, openshift_text};

/// Builds each request with swagger-client. References of parameters are resolved first, because it is given one operation.
const PROGRAM: &str = include_str!("node/build_requests.cjs");

/// How many operations of a document are compared.
const SAMPLE: usize = 100;

#[test]
fn a_hundred_requests_to_github_are_those_of_another_implementation() {
    let text = String::from_utf8(npm::read("@octokit/openapi/generated/api.github.com.json")).unwrap();
    compare(&text, "https://api.github.com");
}

#[test]
fn a_hundred_requests_to_openshift_are_those_of_another_implementation() {
    compare(&openshift_text(), "https://openshift.example");
}

fn compare(text: &str, server: &str) {
    let mapped = Document::parse(text.as_bytes()).unwrap().map(&at(server));
    let stride = mapped.offer.tools.len() / (SAMPLE + SAMPLE / 2);
    let mut ours: BTreeMap<String, HttpRequest> = BTreeMap::new();
    let mut asked = Vec::new();
    for tool in mapped.offer.tools.iter().step_by(stride) {
        let Some(arguments) = generated::arguments(&tool.input_schema) else { continue };
        let (method, path) = tool.origin.split_once(' ').unwrap();
        // A body on GET or DELETE, and values that themselves have slashes, are told apart below.
        asked.push(json!({ "origin": tool.origin, "method": method.to_lowercase(), "path": path, "arguments": arguments }));
        let request = mapped.operations[&tool.name].request(&arguments).unwrap();
        ours.insert(tool.origin.clone(), request);
        if asked.len() == SAMPLE {
            break;
        }
    }
    assert_eq!(asked.len(), SAMPLE, "enough operations have generated arguments");
    let document: Value = serde_json::from_str(text).unwrap();
    let input = json!({ "document": document, "server": server, "asked": asked }).to_string();
    let theirs: Vec<Value> = serde_json::from_str(&npm::node(PROGRAM, &input)).unwrap();
    for their in theirs {
        let origin = their["origin"].as_str().unwrap();
        let our = &ours[origin];
        assert_eq!(our.method, their["method"].as_str().unwrap(), "{origin}");
        assert_eq!(our.url, their["url"].as_str().unwrap(), "{origin}");
        let body = our.body.as_ref().map(|body| String::from_utf8(body.clone()).unwrap());
        match (body, their["body"].as_str()) {
            // The order of members is no part of JSON; everything else is.
            (Some(our_body), Some(their_body)) if our.header("content-type").unwrap().contains("json") => {
                let canonical = |text: &str| {
                    let read = serde_json::from_str::<Value>(text);
                    read.unwrap_or_else(|error| panic!("{origin}: {error}: {text} {our_body}")).to_string()
                };
                assert_eq!(our_body, canonical(their_body), "{origin}");
            }
            (our_body, their_body) => assert_eq!(our_body.as_deref(), their_body, "{origin}"),
        }
        for (name, value) in their["headers"].as_object().unwrap() {
            assert_eq!(our.header(name), value.as_str(), "{origin}: {name}");
        }
    }
}
