//! Lists: in order, in pages, without gaps or repeats.

#![expect(clippy::unwrap_used, reason = "a store that fails here fails the test")]

use std::sync::Arc;

use countersign_core::canonical::Canonical;
use countersign_core::execution::Status;
use countersign_core::ids::{ElicitationId, ExecutionId};
use countersign_kernel::ports::{
    ElicitationFilter, ElicitationRow, ExecutionFilter, JournalPart, Listing, MAX_LISTING_BYTES, Page, Store,
    StoreError,
};

use super::subject::Subject;

/// The last one stored comes first, independent of its time.
pub async fn executions_are_listed_newest_first(store: Arc<dyn Store>) {
    let first = Subject::new();
    let mut expected = Vec::new();
    for ms in [5, 1, 9, 1, 5, 5] {
        let subject = first.sibling().created(ms);
        store.commit(subject.start()).await.unwrap();
        expected.insert(0, subject.id);
    }
    let filter = ExecutionFilter { requester: Some(first.requester.clone()), ..Default::default() };
    let found = store.executions(filter.clone(), Page::first(100)).await.unwrap();
    assert!(found.next.is_none());
    let ids: Vec<ExecutionId> = found.items.iter().map(|row| row.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(every_execution(&*store, &filter, 1).await, expected, "one at a time, in the same order");
}

/// No status means every status; several mean any of them.
pub async fn executions_are_found_by_status_and_requester(store: Arc<dyn Store>) {
    let (ann, bob) = (Subject::new(), Subject::new());
    let all = [
        Status::Running,
        Status::Waiting,
        Status::InDoubt,
        Status::Succeeded,
        Status::Failed,
        Status::Cancelled,
    ];
    let mut by_ann = Vec::new();
    for (ms, status) in (0..).zip(all) {
        for requester in [&ann, &bob] {
            let subject = requester.sibling().created(ms);
            store.commit(subject.append(0, status, vec![subject.started()])).await.unwrap();
            by_ann.extend((requester.id == ann.id).then_some((status, subject.id)));
        }
    }
    by_ann.reverse();
    let queries: [&[Status]; 6] = [
        &[],
        &[Status::Waiting],
        &[Status::Waiting, Status::Running, Status::InDoubt],
        &[Status::Succeeded, Status::Waiting],
        &[Status::Failed, Status::Failed, Status::Cancelled],
        &all,
    ];
    for status in queries {
        let wanted = |(s, _): &&(Status, ExecutionId)| status.is_empty() || status.contains(s);
        let expected: Vec<ExecutionId> = by_ann.iter().filter(wanted).map(|(_, id)| *id).collect();
        let filter = ExecutionFilter {
            status: status.to_vec(),
            requester: Some(ann.requester.clone()),
            ..Default::default()
        };
        assert_eq!(every_execution(&*store, &filter, 2).await, expected, "{status:?}");
        let everybody = ExecutionFilter { requester: None, ..filter };
        let everybody = every_execution(&*store, &everybody, 1_000).await;
        assert!(expected.iter().all(|id| everybody.contains(id)), "{status:?}");
    }
}

/// Alone, and together with status and requester.
pub async fn executions_are_found_by_session(store: Arc<dyn Store>) {
    let (one, other) = (Subject::new(), Subject::new());
    let mut in_one = Vec::new();
    for (ms, status) in (0..).zip([Status::Waiting, Status::Failed, Status::Succeeded, Status::Running]) {
        // The same requester in two sessions.
        let elsewhere = Subject { session: other.session.clone(), ..one.sibling() }.created(ms);
        store.commit(elsewhere.append(0, status, vec![elsewhere.started()])).await.unwrap();
        let here = one.sibling().created(ms);
        store.commit(here.append(0, status, vec![here.started()])).await.unwrap();
        in_one.push((status, here.id));
    }
    in_one.reverse();
    let queries: [&[Status]; 4] =
        [&[], &[Status::Waiting], &[Status::Running, Status::Waiting], &[Status::Failed, Status::Waiting]];
    for status in queries {
        let wanted = |(s, _): &&(Status, ExecutionId)| status.is_empty() || status.contains(s);
        let expected: Vec<ExecutionId> = in_one.iter().filter(wanted).map(|(_, id)| *id).collect();
        for requester in [None, Some(one.requester.clone())] {
            let session = Some(one.session.clone());
            let filter = ExecutionFilter { status: status.to_vec(), requester, session };
            assert_eq!(every_execution(&*store, &filter, 1).await, expected, "{filter:?}");
        }
        let strangers = ExecutionFilter {
            status: status.to_vec(),
            requester: Some(other.requester.clone()),
            session: Some(one.session.clone()),
        };
        assert_eq!(every_execution(&*store, &strangers, 9).await, [], "{strangers:?}");
    }
}

/// In the order of their events, and of their commits.
pub async fn elicitations_are_listed_oldest_first(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked: Vec<ElicitationRow> = [7, 2, 2, 9, 0].map(|ms| subject.elicitation(ms, 90)).into();
    store.commit(subject.ask(asked.clone())).await.unwrap();
    let filter = ElicitationFilter { execution: Some(subject.id), ..Default::default() };
    let found = store.elicitations(filter.clone(), Page::first(100)).await.unwrap().items;
    assert_eq!(found, asked);
    let ids: Vec<ElicitationId> = found.iter().map(|row| row.elicitation.id).collect();
    assert_eq!(every_elicitation(&*store, &filter, 2).await, ids);
    let open = ElicitationFilter { open_only: true, ..filter };
    assert_eq!(every_elicitation(&*store, &open, 1).await, ids);
}

/// Newer ones do not appear in later pages of a list that began before them, and nothing is skipped or shown twice.
pub async fn pages_follow_one_another_while_rows_are_added(store: Arc<dyn Store>) {
    let first = Subject::new();
    let mut expected = Vec::new();
    for ms in 0..20 {
        let subject = first.sibling().created(100 + ms / 3);
        store.commit(subject.start()).await.unwrap();
        expected.push(subject.id);
    }
    let filter = ExecutionFilter { requester: Some(first.requester.clone()), ..Default::default() };
    let (mut seen, mut cursor) = (Vec::new(), None);
    for round in 0.. {
        let page = Page { cursor, limit: 3 };
        let Listing { items, next, .. } = store.executions(filter.clone(), page).await.unwrap();
        seen.extend(items.iter().map(|row| row.id));
        store.commit(first.sibling().created(500 + round).start()).await.unwrap();
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), expected.len());
    assert!(expected.iter().all(|id| seen.contains(id)));
}

