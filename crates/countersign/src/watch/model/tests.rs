//! What the keys do, and what they do not.

use serde_json::json;

use super::super::fixture::{NOW, asked, denied_by_ann, each_call, form, later, showing, showing_on, typed};
use super::*;
use crate::exit::Problem;

fn id(no: u32) -> String {
    format!("eli_{no:032x}")
}

fn resolved(deed: Option<Deed>) -> (String, ResolveRequest) {
    match deed {
        Some(Deed::Resolve { question, request }) => (question.elicitation_id, request),
        other => panic!("{other:?} decides nothing"),
    }
}

#[test]
fn a_approves_what_is_under_the_cursor_as_far_as_the_question_says() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), asked(2, json!({ "id": 2 })), each_call(3)]);
    assert_eq!(model.key(Key::Char('j'), NOW), None);
    let (decided, request) = resolved(model.key(Key::Char('a'), NOW));
    assert_eq!((decided, request), (id(2), yes(Some(Remember::Session), None)));
    assert_eq!(model.selected().unwrap().state, State::Sending);
    assert_eq!(model.key(Key::Char('a'), NOW), None, "once");
    assert_eq!(model.key(Key::Char('d'), NOW), None, "and no second word");
    model.key(Key::Down, NOW);
    let (decided, request) = resolved(model.key(Key::Char('a'), NOW));
    assert_eq!((decided, request), (id(3), yes(Some(Remember::Call), None)));
}

#[test]
fn o_approves_one_call_of_what_would_count_for_the_session() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), each_call(2)]);
    let (decided, request) = resolved(model.key(Key::Char('o'), NOW));
    assert_eq!((decided, request), (id(1), yes(Some(Remember::Call), None)));
    model.key(Key::Down, NOW);
    assert_eq!(model.key(Key::Char('o'), NOW), None);
    assert!(model.said.contains("Each call"), "{}", model.said);
}

#[test]
fn s_approves_for_the_session_only_where_that_is_allowed() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), each_call(2)]);
    assert_eq!(model.key(Key::Char('s'), NOW), None, "first it says what that covers");
    assert_eq!(model.key(Key::Char('e'), NOW), None);
    assert_eq!(model.key(Key::Char('2'), NOW), None);
    let (_, request) = resolved(model.key(Key::Enter, NOW));
    let narrowed = Coverage::Session { args: CoveredArgs::Same, uses: Some(2) };
    assert_eq!(request, coverage::approval(&asked(1, json!({})).question, narrowed, None));
    model.key(Key::Down, NOW);
    assert_eq!(model.key(Key::Char('s'), NOW), None);
    assert!(model.said.contains("Each call"), "{}", model.said);
    let (decided, _) = resolved(model.key(Key::Char('a'), NOW));
    assert_eq!(decided, id(2));
}

#[test]
fn an_approval_for_the_session_is_taken_back_by_any_other_key() {
    for keys in ["s\n", "sq", "sa", "sss"] {
        let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
        typed(&mut model, keys);
        assert_eq!(model.selected().unwrap().state, State::Open, "{keys:?}");
    }
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    typed(&mut model, "sy0\n");
    assert!(model.said.contains("from 1 on"), "{}", model.said);
    let (_, request) = resolved(model.key(Key::Enter, NOW));
    assert_eq!(request, yes(Some(Remember::Session), None));
}

#[test]
fn deny_asks_for_a_reason_and_escape_takes_it_back() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    typed(&mut model, "dqa");
    assert_eq!(model.key(Key::Escape, NOW), None);
    assert!(matches!(model.mode, Mode::Browse));
    assert_eq!(model.selected().unwrap().state, State::Open);
    typed(&mut model, "dnot today");
    assert_eq!(model.key(Key::Backspace, NOW), None);
    let (decided, request) = resolved(model.key(Key::Enter, NOW));
    assert_eq!((decided, request), (id(1), no(Some("not toda".to_owned()))));
}

#[test]
fn only_the_named_keys_decide() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    for key in [Key::Enter, Key::Escape, Key::Char('y'), Key::Char('A'), Key::Char('1'), Key::Backspace] {
        assert_eq!(model.key(key.clone(), NOW), None, "{key:?}");
    }
    assert_eq!(model.key(Key::Paste("a\ns\nq".to_owned()), NOW), None, "pasted text decides nothing");
    assert_eq!(model.selected().unwrap().state, State::Open);
    assert_eq!(model.key(Key::Char('q'), NOW), Some(Deed::Quit));
}

#[test]
fn what_is_longer_than_the_screen_is_approved_only_once_it_was_all_shown() {
    let items: Vec<u32> = (0..100).collect();
    let mut model = showing(vec![asked(1, json!({ "items": items }))]);
    assert_eq!(model.key(Key::Char('a'), NOW), None);
    assert!(model.said.contains("more to read"), "{}", model.said);
    let mut pages = 0;
    while !model.selected().unwrap().is_read() {
        assert_eq!(model.key(Key::Char('a'), NOW), None, "after {pages} pages");
        assert_eq!(model.key(Key::Char('s'), NOW), None, "after {pages} pages");
        model.key(Key::PageDown, NOW);
        pages += 1;
    }
    assert!(pages > 5, "a page shows no more than fits: {pages}");
    assert_eq!(model.scroll + model.page_height(), model.page().len());
    resolved(model.key(Key::Char('a'), NOW));
}

