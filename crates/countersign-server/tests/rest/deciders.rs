//! Every way to decide over REST and the console, by every credential: only people get through, and the audit names the
//! user, whatever credential they used.

use countersign_kernel::NewToken;
use countersign_sdk::{ExposeSecret as _, Role};
use reqwest::Method;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::house::{House, Waiting, Who, until};

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

/// How it tries to decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `POST /api/elicitation/{eli}/resolve`.
    Resolve,
    /// The same by the execution's id.
    ResolveExecution,
    /// `POST /api/executions/{id}/resume`.
    Resume,
    /// No instead of yes, by the question's id.
    Deny,
    /// The same by the execution's id, with `resume`.
    DenyByResume,
    /// `POST /api/executions/{id}/settle`, for a call that is in doubt.
    Settle,
    /// A remembered approval for the session, then the call again.
    Grant,
    /// The console, after logging in with the token.
    Console,
    /// The console, by a login link that the token asks for.
    Link,
    /// The console, by an invite link for the token's user that the token asks for.
    Invite,
}

const WAYS: [Way; 10] = [
    Way::Resolve,
    Way::ResolveExecution,
    Way::Resume,
    Way::Deny,
    Way::DenyByResume,
    Way::Settle,
    Way::Grant,
    Way::Console,
    Way::Link,
    Way::Invite,
];

impl Way {
    /// The transition of the audit that it leads to.
    fn transition(self) -> &'static str {
        match self {
            Self::Settle => "DoubtSettled",
            Self::Grant => "GrantGiven",
            _ => "Decided",
        }
    }

    /// Whether it lets these people through. Only an admin invites.
    fn counts_for(self, holder: Holder) -> bool {
        holder == Holder::Admin || (holder == Holder::Approver && self != Self::Invite)
    }
}

#[tokio::test]
async fn only_people_decide_and_the_record_names_the_user() {
    for holder in HOLDERS {
        for way in WAYS {
            let house = House::with(|options| {
                options.limits.failures_per_second = std::num::NonZeroU32::MAX;
            })
            .await;
            let (house, waiting) = match way {
                Way::Settle => in_doubt(house).await,
                _ => {
                    let waiting = house.wants_to_destroy("it").await;
                    (house, waiting)
                }
            };
            // An operator's decision is on record where the call came into doubt; it is not what is tried here.
            let before = told(&house, way).await.len();
            let (secret, user) = token(&house, holder).await;
            attempt(&house, &secret, &waiting, way).await;
            let names: Vec<Value> = told(&house, way).await.split_off(before);
            let case = format!("{holder:?} by {way:?}");
            if !way.counts_for(holder) {
                assert_eq!(names, [Value::Null; 0], "{case}");
                assert_eq!(house.effects(), [""; 0], "{case}");
                let path = format!("/api/executions/{}", waiting.execution);
                assert_eq!(house.get(Who::Admin, &path).await.with(200)["status"], still(way), "{case}");
                continue;
            }
            assert_eq!(names, [json!(user)], "{case}: the audit names the user");
            came_of_it(&house, &waiting, &user, way, &case).await;
        }
    }
}

/// The result of a decision that a person made.
async fn came_of_it(house: &House, waiting: &Waiting, user: &str, way: Way, case: &str) {
    let asked = house.get(Who::Admin, &format!("/api/elicitation/{}", waiting.elicitation)).await.with(200);
    let decision = &asked["decision"];
    match way {
        Way::Settle => {
            assert_eq!(house.end_of(&waiting.execution).await["status"], "failed", "{case}");
            assert_eq!(house.effects(), [""; 0], "{case}: nothing is run on suspicion");
        }
        Way::Grant => {
            assert_eq!(*decision, Value::Null, "{case}: a grant decides later calls, not this one");
            let path = format!("/api/sessions/{}/approvals", asked["sessionId"].as_str().unwrap());
            let given = house.get(Who::Admin, &path).await.with(200);
            assert_eq!(given["items"][0]["by"], json!(user), "{case}: the approval names the user");
            house.call("lab.destroy", json!({ "what": "later" })).await.with(200);
            assert_eq!(house.effects(), ["later"], "{case}");
        }
        _ => {
            let is_no = matches!(way, Way::Deny | Way::DenyByResume);
            let (outcome, effects): (_, &[&str]) =
                if is_no { ("denied", &[]) } else { ("approved", &["it"]) };
            assert_eq!(house.effects(), effects, "{case}");
            assert_eq!((&decision["by"], &decision["outcome"]), (&json!(user), &json!(outcome)), "{case}");
            let by_login = matches!(way, Way::Console | Way::Link | Way::Invite);
            assert_eq!(decision["proof"], if by_login { "login" } else { "token" }, "{case}");
        }
    }
}

/// Where an execution stands that nobody had anything to say about.
fn still(way: Way) -> &'static str {
    if way == Way::Settle { "in_doubt" } else { "paused" }
}

/// Who did what this way leads to, as the audit says over REST, in order.
async fn told(house: &House, way: Way) -> Vec<Value> {
    let audit = house.get(Who::Admin, "/api/audit?limit=1000").await.with(200);
    let records = audit["items"].as_array().unwrap().iter();
    let transitions = records.flat_map(|record| record["transitions"].as_array().unwrap());
    let ours = transitions.filter(|transition| transition["what"] == way.transition());
    ours.map(|transition| transition["by"].clone()).collect()
}

/// A call that was let on when its process died.
async fn in_doubt(house: House) -> (House, Waiting) {
    let waiting = house.asks("lab.slow", json!({ "ms": 60_000 })).await;
    house.resolve(Who::OtherApprover, &waiting.elicitation, true).await.with(200);
    let path = format!("/api/executions/{}", waiting.execution);
    until("the handler runs", async || house.get(Who::Agent, &path).await.with(200)["status"] == "running")
        .await;
    (house.after_a_crash().await, waiting)
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
async fn attempt(house: &House, secret: &str, waiting: &Waiting, way: Way) {
    let Waiting { execution, elicitation } = waiting;
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
        Way::Deny => {
            let no = json!({ "approved": false });
            drop(post(&format!("/api/elicitation/{elicitation}/resolve"), no).await);
        }
        Way::DenyByResume => {
            let no = json!({ "approved": false });
            drop(post(&format!("/api/executions/{execution}/resume"), no).await);
        }
        Way::Settle => {
            let failed = json!({ "call": 0, "as": "failed", "reason": "it never arrived" });
            drop(post(&format!("/api/executions/{execution}/settle"), failed).await);
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
            by_link(house, &link, elicitation).await;
        }
        Way::Invite => {
            let link = post("/api/users/somebody/invite", json!(null)).await;
            by_link(house, &link, elicitation).await;
        }
    }
    // What was approved runs by itself; it is waited for.
    let asked = house.get(Who::Admin, &format!("/api/elicitation/{elicitation}")).await.with(200);
    if !asked["decision"].is_null() && way != Way::Settle {
        house.end_of(execution).await;
    }
}

/// Follows the link in an answer, if there is one.
async fn by_link(house: &House, link: &Answer, elicitation: &str) {
    let code = link.text.split("code=").nth(1).and_then(|rest| rest.split('"').next());
    in_console(house, &format!("code={}", code.unwrap_or("none")), elicitation).await;
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