/// None, one, exactly what there is, a thousand, and more than that.
pub async fn a_page_holds_what_was_asked_for_and_never_more_than_a_thousand(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked: Vec<ElicitationRow> = (0..1_003).map(|ms| subject.elicitation(ms, 9_000)).collect();
    store.commit(subject.ask(asked)).await.unwrap();
    let filter = ElicitationFilter { execution: Some(subject.id), ..Default::default() };
    for (limit, held) in [(0, 0), (1, 1), (999, 999), (1_000, 1_000), (1_001, 1_000), (usize::MAX, 1_000)] {
        let page = store.elicitations(filter.clone(), Page::first(limit)).await.unwrap();
        assert_eq!(page.items.len(), held, "{limit}");
        assert_eq!(page.next.is_some(), held > 0, "{limit}");
    }
    let first = store.elicitations(filter.clone(), Page::first(1_000)).await.unwrap();
    let rest =
        store.elicitations(filter.clone(), Page { cursor: first.next.clone(), limit: 3 }).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (3, None), "a page that is exactly full is the last");
    assert_eq!(every_elicitation(&*store, &filter, usize::MAX).await.len(), 1_003);
}

/// Garbage, a cut cursor, and one of the other list.
pub async fn a_foreign_cursor_is_refused(store: Arc<dyn Store>) {
    let subject = Subject::new();
    store.commit(subject.ask(vec![subject.elicitation(0, 90), subject.elicitation(1, 90)])).await.unwrap();
    store.commit(subject.sibling().start()).await.unwrap();
    let executions = ExecutionFilter { requester: Some(subject.requester.clone()), ..Default::default() };
    let elicitations = ElicitationFilter { execution: Some(subject.id), ..Default::default() };
    let of_executions = store.executions(executions.clone(), Page::first(1)).await.unwrap().next.unwrap();
    let of_elicitations =
        store.elicitations(elicitations.clone(), Page::first(1)).await.unwrap().next.unwrap();

    let garbage = ["", " ", "0", "next", "é", "\0", "' OR 1=1 --", &"f".repeat(10_000)];
    let bad = |good: &str, other: &str| -> Vec<String> {
        let mut bad: Vec<String> = garbage.iter().map(|&text| text.to_owned()).collect();
        bad.extend([
            other.to_owned(),
            good[1..].to_owned(),
            good[..good.len() - 1].to_owned(),
            format!("{good}0"),
        ]);
        bad
    };
    for cursor in bad(&of_executions, &of_elicitations) {
        let page = Page { cursor: Some(cursor.clone()), limit: 1 };
        let refused = store.executions(executions.clone(), page).await;
        assert!(matches!(refused, Err(StoreError::BadCursor)), "{cursor:?}: {refused:?}");
    }
    for cursor in bad(&of_elicitations, &of_executions) {
        let page = Page { cursor: Some(cursor.clone()), limit: 1 };
        let refused = store.elicitations(elicitations.clone(), page).await;
        assert!(matches!(refused, Err(StoreError::BadCursor)), "{cursor:?}: {refused:?}");
    }
}