#[test]
fn a2_a_megabyte_of_arguments_is_approved_only_after_its_last_page() {
    let mut model = showing(vec![asked(1, json!({ "text": "x".repeat(1024 * 1024) }))]);
    let mut pages = 0;
    while !model.selected().unwrap().is_read() {
        assert_eq!(model.key(Key::Char('a'), NOW), None, "after {pages} pages");
        model.key(Key::PageDown, NOW);
        pages += 1;
    }
    assert!(pages > 1_000, "all of it was shown, page by page: {pages}");
    resolved(model.key(Key::Char('a'), NOW));
}

#[test]
fn a15_what_was_denied_before_says_so_and_is_read_anew() {
    let mut model = showing(vec![asked(1, json!({ "items": (0..30).collect::<Vec<u32>>() }))]);
    for _ in 0..5 {
        model.key(Key::PageDown, NOW);
    }
    assert!(model.selected().unwrap().is_read());
    model.denied_before(&id(1), vec!["denied by ann, 3 min ago".to_owned()]);
    assert!(!model.selected().unwrap().is_read());
    let shown: Vec<String> = model.page().iter().map(|row| format!("{row:?}")).collect();
    assert!(shown[1].contains("denied by ann"), "{shown:?}");
}

#[test]
fn what_was_never_on_the_screen_is_not_read_by_a_wider_window() {
    let items: Vec<u32> = (0..100).collect();
    let mut model = showing(vec![asked(1, json!({ "items": items }))]);
    for height in [18, 30, 12] {
        model.resize(Size { width: 80, height });
        assert_eq!(model.key(Key::Char('a'), NOW), None, "height {height}");
    }
    model.resize(Size { width: 80, height: 200 });
    resolved(model.key(Key::Char('a'), later(1_000)));
}

#[test]
fn no_window_is_so_small_that_nothing_counts_as_read() {
    for size in [Size { width: 0, height: 0 }, Size { width: 80, height: 5 }, Size { width: 3, height: 6 }] {
        let mut model = showing_on(size, vec![asked(1, json!({ "id": 1 }))]);
        assert_eq!(model.key(Key::Char('a'), NOW), None, "{size:?}");
    }
}

#[test]
fn a_denial_needs_no_reading() {
    let mut model = showing(vec![asked(1, json!({ "items": vec![1; 100] }))]);
    typed(&mut model, "d");
    resolved(model.key(Key::Enter, NOW));
}

#[test]
fn decided_elsewhere_it_says_by_whom_and_leaves() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), asked(2, json!({ "id": 2 }))]);
    model.decided(&id(1), &report::told_decision(&denied_by_ann(), &Names::default()), NOW);
    assert!(matches!(&model.items[0].state, State::Decided { words, .. } if words.contains("denied by ann")));
    assert_eq!(model.key(Key::Char('a'), NOW), None);
    assert!(model.said.contains("decided already"), "{}", model.said);
    model.tick(later(1_000));
    assert_eq!(model.items.len(), 2, "it stays long enough to be read");
    model.tick(later(10_000));
    assert_eq!((model.items.len(), model.selected().unwrap().id()), (1, id(2).as_str()));
}

#[test]
fn a_key_meant_for_one_question_does_not_decide_the_next() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), asked(2, json!({ "id": 2 }))]);
    model.decided(&id(1), "denied by ann", NOW);
    model.tick(later(5_000));
    assert_eq!(model.selected().unwrap().id(), id(2));
    assert_eq!(model.key(Key::Char('a'), later(5_100)), None, "it slid under the cursor a moment ago");
    assert!(model.said.contains("just come"), "{}", model.said);
    let (decided, _) = resolved(model.key(Key::Char('a'), later(6_100)));
    assert_eq!(decided, id(2));
}

#[test]
fn holding_a_key_down_decides_one_question_at_most() {
    // When a terminal begins to repeat a key, and how often it does, in milliseconds; the last is the slowest that counts as held.
    for (first, every) in [(250, 15), (500, 33), (660, 100), (999, 999)] {
        let mut model = showing((1..=4).map(|no| asked(no, json!({ "id": no }))).collect());
        let (mut at, mut pause, mut decided) = (0, first, Vec::new());
        // Long enough for what was decided to leave, and for the next to have stood under the cursor.
        while at < 8_000 {
            model.tick(later(at));
            if let Some(Deed::Resolve { question, .. }) = model.key(Key::Char('a'), later(at)) {
                model.decided(&question.elicitation_id, "approved by you", later(at));
                decided.push(question.elicitation_id);
            }
            (at, pause) = (at + pause, every);
        }
        assert_eq!(decided, [id(1)], "repeated each {pause} ms");
        assert!(model.said.contains("Let go of the key"), "{}", model.said);
        let (next, _) = resolved(model.key(Key::Char('a'), later(at + 1_000)));
        assert_eq!(next, id(2), "pressed anew it counts");
    }
}

