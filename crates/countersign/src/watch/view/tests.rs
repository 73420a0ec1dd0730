//! The screens, as text. Look at a changed one before you accept it.

use countersign_server::wire::Damaged;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use serde_json::json;

use super::super::fixture::{
    NOW, asked, denied_by_ann, doubtful, each_call, form, showing, showing_on, typed,
};
use super::super::model::Key;
use super::*;
use crate::names::Names;

fn screen(model: &Model) -> String {
    let Size { width, height } = model.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, Paint::Plain, NOW)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn nothing_waits() {
    insta::assert_snapshot!(screen(&showing(vec![])));
}

#[test]
fn calls_in_doubt_stand_above_the_questions_and_in_the_count() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), each_call(250)]);
    model.doubted(vec![doubtful(7)]);
    let one = screen(&model);
    insta::assert_snapshot!("one_call_in_doubt", one);
    model.doubted((0..5).map(doubtful).collect());
    let five = screen(&model);
    assert!(five.contains("5 in doubt, 2 wait for a person"), "{five}");
    assert!(five.contains("! 3 more in doubt"), "{five}");
    let mut alone = showing(vec![]);
    alone.doubted(vec![doubtful(7)]);
    let alone = screen(&alone);
    assert!(alone.contains("1 in doubt, nothing waits") && alone.contains("! in doubt  exec_"), "{alone}");
}

#[test]
fn damaged_questions_stand_above_everything_and_in_the_count() {
    let damaged = |no: u32| Damaged {
        id: format!("eli_{no:032x}"),
        execution_id: None,
        at: String::new(),
        code: "damaged".to_owned(),
        message: "The record of this is damaged.".to_owned(),
    };
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    model.doubted(vec![doubtful(7)]);
    model.found_damaged(vec![damaged(9)]);
    let one = screen(&model);
    assert!(one.contains("1 damaged, 1 in doubt, 1 waits for a person"), "{one}");
    assert!(one.contains(&format!("! damaged  eli_{:032x}", 9)), "{one}");
    assert!(one.contains("! in doubt  exec_") && one.contains("notes.delete"), "{one}");
    model.found_damaged((0..3).map(damaged).collect());
    let three = screen(&model);
    assert!(three.contains("! 3 damaged"), "{three}");
    let mut alone = showing(vec![]);
    alone.found_damaged(vec![damaged(9)]);
    let alone = screen(&alone);
    assert!(alone.contains("1 damaged, nothing waits") && alone.contains("! damaged  eli_"), "{alone}");
}

#[test]
fn three_questions_one_of_them_decided_elsewhere() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 })), each_call(250), form(3)]);
    model.decided(
        &format!("eli_{:032x}", 250),
        &report::told_decision(&denied_by_ann(), &Names::default()),
        NOW,
    );
    insta::assert_snapshot!(screen(&model));
}

#[test]
fn long_arguments_say_that_there_is_more_to_read() {
    let mut model = showing(vec![asked(1, json!({ "items": (0..40).collect::<Vec<u32>>() }))]);
    insta::assert_snapshot!("long_arguments_at_first", screen(&model));
    for _ in 0..10 {
        model.key(Key::PageDown, NOW);
    }
    insta::assert_snapshot!("long_arguments_at_their_end", screen(&model));
}

#[test]
fn a4_hostile_text_is_written_out_and_nothing_of_it_is_cut_off() {
    let mut hostile = asked(1, json!({ "to": "\u{1b}[2J\u{202e}evil", "note": "Ω".repeat(150) }));
    hostile.question.message = "Fine?\nmessage, in the tool's words\n│ All is well. 日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語".to_owned();
    let model = showing_on(Size { width: 60, height: 24 }, vec![hostile]);
    let shown = screen(&model);
    assert!(!shown.contains('\u{1b}') && !shown.contains('\u{202e}'), "{shown}");
    assert_eq!(shown.matches('Ω').count(), 150, "{shown}");
    assert_eq!(shown.matches('語').count(), 14, "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn a_denial_being_written() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    typed(&mut model, "dask me tomorrow");
    insta::assert_snapshot!(screen(&model));
}

#[test]
fn a_form_being_filled_in() {
    let mut model = showing_on(Size { width: 80, height: 28 }, vec![form(1)]);
    typed(&mut model, "\nmany\n");
    insta::assert_snapshot!(screen(&model));
}

#[test]
fn help() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    typed(&mut model, "?");
    insta::assert_snapshot!(screen(&model));
}

#[test]
fn without_a_server_it_says_so_and_shows_what_it_knows() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    model.lost("no server answers at http://127.0.0.1:7420".to_owned());
    insta::assert_snapshot!(screen(&model));
}

#[test]
fn every_size_of_window_can_be_drawn() {
    for width in [1, 5, 20, 79, 200] {
        for height in [0, 1, 3, 6, 9, 50] {
            screen(&showing_on(Size { width, height }, vec![asked(1, json!({ "id": 1 })), form(2)]));
        }
    }
}

#[test]
fn an_approval_for_the_session_says_how_far_it_goes() {
    let mut model = showing(vec![asked(1, json!({ "id": 1 }))]);
    model.remember_for = Some(Duration::from_secs(12 * 60 * 60));
    typed(&mut model, "s");
    insta::assert_snapshot!(screen(&model));
    typed(&mut model, "e2");
    assert!(screen(&model).contains("For how many later calls? (Enter: no limit) 2"));
}
