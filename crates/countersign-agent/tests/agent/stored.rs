//! The stored form of a conversation, and the file it is stored in.

use std::io::Write;

use countersign_agent::durable::{Journal, JournalError};
use countersign_agent::{Agent, DurableSession, FileJournal, Verdict};
use serde_json::{Value, json};

use crate::disk::{Disk, Rehearsed};
use crate::shop::{Shop, results};

fn rehearsed() -> Rehearsed {
    Rehearsed::new(vec![
        vec![("a", "delete_records", json!({ "table": "logs" })), ("b", "transfer_to_other", json!({}))],
        vec![("c", "transfer", json!({ "amount": 20_000 }))],
    ])
}

fn agent(shop: &Shop, model: &Rehearsed) -> Agent {
    let build = |name: &str| {
        Agent::builder()
            .name(name)
            .model(model.clone())
            .tool(shop.delete())
            .tool(shop.transfer())
            .sequential_tools()
            .confirmation(shop.somebody(Verdict::Approve))
    };
    let other = build("other").build().unwrap();
    build("first").handoff(&other).build().unwrap()
}

#[tokio::test]
async fn the_stored_form_is_this_one() {
    let (disk, shop, model) = (Disk::default(), Shop::default(), rehearsed());
    agent(&shop, &model).run_durable(disk.session().await).await.unwrap();
    let lines = disk.lines().into_iter().map(|line| {
        let value = serde_json::from_str::<Value>(&line).unwrap();
        let line = line.replacen(&value["at"].as_u64().expect("a moment").to_string(), "0", 1);
        match value["record"]["opened"]["nonce"].as_str() {
            Some(nonce) => line.replace(nonce, "NONCE"),
            None => line,
        }
    });
    insta::assert_snapshot!("journal_v1", lines.collect::<Vec<_>>().join("\n"));
}

/// A journal as an earlier build wrote it, up to a question of the second agent. It must be readable for ever.
const WRITTEN_BY_V1: &str = r#"{"v":1,"at":1789000000000,"record":{"opened":{"conversation":"chat-1"}}}
{"v":1,"at":1789000000001,"record":{"said":{"text":"Go"}}}
{"v":1,"at":1789000000002,"record":{"modelTurned":{"agent":"first","text":"","calls":[{"id":"a","name":"delete_records","input":"{\"table\":\"logs\"}"},{"id":"b","name":"transfer_to_other","input":"{}"}]}}}
{"v":1,"at":1789000000003,"record":{"callStarted":{"call":{"turn":1,"call":1},"input":{"rows":"all","table":"logs"},"repeatable":false}}}
{"v":1,"at":1789000000004,"record":{"callSettled":{"call":{"turn":1,"call":1},"result":{"callId":"a","name":"delete_records","content":"deleted","isError":false}}}}
{"v":1,"at":1789000000005,"record":{"callSettled":{"call":{"turn":1,"call":2},"result":{"callId":"b","name":"transfer_to_other","content":"Transferred to other.","isError":false},"handoff":"other"}}}
{"v":1,"at":1789000000006,"record":{"modelTurned":{"agent":"other","text":"","calls":[{"id":"c","name":"transfer","input":"{\"amount\":20000}"}]}}}
{"v":1,"at":1789000000007,"record":{"callAsked":{"call":{"turn":2,"call":1},"nth":0,"question":"00"}}}"#;

#[tokio::test]
async fn a_journal_of_an_earlier_build_is_read_and_gone_on_from() {
    let (disk, shop, model) = (Disk::with(WRITTEN_BY_V1), Shop::default(), rehearsed());
    let reply = agent(&shop, &model).run_durable(disk.session().await).await.unwrap();
    assert_eq!((reply.agent.as_str(), model.asked()), ("other", vec![2]));
    assert_eq!(results(&reply), ["deleted", "Transferred to other.", "Transfer complete"]);
    assert_eq!(shop.ran(), ["transfer 20000"]);
}

