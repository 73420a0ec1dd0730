//! Every way to decide over REST and the console, by every credential: only people get through, and the record names the
//! user, whatever credential they used.

use countersign_kernel::NewToken;
use countersign_sdk::{ExposeSecret as _, Role};
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Who};

/// Whose token is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    Agent,
    AttendedAgent,
    Service,
    Worker,
    Revoked,
    Expired,
    OfDisabledUser,
    Approver,
    Admin,
}

const HOLDERS: [Holder; 9] = [
    Holder::Agent,
    Holder::AttendedAgent,
    Holder::Service,
    Holder::Worker,
    Holder::Revoked,
    Holder::Expired,
    Holder::OfDisabledUser,
    Holder::Approver,
    Holder::Admin,
];

impl Holder {
    fn is_person(self) -> bool {
        matches!(self, Self::Approver | Self::Admin)
    }
}

/// How it tries to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `POST /api/elicitation/{eli}/resolve`.
    Resolve,
    /// The same by the execution's id.
    ResolveExecution,
    /// `POST /api/executions/{id}/resume`.
    Resume,
    /// A remembered approval for the session, then the call again.
    Grant,
    /// The console, after logging in with the token.
    Console,
    /// The console, by a login link that the token asks for.
    Link,
}

const WAYS: [Way; 6] =
    [Way::Resolve, Way::ResolveExecution, Way::Resume, Way::Grant, Way::Console, Way::Link];

#[tokio::test]
async fn only_people_decide_and_the_record_names_the_user() {
    for holder in HOLDERS {
        for way in WAYS {
            let house = House::with(|options| {
                options.limits.failures_per_second = std::num::NonZeroU32::MAX;
            })
            .await;
            let (secret, user) = token(&house, holder).await;
            let waiting = house.wants_to_destroy("it").await;
            attempt(&house, &secret, &waiting.execution, &waiting.elicitation, way).await;
            let decision = decision_on(&house, &waiting.elicitation).await;
            if !holder.is_person() {
                assert_eq!((house.effects().len(), decision), (0, Value::Null), "{holder:?} by {way:?}");
                continue;
            }
            if way == Way::Grant {
                assert_eq!(decision, Value::Null, "a grant decides later calls, not this one");
                house.call("lab.destroy", json!({ "what": "later" })).await.with(200);
                assert_eq!(house.effects(), ["later"], "{holder:?} by {way:?}");
                continue;
            }
            assert_eq!(house.effects(), ["it"], "{holder:?} by {way:?}");
            assert_eq!(decision["by"], json!(user), "{holder:?} by {way:?}");
            let proof = if matches!(way, Way::Console | Way::Link) { "login" } else { "token" };
            assert_eq!(decision["proof"], proof, "{holder:?} by {way:?}");
        }
    }
}

/// A token, and the user behind it.
async fn token(house: &House, holder: Holder) -> (String, String) {
    let gateway = &house.gateway;
    let operator = gateway.users().await.unwrap()[0].id;
    let user = gateway.create_user("somebody", vec![Role::Admin], None).await.unwrap().id;
    let new = match holder {
        Holder::Agent => NewToken::new("x", Role::Agent),
        Holder::AttendedAgent => NewToken::new("x", Role::Agent).attended(),
        Holder::Service => NewToken::new("x", Role::Service),
        Holder::Worker => NewToken::new("x", Role::Worker),
        Holder::Approver => NewToken::new("x", Role::Approver),
        Holder::Expired => {
            NewToken::new("x", Role::Admin).until(gateway.now().after(std::time::Duration::from_secs(1)))
        }
        Holder::Revoked | Holder::OfDisabledUser | Holder::Admin => NewToken::new("x", Role::Admin),
    };
    let minted = gateway.create_token(new.of(user), None).await.unwrap();
    match holder {
        Holder::Revoked => gateway.revoke_token(minted.row.id, None).await.unwrap(),
        Holder::Expired => house.world.clock.jump(1_001),
        Holder::OfDisabledUser => {
            let status = Some(countersign_kernel::UserStatus::Disabled);
            let change = countersign_kernel::UserChange { roles: None, status };
            gateway.change_user(user, change, None).await.unwrap();
        }
        _ => {}
    }
    assert_ne!(operator, user);
    (minted.secret.expose_secret().to_owned(), user.to_string())
}

/// Tries. Whatever the server answers, what counts is what it did.
async fn attempt(house: &House, secret: &str, execution: &str, elicitation: &str, way: Way) {
    let post = async |path: &str, body: Value| {
        let url = format!("{}{path}", house.base);
        let request = house.http.post(url).bearer_auth(secret).json(&body);
        Answer::of(request.send().await.unwrap()).await
    };
    let yes = json!({ "approved": true, "remember": "call" });
    match way {
        Way::Resolve => drop(post(&format!("/api/elicitation/{elicitation}/resolve"), yes).await),
        Way::ResolveExecution => drop(post(&format!("/api/elicitation/{execution}/resolve"), yes).await),
        Way::Resume => {
            let yes = json!({ "approved": true });
            drop(post(&format!("/api/executions/{execution}/resume"), yes).await);
        }
        Way::Grant => {
            let asked = house.get(Who::Admin, &format!("/api/elicitation/{elicitation}")).await.with(200);
            let session = asked["sessionId"].as_str().unwrap();
            let grant = json!({ "toolPath": "lab.destroy" });
            drop(post(&format!("/api/sessions/{session}/approvals"), grant).await);
        }
        Way::Console => in_console(house, &format!("token={secret}"), elicitation).await,
        Way::Link => {
            let link = post("/api/login-links", json!(null)).await;
            let code = link.text.split("code=").nth(1).and_then(|rest| rest.split('"').next());
            in_console(house, &format!("code={}", code.unwrap_or("none")), elicitation).await;
        }
    }
    // What was approved runs by itself; it is waited for.
    house.get(Who::Admin, &format!("/api/executions/{execution}")).await.with(200);
    let status = decision_on(house, elicitation).await;
    if !status.is_null() {
        house.end_of(execution).await;
    }
}

async fn decision_on(house: &House, elicitation: &str) -> Value {
    house.get(Who::Admin, &format!("/api/elicitation/{elicitation}")).await.with(200)["decision"].clone()
}

/// Logs in with what a form says, and approves as a page of the console does.
async fn in_console(house: &House, form: &str, elicitation: &str) {
    let request = house.http.post(format!("{}/login", house.base));
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
    let welcome = Answer::of(request.send().await.unwrap()).await;
    if welcome.status != 200 {
        return;
    }
    let cookie = welcome.header("set-cookie").split(';').next().unwrap().to_owned();
    let key = welcome.text.split("data-csrf=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let request =
        house.http.request(Method::POST, format!("{}/api/elicitation/{elicitation}/resolve", house.base));
    let request = request.header("cookie", cookie).header("x-csrf-token", key);
    request.json(&json!({ "approved": true, "remember": "call" })).send().await.unwrap();
}
