//! The way of a call: DESIGN's ten steps in their order, and what each of them may and may not do.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected stops there")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_core::audit::{self, AuditEntry};
use countersign_core::digest::Digest;
use countersign_core::event::CallOutcome;
use countersign_core::execution::Status;
use countersign_kernel::ports::Store;
use countersign_kernel::{
    Answer, CallError, Coverage, CoveredArgs, ExecutionResult, Gateway, GatewayBuilder, GatewayEvent,
    GatewayEventKind, HookCall, HookError, HookVerdict, NewGrant, NewToken, People, PostHook, PreHook,
};
use countersign_sdk::{Approved, Ctx, Plugin, Tool, ToolError};
use countersign_testkit::lab::What;
use countersign_testkit::world::{InTests, World, agent, ann, session, yes};
use serde_json::{Value, json};

/// What happened, in order, as everybody who can watch saw it.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<String>>>);

impl Watch {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// A hook that says what it is told to, and notes what it saw.
struct Says(Watch, &'static str, Verdict);

/// What a hook makes of arguments.
type Verdict = fn(&Value) -> Result<HookVerdict, HookError>;

#[async_trait::async_trait]
impl PreHook for Says {
    async fn before(&self, call: HookCall<'_>) -> Result<HookVerdict, HookError> {
        self.0.note(format!("{} saw {}", self.1, call.args["what"].as_str().unwrap_or("-")));
        (self.2)(call.args)
    }
}

#[async_trait::async_trait]
impl PostHook for Says {
    async fn after(&self, call: HookCall<'_>, outcome: &CallOutcome) {
        let end = match outcome {
            CallOutcome::Succeeded(_) => "succeeded",
            CallOutcome::Failed(failure) => &failure.code,
        };
        self.0.note(format!("{}: {} {end}", self.1, call.path));
        drop((self.2)(call.args));
    }
}

fn goes_on(_: &Value) -> Result<HookVerdict, HookError> {
    Ok(HookVerdict::Continue)
}

fn denies(_: &Value) -> Result<HookVerdict, HookError> {
    Ok(HookVerdict::Deny { reason: "not on my watch".into() })
}

fn fails(_: &Value) -> Result<HookVerdict, HookError> {
    Err(HookError("the hook's database is down".into()))
}

fn panics(_: &Value) -> Result<HookVerdict, HookError> {
    std::panic::resume_unwind(Box::new("a hook's bug"))
}

fn marks(args: &Value) -> Result<HookVerdict, HookError> {
    Ok(HookVerdict::Rewrite(json!({ "what": format!("{}!", args["what"].as_str().unwrap_or_default()) })))
}

fn spoils(_: &Value) -> Result<HookVerdict, HookError> {
    Ok(HookVerdict::Rewrite(json!({ "what": 7, "more": true })))
}

fn builder(world: &World) -> GatewayBuilder {
    world.builder(Arc::new(world.disk.clone()))
}

fn note() -> Value {
    json!({ "what": "note 7" })
}

/// Lets post-hooks run: they come after the answer.
async fn afterwards() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

async fn audit_of(gateway: &Gateway, execution: &ExecutionResult) -> Vec<AuditEntry> {
    let records = gateway.audit(0, 1_000).await.unwrap();
    audit::verify((0, Digest::ZERO), &records).unwrap();
    let entries = records.iter().flat_map(|record| record.parse().unwrap());
    entries.filter(|entry: &AuditEntry| entry.execution == Some(execution.execution)).collect()
}

/// A destructive tool that looks, from inside its handler, at what is on the disk about its own call.
fn looks_at_the_disk(world: &World, watch: &Watch) -> Plugin {
    let (disk, watch) = (world.disk.clone(), watch.clone());
    let tool = Tool::new("own.look")
        .name("Look")
        .describe("Looks at its own journal.")
        .destructive(|i: &What| format!("Look at {}?", i.what))
        .handler(move |ctx: Ctx, input: Approved<What>| {
            let (disk, watch) = (disk.clone(), watch.clone());
            async move {
                watch.note(format!("handler got {}", input.what));
                let journal = disk.journal(ctx.execution_id().parse()?).await?;
                Ok::<_, ToolError>(journal.iter().map(|e| e.body.name()).collect::<Vec<_>>())
            }
        });
    Plugin::new("own", "Own", "Tools of this test.").tool(tool)
}

#[tokio::test(start_paused = true)]
async fn the_ten_steps_are_taken_in_order_and_the_start_is_on_the_disk_before_the_handler() {
    let (world, watch) = (World::new(1), Watch::default());
    let pause = watch.clone();
    let builder = builder(&world)
        .plugin(looks_at_the_disk(&world, &watch))
        .pre_hook(Says(watch.clone(), "pre 1", marks))
        .pre_hook(Says(watch.clone(), "pre 2", goes_on))
        .on_pause(move |p| pause.note(format!("asked: {}", p.elicitation.message)))
        .post_hook(Says(watch.clone(), "post 1", goes_on))
        .post_hook(Says(watch.clone(), "post 2", goes_on));
    let gateway = world.start_with(builder).await;
    let waiting = gateway.ask("own.look", note()).await.unwrap();
    assert_eq!(watch.seen(), ["pre 1 saw note 7", "pre 2 saw note 7!", "asked: Look at note 7!?"]);
    gateway.ann_says(&waiting, yes()).await.unwrap();
    let end = gateway.end_of(&waiting).await;
    afterwards().await;
    assert_eq!(
        watch.seen(),
        ["handler got note 7!", "post 1: own.look succeeded", "post 2: own.look succeeded"]
    );
    let when_it_ran = json!(["Started", "CallIssued", "Asked", "Decided", "CallStarted"]);
    assert_eq!(end.value, Some(when_it_ran));
    let story = ["Started", "CallIssued", "Asked", "Decided", "CallStarted", "CallSettled", "Finished"];
    assert_eq!(gateway.story(&end).await, story);
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_wrote_is_what_the_person_sees_and_what_runs() {
    let (world, watch) = (World::new(1), Watch::default());
    let gateway = world.start_with(builder(&world).pre_hook(Says(watch, "pre", marks))).await;
    let waiting = gateway.ask("lab.destroy", note()).await.unwrap();
    let shown = &waiting.paused().unwrap().elicitation;
    assert_eq!(shown.args.to_value(), json!({ "what": "note 7!" }));
    assert!(shown.message.contains("\"note 7!\""), "{}", shown.message);
    gateway.ann_says(&waiting, yes()).await.unwrap();
    assert!(gateway.end_of(&waiting).await.success());
    assert_eq!(world.ledger.effects()[0].what, "note 7!");
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_wrote_is_validated_again() {
    let (world, watch) = (World::new(1), Watch::default());
    let builder = builder(&world).pre_hook(Says(watch.clone(), "pre 1", spoils)).pre_hook(Says(
        watch.clone(),
        "pre 2",
        goes_on,
    ));
    let gateway = world.start_with(builder).await;
    let error = gateway.ask("lab.destroy", note()).await.unwrap_err();
    assert!(matches!(&error, CallError::InvalidInput { violations } if violations.len() == 2), "{error}");
    assert_eq!(watch.seen(), ["pre 1 saw note 7"], "what is invalid reaches no further hook");
    assert_eq!(gateway.open().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_denies_fails_or_panics_stops_the_call_and_the_post_hooks_still_run() {
    let cases: [(Verdict, &str); 3] =
        [(denies, "not on my watch"), (fails, "database is down"), (panics, "panicked")];
    for (hook, says) in cases {
        let (world, watch) = (World::new(1), Watch::default());
        let builder = builder(&world)
            .pre_hook(Says(watch.clone(), "pre 1", hook))
            .pre_hook(Says(watch.clone(), "pre 2", goes_on))
            .post_hook(Says(watch.clone(), "post", goes_on));
        let gateway = world.start_with(builder).await;
        for path in ["lab.read", "lab.destroy"] {
            let end = gateway.ask(path, note()).await.unwrap();
            let error = end.error.unwrap();
            assert_eq!((end.status, error.code.as_str()), (Status::Failed, "denied"), "{says}");
            assert!(error.message.contains(says), "{}", error.message);
            afterwards().await;
            assert_eq!(
                watch.seen(),
                ["pre 1 saw note 7".to_owned(), format!("post: {path} denied")],
                "{says}"
            );
        }
        assert_eq!((gateway.open().await, world.ledger.effects()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn post_hooks_run_after_success_denial_cancelled_question_error_panic_and_expiry() {
    let (world, watch) = (World::new(1), Watch::default());
    let builder = builder(&world).post_hook(Says(watch.clone(), "post 1", panics)).post_hook(Says(
        watch.clone(),
        "post 2",
        goes_on,
    ));
    let gateway = world.start_with(builder).await;
    for (path, what, answer, end) in [
        ("lab.read", "x", None, "succeeded"),
        ("lab.destroy_each", "x", Some(yes()), "succeeded"),
        ("lab.destroy_each", "x", Some(Answer::Deny), "denied"),
        ("lab.destroy_each", "x", Some(Answer::Cancel), "cancelled"),
        ("lab.destroy_each", "x", None, "expired"),
        ("lab.fail", "error", Some(yes()), "teapot"),
    ] {
        let waiting = gateway.ask(path, json!({ "what": what })).await.unwrap();
        match answer {
            Some(answer) if waiting.paused().is_some() => {
                gateway.ann_says(&waiting, answer).await.unwrap();
            }
            _ => tokio::time::sleep(Duration::from_secs(24 * 60 * 60)).await,
        }
        gateway.end_of(&waiting).await;
        afterwards().await;
        let both = [format!("post 1: {path} {end}"), format!("post 2: {path} {end}")];
        assert_eq!(watch.seen(), both, "one that panics stops nobody");
    }
}

#[tokio::test(start_paused = true)]
async fn post_hooks_run_after_policy_denies_and_where_nobody_can_be_asked() {
    let watch = Watch::default();
    let denying = World::new(1).under("[[rule]]\nmatch = \"lab.**\"\neffect = \"deny\"\n");
    let empty = World::new(1).set(|s| s.people = People::Nobody);
    for world in [denying, empty] {
        let gateway = world.start_with(builder(&world).post_hook(Says(watch.clone(), "post", goes_on))).await;
        let end = gateway.ask("lab.destroy", note()).await.unwrap();
        assert_eq!(end.error.unwrap().code, "denied");
        afterwards().await;
        assert_eq!(watch.seen(), ["post: lab.destroy denied"]);
    }
}

#[tokio::test(start_paused = true)]
async fn policy_denies_asks_and_allows_as_its_first_fitting_rule_says() {
    let world = World::new(1).under(
        r#"
        [[rule]]
        match = "lab.destroy"
        when = 'args.what == "forbidden"'
        effect = "deny"
        reason = "Never that one."
        [[rule]]
        match = "lab.destroy"
        when = 'args.what.startsWith("tmp/")'
        effect = "allow"
        [[rule]]
        match = "lab.*"
        effect = "ask"
        reason = "Everything else is looked at."
        expires = "1h"
        remember = "call"
        "#,
    );
    let gateway = world.start().await;
    let denied = gateway.ask("lab.destroy", json!({ "what": "forbidden" })).await.unwrap().error.unwrap();
    assert_eq!(denied.code, "denied");
    assert!(
        denied.message.contains("rule 1") && denied.message.contains("Never that one."),
        "{}",
        denied.message
    );

    let allowed = gateway.ask("lab.destroy", json!({ "what": "tmp/x" })).await.unwrap();
    assert!(allowed.success());
    let started = audit_of(&gateway, &allowed).await.into_iter().find(|e| e.what == "CallStarted").unwrap();
    assert!(started.detail.contains("allowed by rule 2 (lab.destroy)"), "{}", started.detail);

    let asked = gateway.ask("lab.read", note()).await.unwrap();
    let question = &asked.paused().unwrap().elicitation;
    assert_eq!(question.message, "Run Read?", "a safe tool has no message of its own");
    assert!(
        question.because.contains("rule 3") && question.because.contains("Everything else is looked at.")
    );
    assert_eq!(asked.paused().unwrap().asked_at.after(Duration::from_secs(60 * 60)), question.expires_at);
    gateway.ann_says(&asked, yes()).await.unwrap();
    assert!(gateway.end_of(&asked).await.success());
    assert!(gateway.ask("lab.read", note()).await.unwrap().paused().is_some(), "remember = call");
    assert_eq!(world.ledger.effects().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_evaluated_denies() {
    for effect in ["allow", "ask", "deny"] {
        let rule =
            format!("[[rule]]\nmatch = \"lab.**\"\nwhen = 'args.missing == \"x\"'\neffect = \"{effect}\"\n");
        let world = World::new(1).under(&rule);
        let gateway = world.start().await;
        for path in ["lab.read", "lab.destroy"] {
            let error = gateway.ask(path, note()).await.unwrap().error.unwrap();
            assert_eq!(error.code, "denied", "{path} {effect}");
            assert!(error.message.contains("cannot be evaluated"), "{}", error.message);
        }
        assert_eq!((gateway.open().await, world.ledger.effects()), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_can_be_reached_what_would_ask_is_denied_and_the_rest_runs() {
    let world = World::new(1).set(|s| s.people = People::Nobody);
    let gateway = world.start().await;
    let denied = gateway.ask("lab.destroy", note()).await.unwrap();
    assert_eq!(denied.error.as_ref().unwrap().code, "denied");
    assert_eq!(gateway.story(&denied).await, ["Started", "CallIssued", "CallSettled", "Finished"]);
    assert!(gateway.ask("lab.read", note()).await.unwrap().success());
    assert_eq!(world.ledger.effects(), []);
}

#[tokio::test(start_paused = true)]
async fn every_transition_has_one_audit_record_that_says_who_and_what() {
    let gateway = World::new(1).start().await;
    let end = gateway.approved("lab.destroy_each", note()).await;
    let entries = audit_of(&gateway, &end).await;
    let story: Vec<_> = entries.iter().map(|e| &*e.what).collect();
    assert_eq!(story, gateway.story(&end).await);
    let entry = |what: &str| entries.iter().find(|e| e.what == what).unwrap();
    assert_eq!(entry("Started").by.as_ref(), Some(&agent().principal.id));
    assert_eq!(entry("Decided").by.as_ref(), Some(&ann().principal.id));
    assert!(entry("Decided").detail.contains("Approved through test"));
    let digest = entry("CallIssued").digest;
    assert!(digest.is_some());
    for what in ["Asked", "Decided", "CallStarted"] {
        assert_eq!(entry(what).digest, digest, "{what} is about the same thing");
    }
    let secrets: String = entries.iter().map(|e| e.detail.as_str()).collect();
    assert!(!secrets.contains("note 7"), "arguments are in the journal, not in the audit");
}

/// In the record of the decision, whoever commits it.
#[tokio::test(start_paused = true)]
async fn a_remembered_approval_given_with_a_decision_is_audited_with_it() {
    let gateway = World::new(1).start().await;
    let waiting = gateway.ask("lab.destroy", json!({ "what": "note 7" })).await.unwrap();
    let covers = Some(Coverage::Session { args: CoveredArgs::Any, uses: None });
    gateway.ann_says(&waiting, Answer::Approve { covers, data: None }).await.unwrap();
    gateway.end_of(&waiting).await;
    let records = gateway.audit(0, 100).await.unwrap();
    let of_decision = records.iter().map(|record| record.parse().unwrap());
    let of_decision: Vec<AuditEntry> =
        of_decision.into_iter().find(|entries| entries.iter().any(|entry| entry.what == "Decided")).unwrap();
    let given: Vec<&AuditEntry> = of_decision.iter().filter(|entry| entry.what == "GrantGiven").collect();
    assert_eq!(given.len(), 1, "{of_decision:#?}");
    assert_eq!(given[0].by.as_ref(), Some(&ann().principal.id));
    assert_eq!(given[0].execution, Some(waiting.execution));
    let grant = &gateway.grants(&session()).await.unwrap()[0];
    assert_eq!(given[0].detail, format!("{} for {}: lab.destroy", grant.id, session()));
}

#[tokio::test(start_paused = true)]
async fn sessions_grants_and_tokens_are_audited_too() {
    let gateway = World::new(1).start().await;
    let pattern = countersign_core::policy::PathPattern::parse("lab.destroy").unwrap();
    let grant = gateway.give_grant(&ann(), NewGrant::new(session(), pattern.clone())).await.unwrap();
    gateway.revoke_grant(&ann(), grant.id).await.unwrap();
    gateway.clear_grants(&ann(), &session()).await.unwrap();
    let token = gateway
        .create_token(NewToken::new("laptop", countersign_sdk::Role::Approver), Some(&ann()))
        .await
        .unwrap();
    gateway.revoke_token(token.row.id, Some(&ann())).await.unwrap();
    let records = gateway.audit(0, 100).await.unwrap();
    audit::verify((0, Digest::ZERO), &records).unwrap();
    let entries: Vec<AuditEntry> = records.iter().flat_map(|r| r.parse().unwrap()).collect();
    let what: Vec<_> = entries.iter().map(|e| &*e.what).collect();
    assert_eq!(
        what,
        ["SessionOpened", "GrantGiven", "GrantRevoked", "GrantRevoked", "TokenCreated", "TokenRevoked"]
    );
    assert!(entries[1..].iter().all(|e| e.by.as_ref() == Some(&ann().principal.id)));
    assert_eq!(entries[0].by.as_ref(), Some(&agent().principal.id));
}

fn short(event: &GatewayEvent) -> String {
    match &event.kind {
        GatewayEventKind::ElicitationPending(_) => "pending".into(),
        GatewayEventKind::ElicitationDecided(_, decision) => format!("decided {:?}", decision.outcome),
        GatewayEventKind::ExecutionStatus(status) => status.as_str().into(),
        GatewayEventKind::CallStarted(call) => format!("started {call}"),
        GatewayEventKind::CallSettled(call) => format!("settled {call}"),
        GatewayEventKind::CatalogChanged(change) => format!("changed {}", change.source),
        GatewayEventKind::SourceListChanged { source, .. } => format!("list of {source}"),
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_told_in_order_and_never_before_they_are_on_the_disk() {
    let world = World::new(1);
    let gateway = world.start().await;
    let mut events = gateway.events();
    let disk = world.disk.clone();
    let listener = tokio::spawn(async move {
        let (mut told, mut last) = (Vec::new(), 0);
        while told.last().is_none_or(|t| t != "succeeded") {
            let event = events.recv().await.unwrap();
            let audited = disk.audit(0, 1_000).await.unwrap().len() as u64;
            assert!((last..=audited).contains(&event.seq), "{} of {audited}", event.seq);
            if let GatewayEventKind::ElicitationDecided(id, _) = &event.kind {
                assert!(disk.elicitation(*id).await.unwrap().unwrap().decision.is_some());
            }
            last = event.seq;
            told.push(short(&event));
        }
        told
    });
    gateway.approved("lab.destroy", note()).await;
    let expected = [["pending", "waiting"], ["decided Approved", "started 0"], ["running", "settled 0"]];
    assert_eq!(listener.await.unwrap(), [expected.concat(), vec!["succeeded"]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_events_is_told_that_it_fell_behind_and_finds_the_rest_in_the_audit() {
    let gateway = World::new(1).set(|s| s.event_backlog = 4).start().await;
    let mut events = gateway.events();
    gateway.approved("lab.destroy", note()).await;
    let lagged = events.recv().await.unwrap_err();
    assert!(matches!(lagged, tokio::sync::broadcast::error::RecvError::Lagged(_)), "{lagged}");
    let next = events.recv().await.unwrap();
    assert!(next.seq > 0 && gateway.audit(0, 100).await.unwrap().len() as u64 >= next.seq);
}

#[tokio::test(start_paused = true)]
async fn a_handlers_failure_is_told_by_code_and_message_and_its_cause_stays_inside() {
    let gateway = World::new(1).start().await;
    for (what, code, says) in [
        ("error", "teapot", "I am a teapot."),
        ("foreign", "handler_error", "The tool failed; the operator's log has the cause."),
    ] {
        let end = gateway.approved("lab.fail", json!({ "what": what })).await;
        assert_eq!(end.status, Status::Failed);
        let error = end.error.unwrap();
        assert_eq!(error.code, code);
        assert!(error.message.contains(says) && !error.message.contains("hunter2"), "{}", error.message);
    }
}
