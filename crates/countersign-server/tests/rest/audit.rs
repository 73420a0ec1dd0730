//! The audit, as people read it: filtered, newest first, and held against its own chain.

use countersign_core::audit::{AuditEntry, AuditRecord};
use countersign_core::bounds::MAX_AUDIT_SCAN;
use countersign_core::digest::Digest;
use countersign_kernel::ports::{Store as _, Write};
use countersign_kernel::{AuditQuery, Gateway};
use serde_json::json;

use crate::house::{House, Who};

/// Walks to the end; gives the numbers, and how many parts it took.
async fn walk(house: &House, query: &str) -> (Vec<u64>, usize) {
    let (mut found, mut cursor, mut parts) = (Vec::new(), String::new(), 0);
    loop {
        parts += 1;
        let part = house.get(Who::Approver, &format!("/api/audit?{query}{cursor}")).await.with(200);
        found.extend(part["items"].as_array().unwrap().iter().map(|record| record["seq"].as_u64().unwrap()));
        let Some(next) = part["nextCursor"].as_str() else { return (found, parts) };
        cursor = format!("&cursor={next}");
    }
}

/// The transitions of the records with some numbers.
async fn transitions(house: &House, numbers: &[u64]) -> Vec<AuditEntry> {
    let all = house.gateway.audit(0, 100_000).await.unwrap();
    let wanted = all.iter().filter(|record| numbers.contains(&record.seq));
    wanted.flat_map(|record| record.parse().unwrap()).collect()
}