/// A question with so many bytes of arguments.
fn large(subject: &Subject, asked_ms: u64, bytes: usize) -> ElicitationRow {
    let mut row = subject.elicitation(asked_ms, 9_000);
    Arc::make_mut(&mut row.elicitation).args =
        Canonical::of(&serde_json::json!({ "x": "y".repeat(bytes) })).unwrap();
    row
}

/// A page holds no more than its bytes, nothing is skipped, and a page of small ones is as long as it may be.
pub async fn a_page_of_large_elicitations_ends_at_its_bytes_and_the_next_goes_on(store: Arc<dyn Store>) {
    const EACH: usize = 900_000;
    const FIT: usize = MAX_LISTING_BYTES / EACH;
    let subject = Subject::new();
    let asked: Vec<ElicitationRow> = (0..10).map(|ms| large(&subject, ms, EACH)).collect();
    store.commit(subject.ask(asked.clone())).await.unwrap();
    for open_only in [true, false] {
        let filter = ElicitationFilter { execution: Some(subject.id), open_only, ..Default::default() };
        let page = store.elicitations(filter.clone(), Page::first(100)).await.unwrap();
        assert_eq!(page.items.len(), FIT, "{open_only}");
        let expected: Vec<ElicitationId> = asked.iter().map(|row| row.elicitation.id).collect();
        assert_eq!(every_elicitation(&*store, &filter, 100).await, expected, "{open_only}");
        assert_eq!(every_elicitation(&*store, &filter, 3).await, expected, "{open_only}");
    }
}

/// A reader of the parts gets to the end.
pub async fn one_item_is_read_however_large_it_is(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let mut row = subject.elicitation(0, 90);
    Arc::make_mut(&mut row.elicitation).message = "m".repeat(MAX_LISTING_BYTES + 1);
    let second = subject.elicitation(1, 90);
    store.commit(subject.ask(vec![row, second.clone()])).await.unwrap();
    let filter = ElicitationFilter { execution: Some(subject.id), ..Default::default() };
    let page = store.elicitations(filter.clone(), Page::first(9)).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let rest = store.elicitations(filter, Page { cursor: page.next, limit: 9 }).await.unwrap();
    assert_eq!((rest.items, rest.next), (vec![second], None));
}

/// In parts it is the same journal.
pub async fn a_journal_is_read_in_parts_that_end_at_their_number_or_their_bytes(store: Arc<dyn Store>) {
    let subject = Subject::new();
    let asked: Vec<ElicitationRow> = (0..9).map(|ms| large(&subject, ms, 900_000)).collect();
    store.commit(subject.ask(asked)).await.unwrap();
    let whole = store.journal(subject.id).await.unwrap();
    for (limit, first) in [(3, 3), (100, 5)] {
        let (mut events, mut from, mut parts) = (Vec::new(), Some(0), 0);
        while let Some(number) = from {
            let part = store.journal_part(subject.id, number, limit).await.unwrap();
            assert!(parts > 0 || part.events.len() == first, "{limit}: {}", part.events.len());
            events.extend(part.events);
            (from, parts) = (part.next, parts + 1);
        }
        assert_eq!(events, whole, "{limit}");
    }
    let nothing = JournalPart { events: Vec::new(), next: None };
    assert_eq!(store.journal_part(subject.id, 10, 9).await.unwrap(), nothing, "past its end");
    assert_eq!(store.journal_part(Subject::new().id, 0, 9).await.unwrap(), nothing, "of nobody");
}

async fn every_execution(store: &dyn Store, filter: &ExecutionFilter, limit: usize) -> Vec<ExecutionId> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.executions(filter.clone(), Page { cursor, limit }).await.unwrap();
        assert!(page.next.is_none() || !page.items.is_empty());
        ids.extend(page.items.iter().map(|row| row.id));
        cursor = page.next;
        if cursor.is_none() {
            return ids;
        }
    }
}

async fn every_elicitation(
    store: &dyn Store,
    filter: &ElicitationFilter,
    limit: usize,
) -> Vec<ElicitationId> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = store.elicitations(filter.clone(), Page { cursor, limit }).await.unwrap();
        assert!(page.next.is_none() || !page.items.is_empty());
        ids.extend(page.items.iter().map(|row| row.elicitation.id));
        cursor = page.next;
        if cursor.is_none() {
            return ids;
        }
    }
}
