//! Every way to decide over MCP, by every credential: only a person at an attended client gets through, only for that
//! client's own calls, and the record names the user.

use countersign_core::elicitation::Decider;
use countersign_kernel::{CallRequest, NewToken, Patience, UserChange, UserStatus};
use countersign_sdk::{Role, SessionId};
use serde_json::{Value, json};

use crate::client::{Client, Era, Stream, approve};
use crate::house::{House, Key};

/// Whose token a client shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Agent,
    AttendedAgent,
    Service,
    Worker,
    /// A person's own token, in a client that nobody declared attended.
    Approver,
    Admin,
    /// An attended agent of another user who may decide.
    AttendedAgentOfApprover,
    /// The token of an admin who is disabled once the call waits.
    DisabledAdmin,
    /// An attended agent whose owner may own agents and not decide.
    AttendedAgentOfReader,
    /// An attended agent whose owner is disabled once the call waits.
    AttendedAgentOfDisabled,
    /// An attended agent whose token is revoked once the call waits.
    AttendedRevoked,
    /// An attended agent whose token expires once the call waits.
    AttendedExpired,
}

const HOLDERS: [Holder; 12] = [
    Holder::Agent,
    Holder::AttendedAgent,
    Holder::Service,
    Holder::Worker,
    Holder::Approver,
    Holder::Admin,
    Holder::AttendedAgentOfApprover,
    Holder::DisabledAdmin,
    Holder::AttendedAgentOfReader,
    Holder::AttendedAgentOfDisabled,
    Holder::AttendedRevoked,
    Holder::AttendedExpired,
];

impl Holder {
    /// Those who may not call try to decide what an agent called.
    fn calls_nothing(self) -> bool {
        matches!(self, Self::Worker | Self::Approver)
    }

    /// Whether a person who may decide sits at its client.
    fn vouches(self) -> bool {
        matches!(self, Self::AttendedAgent | Self::AttendedAgentOfApprover)
    }
}

/// How a client tries to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `elicitation/create` of the 2025 era, answered with accept.
    Prompt(Era),
    /// The same, put to another client, and answered in that client's conversation.
    ForeignPrompt(Era),
    /// An `InputRequiredResult` of 2026-07-28, answered with its state.
    Round,
    /// The same, with the state of another client's call.
    ForeignState,
    /// `tasks/update`.
    Task,
    /// The same, for the task of another client.
    ForeignTask,
    /// `tasks/update` for an execution that the same token began over REST.
    TaskOfRest,
    /// `resume { approved: true }`.
    Resume,
}

const WAYS: [Way; 10] = [
    Way::Prompt(Era::June2025),
    Way::Prompt(Era::November2025),
    Way::ForeignPrompt(Era::June2025),
    Way::ForeignPrompt(Era::November2025),
    Way::Round,
    Way::ForeignState,
    Way::Task,
    Way::ForeignTask,
    Way::TaskOfRest,
    Way::Resume,
];

impl Way {
    /// Whether another client calls what is to be decided.
    fn is_foreign(self) -> bool {
        matches!(self, Self::ForeignPrompt(_) | Self::ForeignState | Self::ForeignTask)
    }
}

#[tokio::test]
async fn only_a_person_at_an_attended_client_decides_and_only_its_own_calls() {
    for holder in HOLDERS {
        for way in WAYS {
            let house = House::with(|options| options.hold = std::time::Duration::from_millis(50)).await;
            let key = token(&house, holder).await;
            attempt(&house, &key, holder, way).await;
            let counts = holder.vouches() && matches!(way, Way::Prompt(_) | Way::Round | Way::Task);
            let expected: &[&str] = if counts { &["it"] } else { &[] };
            if counts {
                until_effects(&house, 1).await;
            }
            assert_eq!(house.effects(), expected, "{holder:?} by {way:?}");
            let users = house.gateway.users().await.unwrap();
            let is_of_bob = holder == Holder::AttendedAgentOfApprover;
            let owner = users.iter().find(|user| !is_of_bob || user.name == "bob").unwrap().id.to_string();
            let audited: Vec<String> = if counts { vec![owner.clone()] } else { Vec::new() };
            assert_eq!(deciders(&house).await, audited, "{holder:?} by {way:?}: the audit names the user");
            let question = house.only_question().await;
            match question.decision {
                Some(decision) if counts => {
                    let Decider::Person { principal, .. } = decision.by else { panic!("{:?}", decision.by) };
                    assert_eq!(principal.as_str(), owner, "{holder:?} by {way:?}");
                }
                None if !counts => {}
                other => panic!("{holder:?} by {way:?}: {other:?}"),
            }
        }
    }
}