#[tokio::test]
async fn the_audit_is_read_backwards_from_the_newest_without_gaps() {
    let house = House::open().await;
    for what in ["a", "b", "c"] {
        house.wants_to_destroy(what).await;
    }
    let newest = house.recorded().await;
    for limit in [1, 3, 1_000] {
        let (found, _) = walk(&house, &format!("order=desc&limit={limit}")).await;
        assert_eq!(found, (1..=newest).rev().collect::<Vec<_>>(), "{limit}");
    }
    let (forwards, _) = walk(&house, "order=asc&limit=3").await;
    assert_eq!(forwards, (1..=newest).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_audit_is_filtered_by_execution_principal_and_transition() {
    let house = House::open().await;
    let (one, other) = (house.wants_to_destroy("a").await, house.wants_to_destroy("b").await);
    house.resolve(Who::Approver, &one.elicitation, false).await.with(200);
    house.resolve(Who::Approver, &other.elicitation, false).await.with(200);
    house.end_of(&one.execution).await;

    let (of_one, _) = walk(&house, &format!("execution={}&limit=2", one.execution)).await;
    let found = transitions(&house, &of_one).await;
    let is_of_one = |entry: &AuditEntry| entry.execution.is_some_and(|id| id.to_string() == one.execution);
    assert!(found.iter().all(is_of_one), "{found:?}");
    let names: Vec<&str> = found.iter().map(|entry| &*entry.what).collect();
    assert_eq!(names, ["Started", "CallIssued", "Asked", "Decided", "CallSettled", "Finished"]);

    let approver = house.key(Who::Approver).caller.principal.id.to_string();
    let (by_approver, _) = walk(&house, &format!("by={approver}&order=desc")).await;
    assert_eq!(by_approver.len(), 2);
    let found = transitions(&house, &by_approver).await;
    let decided = found.iter().filter(|entry| entry.what == "Decided");
    assert!(
        decided.clone().count() == 2
            && found.iter().all(|entry| entry.by.is_none() || entry.what == "Decided")
    );
    assert!(decided.into_iter().all(|entry| entry.by.as_ref().is_some_and(|by| by.as_str() == approver)));
    assert!(by_approver.is_sorted_by(|a, b| a > b));

    let both = format!("by={approver}&what=Decided&execution={}", other.execution);
    assert_eq!(walk(&house, &both).await.0.len(), 1);
    assert_eq!(walk(&house, "what=Nothing").await, (vec![], 1));
}

#[tokio::test]
async fn a_record_shows_the_transitions_of_its_commit_beside_the_text_that_was_hashed() {
    let house = House::open().await;
    let waiting = house.wants_to_destroy("a").await;
    let part =
        house.get(Who::Approver, &format!("/api/audit?execution={}", waiting.execution)).await.with(200);
    let record = &part["items"][0];
    let names: Vec<&str> =
        record["transitions"].as_array().unwrap().iter().map(|of| of["what"].as_str().unwrap()).collect();
    assert_eq!(names, ["Started", "CallIssued", "Asked"]);
    let asked = &record["transitions"][2];
    assert_eq!(asked["elicitation"], json!(waiting.elicitation));
    assert_eq!(asked["execution"], json!(waiting.execution));
    assert!(asked["at"].as_str().unwrap().ends_with('Z') && asked.get("by").is_none(), "{asked}");
    let recorded = house.gateway.audit(record["seq"].as_u64().unwrap() - 1, 1).await.unwrap().remove(0);
    assert_eq!(record["entry"], json!(recorded.entry));
}

#[tokio::test]
async fn what_is_not_of_the_right_form_is_refused() {
    let house = House::open().await;
    for query in ["execution=exec_1", "execution=", "by=", "by=a%20b", "order=down", "limit=0", "limit=1001"]
    {
        house.get(Who::Approver, &format!("/api/audit?{query}")).await.refused(400, "bad_request");
    }
    for query in ["cursor=x", "cursor=-1", "cursor=1.5&order=desc"] {
        house.get(Who::Approver, &format!("/api/audit?{query}")).await.refused(400, "bad_cursor");
    }
    let before_all = house.get(Who::Approver, "/api/audit?order=desc&cursor=0").await.with(200);
    assert_eq!(before_all, json!({ "items": [], "nextCursor": null }));
    let beyond = format!("/api/audit?order=desc&limit=1&cursor={}", u64::MAX);
    let newest = house.get(Who::Approver, &beyond).await.with(200);
    assert_eq!(newest["items"][0]["seq"], house.recorded().await);
}

/// Adds so many records that nobody asks for.
async fn noise(house: &House, count: u64) {
    let now = house.gateway.now();
    for n in 0..count {
        let audit = vec![AuditEntry::bare(now, "Noise", None, format!("number {n}"))];
        house.world.disk.commit(Write { audit, ..Write::default() }).await.unwrap();
    }
}

async fn looked_at(gateway: &Gateway, query: AuditQuery) -> Option<u64> {
    gateway.audit_page(&query).await.unwrap().next
}

#[tokio::test]
async fn a_part_looks_at_a_bounded_number_of_records_and_says_where_to_go_on() {
    let house = House::open().await;
    let first = house.wants_to_destroy("first").await;
    let early = house.recorded().await;
    noise(&house, MAX_AUDIT_SCAN).await;
    house.wants_to_destroy("last").await;
    let newest = house.recorded().await;

    let part = house.get(Who::Approver, "/api/audit?what=Nothing").await.with(200);
    assert_eq!(
        part,
        json!({ "items": [], "nextCursor": MAX_AUDIT_SCAN.to_string() }),
        "empty, and not the last"
    );
    let part = house.get(Who::Approver, "/api/audit?what=Nothing&order=desc").await.with(200);
    assert_eq!(part["nextCursor"], (newest + 1 - MAX_AUDIT_SCAN).to_string());

    let query = format!("execution={}", first.execution);
    for order in ["asc", "desc"] {
        let (found, parts) = walk(&house, &format!("{query}&order={order}")).await;
        assert_eq!((found.len(), parts), (1, 2), "{order}");
        assert!(found.iter().all(|seq| *seq <= early));
    }
    // Exactly at the bound: from here to the end there are just as many records as one part looks at.
    let filter = countersign_core::audit::AuditFilter { what: Some("Nothing".into()), ..Default::default() };
    let at_the_bound = AuditQuery {
        filter,
        order: countersign_kernel::AuditOrder::NewestFirst,
        from: Some(MAX_AUDIT_SCAN + 1),
        limit: 10,
    };
    assert_eq!(
        looked_at(&house.gateway, at_the_bound.clone()).await,
        None,
        "all that there is was looked at"
    );
    let one_past = AuditQuery { from: Some(MAX_AUDIT_SCAN + 2), ..at_the_bound };
    assert_eq!(looked_at(&house.gateway, one_past).await, Some(2));
}

#[tokio::test]
async fn a_chain_that_holds_verifies_up_to_its_head() {
    let house = House::open().await;
    house.wants_to_destroy("a").await;
    noise(&house, 2_500).await;
    let newest = house.recorded().await;
    let head = house.gateway.audit(newest - 1, 1).await.unwrap()[0].hash.to_string();
    let verified = house.get(Who::Approver, "/api/audit/verify").await.with(200);
    assert_eq!(verified, json!({ "ok": true, "records": newest, "head": head }));
}

#[tokio::test]
async fn a_chain_that_was_tampered_with_says_where() {
    let house = House::open().await;
    house.wants_to_destroy("a").await;
    noise(&house, 1_500).await;
    let last_good: AuditRecord = house.gateway.audit(1_199, 1).await.unwrap().remove(0);
    house.world.disk.tamper_with_audit(1_201, |record| record.entry.push(' '));
    let verified = house.get(Who::Approver, "/api/audit/verify").await.with(200);
    assert_eq!(
        verified,
        json!({
            "ok": false,
            "records": 1_200,
            "head": last_good.hash.to_string(),
            "brokenAt": 1_201,
            "problem": "its content was changed",
        })
    );
    house.world.disk.tamper_with_audit(1, |record| record.prev = last_good.hash);
    let verified = house.get(Who::Admin, "/api/audit/verify").await.with(200);
    assert_eq!((&verified["brokenAt"], &verified["records"]), (&json!(1), &json!(0)));
    assert_eq!(verified["head"], Digest::ZERO.to_string());
}
