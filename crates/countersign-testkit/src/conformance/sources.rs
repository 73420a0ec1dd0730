//! Sources and what was accepted of them.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::ids::UserId;
use countersign_kernel::ports::{SourceRow, SourceToolRow, SourceWrite, Store, Write};
use countersign_sdk::PrincipalId;
use serde_json::{Value, json};

use super::subject::{at, fresh};

/// Putting a source again changes its configuration; removing it forgets what was accepted of it, and nothing else.
pub async fn a_source_is_listed_as_it_was_put_last_until_it_is_removed(store: Arc<dyn Store>) {
    let (one, other) = (source(), source());
    put(&*store, vec![SourceWrite::Put(one.clone()), SourceWrite::Put(other.clone())]).await;
    let changed = SourceRow { config: json!({ "kind": "other" }), changed_at: at(9), ..one.clone() };
    put(&*store, vec![SourceWrite::Put(changed.clone())]).await;
    assert_eq!(found(&*store, &one.name).await, [changed]);
    let accepted = [tool(&one, "a", json!(1)), tool(&other, "a", json!(2))];
    put(&*store, accepted.clone().map(SourceWrite::Accept).into()).await;
    put(&*store, vec![SourceWrite::Remove { name: one.name.clone() }]).await;
    assert_eq!(found(&*store, &one.name).await, []);
    assert_eq!(store.source_tools(&one.name).await.unwrap(), []);
    assert_eq!(found(&*store, &other.name).await, std::slice::from_ref(&other));
    assert_eq!(store.source_tools(&other.name).await.unwrap(), accepted[1..]);
    put(&*store, vec![SourceWrite::Remove { name: one.name }, SourceWrite::Remove { name: other.name }])
        .await;
}

/// One definition for each origin: the last that was accepted.
pub async fn accepting_a_definition_replaces_the_one_before_it(store: Arc<dyn Store>) {
    let source = source();
    let (old, new) = (tool(&source, "b", json!({ "v": 1 })), tool(&source, "b", json!({ "v": 2 })));
    let beside = tool(&source, "a", json!(null));
    put(&*store, [&old, &beside, &new].map(|tool| SourceWrite::Accept(tool.clone())).into()).await;
    assert_eq!(store.source_tools(&source.name).await.unwrap(), [beside.clone(), new]);
    let forget =
        |origin: &str| SourceWrite::Forget { source: source.name.clone(), origin: origin.to_owned() };
    put(&*store, vec![forget("b"), forget("never there")]).await;
    assert_eq!(store.source_tools(&source.name).await.unwrap(), [beside]);
    put(&*store, vec![forget("a")]).await;
}

async fn put(store: &dyn Store, sources: Vec<SourceWrite>) {
    store.commit(Write { sources, ..Write::default() }).await.unwrap();
}

async fn found(store: &dyn Store, name: &str) -> Vec<SourceRow> {
    let all = store.sources().await.unwrap();
    assert!(all.is_sorted_by(|a, b| a.name < b.name));
    all.into_iter().filter(|source| source.name == name).collect()
}

fn source() -> SourceRow {
    SourceRow {
        name: format!("s{}", fresh(UserId::from_random)),
        config: json!({ "kind": "mcp" }),
        changed_at: at(1),
        changed_by: PrincipalId::parse("ann").unwrap(),
    }
}

fn tool(source: &SourceRow, origin: &str, definition: Value) -> SourceToolRow {
    SourceToolRow {
        source: source.name.clone(),
        origin: origin.to_owned(),
        definition: definition.into(),
        accepted_at: at(2),
        accepted_by: None,
    }
}