async fn refusal(lines: &str) -> JournalError {
    DurableSession::open(Disk::with(lines)).await.err().expect("it is refused")
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_and_not_guessed_at() {
    let newer = r#"{"v":2,"at":0,"record":{"opened":{"conversation":"c","new":1}}}"#;
    assert_eq!(refusal(newer).await.code(), "journal_version");
    let damaged = WRITTEN_BY_V1.replace("\"said\"", "\"sa");
    let error = refusal(&damaged).await;
    assert!(matches!(error, JournalError::Corrupt { line: 2, .. }), "{error}");
    // Lines that contradict each other are damage, too.
    let settled_twice = format!("{}\n{}", WRITTEN_BY_V1, WRITTEN_BY_V1.lines().nth(4).unwrap());
    let error = refusal(&settled_twice).await;
    assert!(matches!(error, JournalError::Corrupt { line: 9, .. }), "{error}");
}

#[tokio::test]
async fn a_conversation_is_run_by_the_agent_that_began_it() {
    let (shop, model) = (Shop::default(), rehearsed());
    let stranger = Agent::builder().name("stranger").model(model.clone()).build().unwrap();
    let error = stranger.run_durable(Disk::with(WRITTEN_BY_V1).session().await).await.unwrap_err();
    assert_eq!(error.code(), "unknown_handoff");
    let lonely = Agent::builder().name("first").model(model.clone()).build().unwrap();
    let error = lonely.run_durable(Disk::with(WRITTEN_BY_V1).session().await).await.unwrap_err();
    assert!(error.to_string().contains("\"other\""), "{error}");
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn a_journal_belongs_to_one_conversation() {
    let disk = Disk::default();
    drop(disk.session().await);
    for (id, input) in [("chat-2", "Go"), ("chat-1", "Something else")] {
        let error = DurableSession::begin(disk.clone(), id, input).await.err().unwrap();
        assert_eq!(error.code(), "other_conversation");
    }
    for id in ["", "a b", &"x".repeat(129)] {
        assert!(DurableSession::begin(Disk::default(), id, "Go").await.is_err(), "{id:?}");
    }
}

#[tokio::test]
async fn a_conversation_goes_on_with_more_words_once_the_model_has_ended() {
    let (disk, model) = (Disk::default(), Rehearsed::new(vec![]));
    let agent = Agent::builder().model(model.clone()).build().unwrap();
    assert!(disk.session().await.say("More").await.is_err(), "the model has not spoken yet");
    agent.run_durable(disk.session().await).await.unwrap();
    let session = disk.session().await;
    assert!(session.is_finished().await);
    session.say("And now?").await.unwrap();
    assert!(!session.is_finished().await);
    let reply = agent.run_durable(session).await.unwrap();
    assert_eq!((reply.messages.len(), model.asked()), (4, vec![0, 1]));
    let again = agent.run_durable(disk.session().await).await.unwrap();
    assert_eq!((again, model.asked().len()), (reply, 2), "what is finished is only told again");
}

const ONE: &str = "{\"v\":1}";
const TWO: &str = "{\"v\":2}";
const THREE: &str = "{\"v\":3}";

#[tokio::test]
async fn the_file_keeps_whole_lines_and_cuts_off_one_that_was_torn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat");
    {
        let journal = FileJournal::open(&path).unwrap();
        for line in [ONE, TWO] {
            journal.append(line.to_owned()).await.unwrap();
        }
    }
    let torn = format!("{THREE}{}", "x".repeat(10_000));
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(torn.as_bytes()).unwrap();
    {
        let journal = FileJournal::open(&path).unwrap();
        assert_eq!(journal.load().await.unwrap(), [ONE, TWO]);
        journal.append(THREE.to_owned()).await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{ONE}\n{TWO}\n{THREE}\n"));
}

#[tokio::test]
async fn a_file_that_is_something_else_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("settings.json", "{\"volume\":11}"), ("notes", "milk\neggs"), ("mark", "{\"w\":1}\n")]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(FileJournal::open(&path).err().unwrap().code(), "not_a_journal", "{name}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // A first line that was torn in its very beginning is ours.
    let torn = folder.path().join("torn");
    std::fs::write(&torn, "{\"v").unwrap();
    assert_eq!(FileJournal::open(&torn).unwrap().load().await.unwrap(), [] as [String; 0]);
}

#[tokio::test]
async fn a_conversation_that_never_began_is_not_opened_and_one_in_which_nobody_spoke_says_so() {
    let error = DurableSession::open(Disk::default()).await.err().unwrap();
    assert_eq!(error.code(), "journal_empty");
    let headless = WRITTEN_BY_V1.lines().skip(1).collect::<Vec<_>>().join("\n");
    let error = refusal(&headless).await;
    assert!(matches!(error, JournalError::Corrupt { line: 1, .. }), "{error}");
    let silent = Disk::with(WRITTEN_BY_V1.lines().next().unwrap());
    let agent = Agent::builder().model(Rehearsed::new(vec![])).build().unwrap();
    let error = agent.run_durable(DurableSession::open(silent).await.unwrap()).await.unwrap_err();
    assert_eq!(error.code(), "nothing_said");
}

#[tokio::test]
async fn two_conversations_of_one_name_have_keys_of_their_own() {
    let shop = Shop::default();
    let ran = shop.clone();
    let tool = Shop::tool("look", move |ctx| {
        ran.note(ctx.idempotency_key().unwrap());
        async { Ok("seen".to_owned()) }
    });
    let model = Rehearsed::new(vec![vec![("a", "look", json!({}))]]);
    let agent = Agent::builder().model(model).tool(tool).build().unwrap();
    for _ in 0..2 {
        agent.run_durable(Disk::default().session().await).await.unwrap();
    }
    let keys = shop.ran();
    assert_ne!(keys[0], keys[1], "what the gateway did for the one is not the other's");
}

#[tokio::test]
async fn the_file_is_used_in_one_place_and_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat");
    let journal = FileJournal::open(&path).unwrap();
    assert_eq!(FileJournal::open(&path).err().unwrap().code(), "journal_in_use");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    drop(journal);
    assert!(FileJournal::open(&path).is_ok());
}
