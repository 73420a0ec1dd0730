//! An agent beside a gateway: its catalog as a toolset, and its people as the agent's.

use std::sync::Arc;
use std::time::Duration;

use countersign_agent::model::{ScriptedModel, ScriptedTurn};
use countersign_agent::providers::{CONFIRM_PATH, GatewayConfirmation};
use countersign_agent::toolset::GatewayToolset;
use countersign_agent::{
    Agent, AgentError, AgentEvent, ConfirmationProvider, ConfirmationRequest, DurableSession, FileJournal,
    Toolset, Verdict,
};
use countersign_core::canonical::Verbatim;
use countersign_core::event::Settlement;
use countersign_core::ids::CallNo;
use countersign_kernel::{Answer, Decide, Gateway, GatewayBuilder, Target};
use countersign_testkit::ledger::CrashAt;
use countersign_testkit::world::{InTests, World, agent, ann, session, yes};
use futures_util::StreamExt;
use serde_json::json;

use crate::disk::{Disk, Rehearsed};
use crate::shop::{SOON, Shop, calling, deleting, only_result, results, with};

async fn gateway_of(world: &World) -> Gateway {
    let builder = world.builder(Arc::new(world.disk.clone())).plugin(GatewayConfirmation::plugin());
    world.start_with(builder).await
}

