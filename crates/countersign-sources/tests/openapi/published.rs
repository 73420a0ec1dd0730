//! Published documents, whole: every operation is callable or listed, and every schema compiles.

use std::collections::BTreeMap;

use countersign_sources::openapi::{Dialect, Document, Mapped, Options};

use crate::npm;

const GITHUB: &str = "@octokit/openapi/generated/api.github.com.json";

/// Kubernetes' document is packed.
pub(crate) fn kubernetes() -> Document {
    let program = "process.stdout.write(require('zlib').gunzipSync(require('fs').readFileSync(\
                   'node_modules/kubernetes-client/lib/specs/swagger-1.13.json.gz')))";
    Document::parse(npm::node(program, "").as_bytes()).unwrap()
}

pub(crate) fn github() -> Document {
    Document::parse(&npm::read(GITHUB)).unwrap()
}

pub(crate) fn at(server: &str) -> Options {
    Options { server: Some(server.to_owned()), ..Options::default() }
}

fn assert_whole(mapped: &Mapped, operations: usize) {
    let tools = mapped.offer.tools.len();
    let unmapped = mapped.offer.unmapped.len();
    assert_eq!(tools + unmapped, operations, "every operation is a tool or listed");
    assert!(unmapped * 100 <= operations, "at most 1 % unmapped: {:#?}", mapped.offer.unmapped);
    assert_eq!(mapped.operations.len(), tools);
    for tool in &mapped.offer.tools {
        jsonschema::draft202012::new(&tool.input_schema)
            .unwrap_or_else(|error| panic!("{}: {error}", tool.name));
        if let Some(output) = &tool.output_schema {
            jsonschema::draft202012::new(output).unwrap_or_else(|error| panic!("{}: {error}", tool.name));
        }
    }
    assert_names(mapped);
}

fn assert_names(mapped: &Mapped) {
    let names: BTreeMap<&str, &str> =
        mapped.offer.tools.iter().map(|tool| (tool.name.as_str(), tool.origin.as_str())).collect();
    assert_eq!(names.len(), mapped.offer.tools.len(), "names are unique");
    for name in names.keys() {
        countersign_sdk::ToolPath::parse(&format!("source.{name}")).unwrap();
        for (at, _) in name.match_indices('.') {
            assert!(!names.contains_key(&name[..at]), "{name} stands below a tool");
        }
    }
}

#[test]
fn every_operation_of_github_is_callable_or_listed() {
    let document = github();
    assert_eq!(document.dialect(), Dialect::OpenApi30);
    let mapped = document.map(&Options::default());
    assert_whole(&mapped, 1223);
}

#[test]
fn every_operation_of_kubernetes_is_callable_or_listed() {
    let document = kubernetes();
    assert_eq!(document.dialect(), Dialect::Swagger2);
    let mapped = document.map(&at("https://kubernetes.example"));
    assert_whole(&mapped, 1014);
}
