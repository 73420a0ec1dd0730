//! `run`: a script from the shell, with nobody at a terminal.

use serde_json::{Value, json};

use crate::shell::{Ran, Shell, with_and_without_a_server};

with_and_without_a_server! {
    a_script_of_safe_calls_prints_its_value_and_tells_of_its_calls_beside_it,
    with_nobody_to_ask_it_is_left_waiting_and_goes_on_when_it_is_approved_later,
    mistakes_say_where_they_are_and_what_to_do,
    the_timeline_of_a_script_shows_its_source_and_every_call,
}

const TIDY: &str = r#"
    interface Note { id: number; title: string }
    await tools.notes.add({ title: "Milk" });
    const { notes } = (await tools.notes.list({})) as { notes: Note[] };
    console.log("found", notes.length);
    await tools.notes.delete({ id: notes[0].id });
    return notes.length;
"#;

fn a_script_of_safe_calls_prints_its_value_and_tells_of_its_calls_beside_it(shell: &Shell) {
    shell.write(
        "a.ts",
        "const a: string = (await tools.echo.say({ text: 'hi' })).text; console.warn('odd'); return { a };",
    );
    let ran = shell.run(&["--demo", "run", "a.ts"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(serde_json::from_str::<Value>(&ran.out).unwrap(), json!({ "a": "hi" }));
    assert!(ran.err.contains("call 0 echo.say succeeded") && ran.err.contains("warn: odd"), "{ran:?}");
    assert!(!ran.err.contains('\u{1b}'), "plain lines where no terminal is: {ran:?}");
}

#[test]
fn a_script_comes_from_standard_input_too() {
    let shell = Shell::new();
    shell.write("a.ts", "return 1 + 1;");
    let mut command = shell.command(&["run", "-"]);
    let file = std::fs::File::open(shell.folder().join("a.ts")).unwrap();
    Ran::of(command.stdin(file)).printed(&["2"]);
}

fn with_nobody_to_ask_it_is_left_waiting_and_goes_on_when_it_is_approved_later(shell: &Shell) {
    shell.write("tidy.ts", TIDY);
    let paused = shell.json(&["--demo", "run", "tidy.ts"]);
    assert_eq!(paused["status"], "paused", "{paused}");
    assert_eq!(paused["paused"]["toolPath"], "notes.delete");
    assert_eq!(paused["logs"][0]["message"], "found 1");
    let id = paused["paused"]["elicitationId"].as_str().unwrap();
    let done = shell.approved(id);
    assert_eq!((&done["status"], &done["value"]), (&json!("succeeded"), &json!(1)), "{done}");
    let statuses: Vec<&str> =
        done["calls"].as_array().unwrap().iter().map(|c| c["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["succeeded"; 3]);
    assert_eq!(shell.json(&["--demo", "call", "notes.list"])["value"]["notes"], json!([]));
}

#[test]
fn a_script_that_ends_on_a_denial_exits_with_three_and_one_that_catches_it_does_not() {
    let shell = Shell::new();
    shell.write("a.ts", "await tools.bank.pay({ to: 'ann', amount: 5 });");
    shell.write(
        "b.ts",
        "try { await tools.bank.pay({ to: 'ann', amount: 5 }); } catch (e) { return e.code; }",
    );
    shell.configure("[[rule]]\nmatch = \"bank.pay\"\neffect = \"deny\"\n");
    let ran = shell.run(&["--demo", "run", "a.ts"]);
    assert_eq!(ran.status, 3, "{ran:?}");
    assert!(ran.err.contains("denied"), "{ran:?}");
    let ran = shell.run(&["--demo", "run", "b.ts"]);
    assert_eq!((ran.status, ran.out.trim()), (0, "\"denied\""), "{ran:?}");
}

fn mistakes_say_where_they_are_and_what_to_do(shell: &Shell) {
    shell.write("bad.ts", "const a: number = 1;\nreturn a +;");
    let ran = shell.run(&["run", "bad.ts"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.err.contains("bad.ts:2:"), "{ran:?}");
    shell.write("throws.ts", "type A = { b: number };\n\nconst a = null as unknown as A;\nreturn a.b;");
    let ran = shell.run(&["run", "throws.ts"]);
    assert!(ran.status == 1 && ran.err.contains("line 4"), "{ran:?}");
    let ran = shell.run(&["run", "nowhere.ts"]);
    assert!(ran.status == 2 && ran.err.contains("nowhere.ts cannot be opened"), "{ran:?}");
    shell.write("huge.ts", &"/".repeat(256 * 1024 + 1));
    let ran = shell.run(&["run", "huge.ts", "--json"]);
    assert!(ran.status == 1 && ran.out.contains("script_too_long"), "{ran:?}");
}

fn the_timeline_of_a_script_shows_its_source_and_every_call(shell: &Shell) {
    shell.write("a.ts", "await tools.echo.say({ text: 'hi' }); await sleep(1); await tools.echo.nay({}).catch(() => {}); return 1;");
    let done = shell.json(&["--demo", "run", "a.ts"]);
    let ran = shell.run(&["executions", done["executionId"].as_str().unwrap()]);
    for words in ["tools.echo.say", "a script from", "sleeps for 1 ms", "woke up", "echo.nay", "finished"] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn the_doctor_says_how_isolated_scripts_are() {
    let ran = Shell::new().run(&["doctor"]);
    assert!(ran.out.contains("scripts") && ran.out.contains("seccomp"), "{ran:?}");
}