#[test]
fn holding_the_key_for_no_denies_nothing() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), asked(2, json!({ "id": 2 }))]);
    for repeat in 0..200 {
        assert_eq!(model.key(Key::Char('d'), later(repeat * 30)), None);
    }
    assert!(matches!(model.mode, Mode::Reason { .. }), "it writes a reason, which waits for its Enter");
}

#[test]
fn the_first_question_of_an_empty_inbox_is_not_decided_by_a_key_already_on_its_way() {
    let mut model = showing(vec![]);
    model.asked(asked(1, json!({ "id": 1 })), NOW);
    assert_eq!(model.key(Key::Char('a'), later(10)), None);
    resolved(model.key(Key::Char('a'), later(1_010)));
}

#[test]
fn new_questions_move_nothing_under_the_cursor() {
    let mut model = showing(vec![asked(2, json!({ "id": 2 }))]);
    model.asked(asked(1, json!({ "id": 1 })), NOW);
    model.asked(asked(1, json!({ "id": 1 })), NOW);
    assert_eq!((model.items.len(), model.selected().unwrap().id()), (2, id(2).as_str()));
    let (decided, _) = resolved(model.key(Key::Char('a'), NOW));
    assert_eq!(decided, id(2));
}

#[test]
fn a_decision_that_was_not_taken_leaves_the_question_open() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    resolved(model.key(Key::Char('a'), NOW));
    model.answered(&id(1), Err(Problem::new("server_unreachable", "no server answers")), NOW);
    assert_eq!(model.selected().unwrap().state, State::Open);
    assert!(model.said.contains("no server answers"), "{}", model.said);
    assert_eq!(model.key(Key::Char('a'), later(999)), None, "the key may still be held");
    resolved(model.key(Key::Char('a'), later(1_999)));
}

#[test]
fn whoever_was_faster_is_named() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    resolved(model.key(Key::Char('a'), NOW));
    let mut problem = Problem::new("already_decided", "it was decided already");
    problem.more.insert("decision".into(), serde_json::to_value(denied_by_ann()).unwrap());
    model.answered(&id(1), Err(problem), NOW);
    assert!(model.said.contains("denied by ann through console"), "{}", model.said);
}

#[test]
fn after_a_new_connection_what_is_gone_leaves_and_what_is_there_stays() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), asked(2, json!({ "id": 2 }))]);
    model.lost("no server answers".to_owned());
    assert!(matches!(model.link, Link::Lost(_)));
    model.listed(vec![asked(2, json!({ "id": 2 })), asked(3, json!({ "id": 3 }))], false, NOW);
    assert_eq!(model.link, Link::Live);
    assert_eq!(model.waiting(), 2);
    model.tick(later(10_000));
    let ids: Vec<&str> = model.items.iter().map(Item::id).collect();
    assert_eq!(ids, [id(2), id(3)]);
}

#[test]
fn what_expires_while_it_is_looked_at_cannot_be_decided() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    assert_eq!(model.key(Key::Char('a'), later(3_600_000)), None);
    assert!(model.said.contains("time is up"), "{}", model.said);
    model.tick(later(3_600_000));
    assert!(matches!(&model.items[0].state, State::Decided { words, .. } if words.contains("expired")));
}

#[test]
fn a_form_is_filled_in_field_by_field_and_sent_on_a_last_yes() {
    let mut model = showing_on(Size { width: 80, height: 30 }, vec![form(1)]);
    typed(&mut model, "\nthree\n");
    let Mode::Form { filling, .. } = &model.mode else { panic!("it is being filled in") };
    assert!(filling.problem().unwrap().contains("no whole number"));
    for _ in 0..5 {
        model.key(Key::Backspace, NOW);
    }
    typed(&mut model, "3\nWH-7\nn");
    typed(&mut model, "4\nWH-8\n");
    let (decided, request) = resolved(model.key(Key::Char('y'), NOW));
    let data = json!({ "units": 4, "warehouseId": "WH-8" });
    assert_eq!((decided, request), (id(1), yes(None, Some(data))));
}

#[test]
fn a_form_that_is_left_decides_nothing() {
    let mut model = showing_on(Size { width: 80, height: 30 }, vec![form(1)]);
    typed(&mut model, "a3\nWH-7\n");
    assert_eq!(model.key(Key::Escape, NOW), None);
    assert_eq!(model.selected().unwrap().state, State::Open);
}

#[test]
fn a_question_that_ends_while_somebody_writes_takes_the_prompt_away() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), asked(2, json!({ "id": 2 }))]);
    typed(&mut model, "dnot to");
    model.decided(&id(1), "approved by ann", NOW);
    assert!(matches!(model.mode, Mode::Browse));
    assert_eq!(model.key(Key::Enter, NOW), None);
}

#[test]
fn the_screen_is_bounded() {
    let mut model = showing(vec![]);
    for no in 0..u32::try_from(MOST_ITEMS).unwrap() + 1 {
        model.asked(asked(no, json!({})), NOW);
    }
    assert_eq!((model.items.len(), model.more), (MOST_ITEMS, true));
}