/// Waits until so many questions are open.
async fn until_open(gateway: &Gateway, count: usize) {
    let waited = tokio::time::timeout(SOON, async {
        while gateway.open().await.len() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(waited.await.is_ok(), "{count} questions are expected");
}

/// Waits for the one open question and answers it.
async fn ann_answers(gateway: &Gateway, answer: Answer, comment: Option<&str>) -> serde_json::Value {
    until_open(gateway, 1).await;
    let row = gateway.open().await.remove(0);
    let target = Target::Elicitation(row.elicitation.id);
    let comment = comment.map(str::to_owned);
    gateway.decide(Decide { target, by: ann(), channel: "test".into(), answer, comment }).await.unwrap();
    json!({ "tool": row.elicitation.tool.as_str(), "message": row.elicitation.message, "args": row.elicitation.args.to_value() })
}

#[tokio::test]
async fn a_gateways_tools_are_gated_by_the_gateway_and_the_provider_is_not_asked_as_well() {
    let (world, shop) = (World::new(1), Shop::default());
    let gateway = gateway_of(&world).await;
    let tools = GatewayToolset::new(&gateway, &agent(), &session());
    let model = calling("lab__destroy", &json!({ "what": "logs" }));
    let agent = with(&model).toolset(tools).confirmation(shop.nobody_answers()).build().unwrap();
    let mut stream = agent.chat_stream("Go");
    let (mut announced, mut reply) = (None, None);
    while let Some(event) = stream.next().await {
        match event {
            AgentEvent::ConfirmationRequired(request) => {
                announced = request.hint;
                ann_answers(&gateway, yes(), None).await;
            }
            AgentEvent::Complete(end) => reply = Some(end),
            _ => {}
        }
    }
    assert_eq!(announced.as_deref(), Some("Permanently destroy \"logs\"? This cannot be undone."));
    assert_eq!(only_result(&reply.unwrap()), ("{\"done\":true}".into(), false));
    assert_eq!((world.ledger.effects().len(), shop.asked().len()), (1, 0));
}

#[tokio::test]
async fn a_gateways_tools_need_no_provider_to_build_and_a_denial_there_is_told_to_the_model() {
    let world = World::new(2);
    let gateway = gateway_of(&world).await;
    let tools = GatewayToolset::new(&gateway, &agent(), &session());
    let model = calling("lab__destroy", &json!({ "what": "logs" }));
    let agent = with(&model).toolset(tools).build().unwrap();
    let chat = tokio::spawn(async move { agent.chat("Go").await });
    ann_answers(&gateway, Answer::Deny, Some("not these")).await;
    let (told, is_error) = only_result(&chat.await.unwrap().unwrap());
    assert!(is_error && told.starts_with("Tool call requires confirmation — rejected by user: "), "{told}");
    assert!(told.ends_with("Reason: not these"), "{told}");
    assert_eq!(world.ledger.effects().len(), 0);
}

#[tokio::test]
async fn a_call_goes_on_in_the_gateway_after_its_agent_is_gone() {
    let world = World::new(3);
    let gateway = gateway_of(&world).await;
    let tools = GatewayToolset::new(&gateway, &agent(), &session());
    let agent = with(&calling("lab__destroy", &json!({ "what": "logs" }))).toolset(tools).build().unwrap();
    let mut stream = agent.chat_stream("Go");
    while let Some(event) = stream.next().await {
        if matches!(event, AgentEvent::ConfirmationRequired(_)) {
            break;
        }
    }
    drop(stream);
    ann_answers(&gateway, yes(), None).await;
    crate::shop::until("it took effect", || world.ledger.effects().len() == 1).await;
}

#[tokio::test]
async fn a_local_tool_is_confirmed_in_the_gateways_inbox_bound_to_what_is_shown() {
    let (world, shop) = (World::new(4), Shop::default());
    let gateway = gateway_of(&world).await;
    for (answer, ran) in [(Answer::Deny, 0), (yes(), 1)] {
        let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
        let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
        let chat = tokio::spawn(async move { agent.chat("Go").await });
        let shown = ann_answers(&gateway, answer, Some("because")).await;
        assert_eq!(shown["tool"], CONFIRM_PATH);
        assert_eq!(shown["message"], "Let the agent run its tool \"delete_records\"?");
        assert_eq!(shown["args"]["input"], json!({ "table": "logs", "rows": "all" }));
        let (told, is_error) = only_result(&chat.await.unwrap().unwrap());
        assert_eq!((shop.ran().len(), is_error), (ran, ran == 0), "{told}");
        assert!(ran == 1 || told.ends_with("Reason: because"), "{told}");
    }
    let audit = gateway.audit(0, 1_000).await.unwrap();
    assert!(audit.iter().any(|record| format!("{record:?}").contains(CONFIRM_PATH)), "it is audited");
}

#[tokio::test]
async fn a_yes_in_the_inbox_counts_for_one_call_only() {
    let (world, shop) = (World::new(5), Shop::default());
    let gateway = gateway_of(&world).await;
    for _ in 0..2 {
        let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
        let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
        let chat = tokio::spawn(async move { agent.chat("Go").await });
        ann_answers(&gateway, yes(), None).await;
        chat.await.unwrap().unwrap();
    }
    assert_eq!(shop.ran().len(), 2, "each was asked about: the second chat waited for Ann as well");
}

#[tokio::test]
async fn a_question_whose_chat_is_gone_is_withdrawn_from_the_inbox() {
    let (world, shop) = (World::new(6), Shop::default());
    let gateway = gateway_of(&world).await;
    let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
    let agent = with(&deleting()).tool(shop.delete()).confirmation(provider).build().unwrap();
    let stream = agent.chat_stream("Go");
    until_open(&gateway, 1).await;
    drop(stream);
    until_open(&gateway, 0).await;
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn a_gateway_without_the_plugin_is_refused_with_what_to_do() {
    let world = World::new(7);
    let gateway = world.start().await;
    let error = GatewayConfirmation::new(&gateway, &agent(), &session()).err().unwrap();
    assert!(error.to_string().contains(".plugin(GatewayConfirmation::plugin())"), "{error}");
}

#[tokio::test]
async fn a_durable_chat_finds_its_question_and_its_answer_in_the_gateway_after_a_restart() {
    let (world, shop) = (World::new(8), Shop::default());
    let gateway = gateway_of(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat");
    let build = |model| {
        let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
        with(&model).tool(shop.delete()).confirmation(provider).build().unwrap()
    };
    let begin = async || DurableSession::begin(FileJournal::open(&path).unwrap(), "c-1", "Go").await.unwrap();
    let first = build(deleting());
    let session = begin().await;
    let running = tokio::spawn(async move { first.run_durable(session).await });
    until_open(&gateway, 1).await;
    running.abort();
    let _ = running.await;
    // The question stays; the answer comes while nobody runs.
    ann_answers(&gateway, yes(), None).await;
    let second = build(ScriptedModel::new([ScriptedTurn::says("Done.")]));
    let reply = second.run_durable(begin().await).await.unwrap();
    assert_eq!((reply.text.as_str(), shop.ran().len()), ("Done.", 1));
    assert_eq!(gateway.open().await.len(), 0, "nobody was asked again");
}

#[tokio::test]
async fn a_durable_chat_calls_the_gateway_with_a_key_so_that_a_restart_calls_nothing_twice() {
    let world = World::new(9);
    let gateway = gateway_of(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat");
    let build = |model| {
        let tools = GatewayToolset::new(&gateway, &agent(), &session());
        with(&model).toolset(tools).build().unwrap()
    };
    let begin = async || DurableSession::begin(FileJournal::open(&path).unwrap(), "c-1", "Go").await.unwrap();
    let first = build(calling("lab__destroy_each", &json!({ "what": "logs" })));
    let session = begin().await;
    let running = tokio::spawn(async move { first.run_durable(session).await });
    until_open(&gateway, 1).await;
    running.abort();
    let _ = running.await;
    ann_answers(&gateway, yes(), None).await;
    crate::shop::until("it took effect without its agent", || world.ledger.effects().len() == 1).await;
    let second = build(ScriptedModel::new([ScriptedTurn::says("Done.")]));
    let reply = second.run_durable(begin().await).await.unwrap();
    assert_eq!(only_result(&reply), ("{\"done\":true}".into(), false));
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test]
async fn a_durable_question_whose_time_ran_out_is_withdrawn_from_the_inbox() {
    let (world, shop) = (World::new(12), Shop::default());
    let gateway = gateway_of(&world).await;
    let folder = tempfile::tempdir().unwrap();
    let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
    let agent = with(&deleting())
        .tool(shop.delete())
        .confirmation(provider)
        .confirmation_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    let journal = FileJournal::open(folder.path().join("chat")).unwrap();
    let chat = agent.run_durable(DurableSession::begin(journal, "c-1", "Go").await.unwrap());
    let (reply, ()) = tokio::join!(chat, until_open(&gateway, 1));
    let (told, _) = only_result(&reply.unwrap());
    assert!(told.ends_with("nobody decided within 200ms"), "{told}");
    assert_eq!((gateway.open().await.len(), shop.ran().len()), (0, 0));
}

#[test]
fn a_gateways_call_that_was_confirmed_at_the_agent_too_is_found_again_by_its_key_and_is_not_in_doubt() {
    let (world, disk, shop) = (World::new(13), Disk::default(), Shop::default());
    let model = Rehearsed::new(vec![vec![("a", "lab__destroy", json!({ "what": "logs" }))]]);
    let build = |gateway: &Gateway| {
        let tools = GatewayToolset::new(gateway, &agent(), &session()).with_confirmation();
        let yes = shop.somebody(Verdict::Approve);
        Agent::builder().model(model.clone()).toolset(tools).confirmation(yes).build().unwrap()
    };
    world.life(async |gateway| {
        let (agent, session) = (build(&gateway), disk.session().await);
        tokio::spawn(async move { agent.run_durable(session).await });
        until_open(&gateway, 1).await;
    });
    let reply = world.life(async |gateway| {
        let (agent, session) = (build(&gateway), disk.session().await);
        let running = tokio::spawn(async move { agent.run_durable(session).await });
        ann_answers(&gateway, yes(), None).await;
        running.await.unwrap().unwrap()
    });
    assert_eq!(only_result(&reply), ("{\"done\":true}".into(), false));
    assert_eq!((world.ledger.effects().len(), shop.asked().len()), (1, 1), "each was asked once");
}

#[test]
fn a_gateway_that_cannot_be_asked_stops_a_durable_chat_and_nothing_is_recorded_as_failed() {
    let (world, disk, shop) = (World::new(14), Disk::default(), Shop::default());
    let turn = vec![
        ("a", "lab__destroy", json!({ "what": "logs" })),
        ("b", "delete_records", json!({ "table": "logs" })),
    ];
    let model = Rehearsed::new(vec![turn]);
    let build = |gateway: &Gateway| {
        let tools = GatewayToolset::new(gateway, &agent(), &session());
        let provider = GatewayConfirmation::new(gateway, &agent(), &session()).unwrap();
        let agent = Agent::builder().model(model.clone()).toolset(tools).tool(shop.delete());
        agent.sequential_tools().confirmation(provider).build().unwrap()
    };
    let plugin = |builder: GatewayBuilder| builder.plugin(GatewayConfirmation::plugin());
    world.life_with(plugin, async |gateway| {
        let (agent, session) = (build(&gateway), disk.session().await);
        tokio::spawn(async move { agent.run_durable(session).await });
        until_open(&gateway, 1).await;
    });
    // It closes under the call, then under the question.
    for asked in ["lab.destroy", CONFIRM_PATH] {
        world.life_with(plugin, async |gateway| {
            gateway.close(Duration::ZERO).await;
            let error = build(&gateway).run_durable(disk.session().await).await.unwrap_err();
            assert_eq!(error.code(), "unavailable", "{asked}: {error}");
        });
        world.life_with(plugin, async |gateway| {
            let (agent, session) = (build(&gateway), disk.session().await);
            let running = tokio::spawn(async move { agent.run_durable(session).await });
            assert_eq!(ann_answers(&gateway, yes(), None).await["tool"], asked);
            if asked == CONFIRM_PATH {
                let reply = running.await.unwrap().unwrap();
                assert_eq!(results(&reply), ["{\"done\":true}", "deleted"]);
            } else {
                until_open(&gateway, 1).await;
            }
        });
    }
    assert_eq!((world.ledger.effects().len(), shop.ran().len()), (1, 1));
}

#[tokio::test]
async fn the_model_is_not_offered_the_tool_by_which_the_program_asks() {
    let world = World::new(15);
    let gateway = gateway_of(&world).await;
    let tools = GatewayToolset::new(&gateway, &agent(), &session()).tools().await.unwrap();
    assert!(
        !tools.is_empty() && tools.iter().all(|tool| tool.name() != "agent__tools__confirm"),
        "{tools:?}"
    );
}

#[tokio::test]
async fn the_same_call_with_other_input_after_a_restart_is_another_question() {
    let (world, shop) = (World::new(16), Shop::default());
    let gateway = gateway_of(&world).await;
    let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
    let ask = |table: &str| {
        let request = ConfirmationRequest::new("call-1", "delete_records", json!({ "table": table }));
        ConfirmationRequest { key: Some("chat:t1.c1".into()), ..request }
    };
    let first = tokio::time::timeout(Duration::from_millis(50), provider.confirm(ask("logs"))).await;
    assert!(first.is_err(), "nobody answers");
    let asked = tokio::spawn(async move { provider.confirm(ask("users")).await.map_err(|e| e.to_string()) });
    until_open(&gateway, 2).await;
    let rows = gateway.open().await;
    let row = rows.iter().find(|row| row.elicitation.args.to_value()["input"]["table"] == "users").unwrap();
    let target = Target::Elicitation(row.elicitation.id);
    let no = Decide { target, by: ann(), channel: "test".into(), answer: Answer::Deny, comment: None };
    gateway.decide(no).await.unwrap();
    assert!(matches!(asked.await.unwrap(), Ok(Verdict::Reject { .. })));
    assert_eq!(shop.ran().len(), 0);
}

#[tokio::test]
async fn a_question_whose_asker_goes_while_it_is_on_its_way_is_withdrawn() {
    let world = World::new(17);
    let gateway = gateway_of(&world).await;
    let provider = GatewayConfirmation::new(&gateway, &agent(), &session()).unwrap();
    {
        let request = ConfirmationRequest::new("call-1", "delete_records", json!({}));
        let mut asking = provider.confirm(request);
        assert!(futures_util::poll!(&mut asking).is_pending());
    }
    let recorded = tokio::time::timeout(SOON, async {
        while !format!("{:?}", gateway.audit(0, 1_000).await.unwrap()).contains("no longer waits") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    recorded.await.expect("it is withdrawn");
    until_open(&gateway, 0).await;
}

#[tokio::test]
async fn confirming_a_gateways_tools_at_the_agent_too_is_possible_where_it_is_asked_for() {
    let (world, shop) = (World::new(10), Shop::default());
    let gateway = gateway_of(&world).await;
    let tools = GatewayToolset::new(&gateway, &agent(), &session()).with_confirmation();
    let no = shop.somebody(Verdict::Reject { reason: None });
    let model = calling("lab__read", &json!({ "what": "x" }));
    let agent = with(&model).toolset(tools).confirmation(no).build().unwrap();
    agent.chat("Go").await.unwrap();
    assert_eq!(shop.asked().len(), 1);
}

#[test]
fn a_call_that_is_in_doubt_in_the_gateway_stops_a_durable_chat_until_it_is_settled_there() {
    let (world, disk) = (World::new(11), Disk::default());
    let model = Rehearsed::new(vec![vec![("a", "lab__destroy", json!({ "what": "logs" }))]]);
    let build = |gateway: &Gateway| {
        let tools = GatewayToolset::new(gateway, &agent(), &session());
        Agent::builder().model(model.clone()).toolset(tools).build().unwrap()
    };
    world.ledger.crash_at(CrashAt::AfterEffect(0));
    world.life(async |gateway| {
        let (agent, session) = (build(&gateway), disk.session().await);
        tokio::spawn(async move { agent.run_durable(session).await });
        ann_answers(&gateway, yes(), None).await;
        world.ledger.crashed().await;
    });
    let reply = world.life(async |gateway| {
        let error = build(&gateway).run_durable(disk.session().await).await.unwrap_err();
        let AgentError::InDoubt { execution: Some(execution), .. } = &error else { panic!("{error}") };
        assert!(error.to_string().contains(execution), "{error}");
        let done = Settlement::Done { value: Verbatim::of(&json!({ "done": true })).unwrap() };
        gateway.settle(execution.parse().unwrap(), CallNo(0), done, &ann()).await.unwrap();
        build(&gateway).run_durable(disk.session().await).await.unwrap()
    });
    assert_eq!(only_result(&reply), ("{\"done\":true}".into(), false));
    assert_eq!((world.ledger.effects().len(), model.asked()), (1, vec![0, 1]));
}