/// Who decided, as the audit says.
async fn deciders(house: &House) -> Vec<String> {
    let records = house.gateway.audit(0, 1_000).await.unwrap();
    let entries = records.iter().flat_map(|record| record.parse().unwrap());
    let decided = entries.filter(|entry| entry.what == "Decided");
    decided.map(|entry| entry.by.map(|by| by.to_string()).unwrap_or_default()).collect()
}

async fn until_effects(house: &House, number: usize) {
    for _ in 0..6_000 {
        if house.effects().len() >= number {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn token(house: &House, holder: Holder) -> Key {
    let operator = house.gateway.ensure_operator("operator").await.unwrap().id;
    let name = format!("{holder:?}");
    let new = match holder {
        Holder::Agent => NewToken::new(&name, Role::Agent).of(operator),
        Holder::Service => NewToken::new(&name, Role::Service).of(operator),
        Holder::Worker => NewToken::new(&name, Role::Worker).of(operator),
        Holder::Approver => NewToken::new(&name, Role::Approver).of(operator),
        Holder::Admin => NewToken::new(&name, Role::Admin).of(operator),
        Holder::AttendedAgentOfApprover => {
            let bob = house.gateway.create_user("bob", vec![Role::Approver], None).await.unwrap().id;
            NewToken::new(&name, Role::Agent).of(bob).attended()
        }
        Holder::DisabledAdmin => {
            let bob = house.gateway.create_user("bob", vec![Role::Admin], None).await.unwrap().id;
            NewToken::new(&name, Role::Admin).of(bob)
        }
        Holder::AttendedAgentOfReader => {
            let reader = house.gateway.create_user("reader", vec![], None).await.unwrap().id;
            NewToken::new(&name, Role::Agent).of(reader).attended()
        }
        Holder::AttendedAgentOfDisabled => {
            let bob = house.gateway.create_user("bob", vec![Role::Approver], None).await.unwrap().id;
            NewToken::new(&name, Role::Agent).of(bob).attended()
        }
        Holder::AttendedExpired => {
            let end = house.gateway.now().after(std::time::Duration::from_secs(60));
            NewToken::new(&name, Role::Agent).of(operator).attended().until(end)
        }
        Holder::AttendedAgent | Holder::AttendedRevoked => {
            NewToken::new(&name, Role::Agent).of(operator).attended()
        }
    };
    house.key_for(new).await
}

/// Takes the authority away from those who lose it while their call waits.
async fn lose_authority(house: &House, key: &Key, holder: Holder) {
    match holder {
        Holder::AttendedAgentOfDisabled | Holder::DisabledAdmin => {
            let users = house.gateway.users().await.unwrap();
            let bob = users.iter().find(|user| user.name == "bob").unwrap().id;
            let change = UserChange { status: Some(UserStatus::Disabled), ..UserChange::default() };
            house.gateway.change_user(bob, change, None).await.unwrap();
        }
        Holder::AttendedRevoked => house.gateway.revoke_token(key.id, None).await.unwrap(),
        Holder::AttendedExpired => house.world.clock.jump(61_000),
        _ => {}
    }
}

/// A destructive tool that this credential may call, and its arguments.
fn tool(holder: Holder) -> (&'static str, Value) {
    match holder {
        Holder::Service => ("shop__sweep", json!({})),
        _ => destroy_it(),
    }
}

fn destroy_it() -> (&'static str, Value) {
    ("lab__destroy", json!({ "what": "it" }))
}

/// Calls, and then tries to decide what it called. Whatever the server answers, what counts is what it did.
#[expect(clippy::too_many_lines, reason = "one arm for each way to decide")]
async fn attempt(house: &House, key: &Key, holder: Holder, way: Way) {
    let able = json!({ "elicitation": {} });
    let with_tasks = json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let (tool, args) = tool(holder);
    if holder.calls_nothing() && !way.is_foreign() && way != Way::TaskOfRest {
        let agent = house.unattended_key().await;
        calls_over_rest(house, &agent, tool, args.clone()).await;
    }
    match way {
        Way::Prompt(era) => {
            let client = house.client_that(key, era, able).await;
            let mut call = client.begin(tool, args).await;
            house.until_open(1).await;
            if let Some(prompt) = prompted(&mut call).await {
                lose_authority(house, key, holder).await;
                let answer = json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": approve() });
                whatever(client.send(&answer).await).await;
            }
        }
        Way::ForeignPrompt(era) => {
            let (tool, args) = destroy_it();
            let theirs = house.client(era).await;
            let mut call = theirs.begin(tool, args).await;
            let prompt = prompted(&mut call).await.expect("an attended client is asked");
            lose_authority(house, key, holder).await;
            let answer = json!({ "jsonrpc": "2.0", "id": prompt["id"], "result": approve() });
            let mut client = house.client_that(key, Era::July2026, able).await;
            client.era = era;
            // In no conversation, and in the one that was asked.
            whatever(client.send(&answer).await).await;
            client.session.clone_from(&theirs.session);
            whatever(client.send(&answer).await).await;
        }
        Way::Round | Way::ForeignState => {
            let client = house.client_that(key, Era::July2026, able.clone()).await;
            let (tool, args) = if way == Way::Round { (tool, args) } else { destroy_it() };
            let asked = match way {
                Way::Round => client.call(tool, args.clone()).await,
                _ => house.client(Era::July2026).await.call(tool, args.clone()).await,
            };
            let id = house.until_open(1).await[0].elicitation.id.to_string();
            lose_authority(house, key, holder).await;
            // A client that was given no state makes one up.
            let state = asked.get("requestState").cloned().unwrap_or_else(|| json!("AAAA"));
            let said = json!({ id: approve() });
            let params =
                json!({ "name": tool, "arguments": args, "requestState": state, "inputResponses": said });
            whatever(client.send(&client.message("tools/call", params)).await).await;
        }
        Way::Task => {
            let client = house.client_that(key, Era::July2026, with_tasks).await;
            let created = client.call(tool, args).await;
            update_task(house, &client, key, holder, created["taskId"].as_str()).await;
        }
        Way::ForeignTask => {
            let (tool, args) = destroy_it();
            house.client(Era::July2026).await.call(tool, args).await;
            let client = house.client_that(key, Era::July2026, with_tasks).await;
            update_task(house, &client, key, holder, None).await;
        }
        Way::TaskOfRest => {
            let agent = house.unattended_key().await;
            let caller = if holder.calls_nothing() { &agent } else { key };
            let execution = calls_over_rest(house, caller, tool, args).await;
            let client = house.client_that(key, Era::July2026, with_tasks).await;
            update_task(house, &client, key, holder, Some(&execution)).await;
        }
        Way::Resume => {
            let client = house.client_that(key, Era::July2026, json!({})).await;
            client.call(tool, args).await;
            let open = house.until_open(1).await;
            lose_authority(house, key, holder).await;
            let resume = json!({ "execution_id": open[0].execution, "approved": true });
            let params = json!({ "name": "resume", "arguments": resume });
            whatever(client.send(&client.message("tools/call", params)).await).await;
        }
    }
}

/// The question that the server puts to a client, if it puts one.
async fn prompted(call: &mut Stream) -> Option<Value> {
    while let Some(message) = call.next().await {
        if message["method"] == "elicitation/create" {
            return Some(message);
        }
        if message.get("result").is_some() || message.get("error").is_some() {
            return None;
        }
    }
    None
}

/// Reads an answer to its end, whatever it says: what counts is what the server did.
async fn whatever(response: reqwest::Response) {
    let _ = tokio::time::timeout(std::time::Duration::from_secs(20), response.bytes()).await;
}

/// The same token begins an execution over REST, in the session that REST gives it.
async fn calls_over_rest(house: &House, key: &Key, tool: &str, args: Value) -> String {
    let caller = house.gateway.authenticate(&key.secret).await.unwrap().unwrap();
    let session = SessionId::parse(&format!("ses_of_{}", caller.principal.id)).unwrap();
    let session = house.gateway.open_session(&caller, "token", Some(session)).await.unwrap();
    let (path, patience) = (tool.replace("__", "."), Patience::UntilPaused);
    let call = CallRequest { path, args, caller, session, key: None, patience };
    house.gateway.call(call).await.unwrap().execution.to_string()
}

async fn update_task(house: &House, client: &Client, key: &Key, holder: Holder, task: Option<&str>) {
    let open = house.until_open(1).await;
    lose_authority(house, key, holder).await;
    let (id, question) = (open[0].execution.to_string(), open[0].elicitation.id.to_string());
    let task = task.unwrap_or(&id);
    let update = json!({ "taskId": task, "inputResponses": { question: approve() } });
    whatever(client.send(&client.message("tasks/update", update)).await).await;
}
