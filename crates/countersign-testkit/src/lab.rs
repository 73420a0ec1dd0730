//! The tools that tests call: each stands for one way a tool can behave, and writes into the [`Ledger`] when it is entered and what
//! effects it has.

pub mod awkward;

use std::time::Duration;

use async_trait::async_trait;
use countersign_kernel::ports::{Credentials, CredentialsError};
use countersign_sdk::{
    Approval, Approved, AuthProvider, Ctx, ElicitationResponse, ExposeSecret, Form, Plugin, Principal,
    Remember, SecretString, Tool, ToolError, elicit,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ledger::{Effect, Entry, Ledger};

/// Names something.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct What {
    /// The thing.
    pub what: String,
}

/// An amount of money.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// How much.
    pub amount: u64,
}

/// How long to take.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    /// In milliseconds.
    pub ms: u64,
}

/// Nothing.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// What a tool did.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    /// Whether it did anything.
    pub done: bool,
}

/// Which warehouse.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Warehouse {
    /// Its id.
    pub warehouse_id: String,
}

/// How to ask, and about what.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Asking {
    /// Through the context, or through the free function.
    pub style: Style,
    /// The tool that is to be approved, where it is not the running one.
    pub tool_path: Option<String>,
    /// What is shown, where it is not the call's own arguments.
    pub args: Option<Value>,
    /// How long a yes counts, where the handler says so.
    #[schemars(with = "Option<String>")]
    pub remember: Option<Remember>,
}

/// What is to be destroyed, and how its handler asks about it once more.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Sure {
    /// The thing.
    pub what: String,
    /// What the handler asks about.
    pub about: About,
}

/// What a handler asks about.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// Nothing in particular: `ctx.confirm`.
    Nothing,
    /// The call, without its arguments.
    Call,
    /// The call's own arguments, named.
    Same,
    /// Other arguments.
    Other,
    /// Another tool.
    Elsewhere,
}

/// The two ways to ask.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// `ctx.elicit(…)`.
    Method,
    /// `elicit(&ctx, …)`.
    Function,
}

/// Credentials that tests hand out: provider and token, the same for every caller.
pub struct Keyring(pub Vec<(&'static str, &'static str)>);

#[async_trait]
impl Credentials for Keyring {
    async fn token(
        &self,
        provider: &AuthProvider,
        _: &Principal,
    ) -> Result<Option<SecretString>, CredentialsError> {
        let found = self.0.iter().find(|(id, _)| *id == provider.id);
        Ok(found.map(|(_, token)| SecretString::from(*token)))
    }
}

/// The plugin of all lab tools.
pub fn plugin(ledger: &Ledger) -> Plugin {
    Plugin::new("lab", "Lab", "Tools for tests.")
        .auth(AuthProvider::oauth2("github").scopes(["repo"]))
        .tool(
            Tool::new("lab.read")
                .name("Read")
                .describe("Gives back what it gets.")
                .handler(async |_: Ctx, input: What| -> Result<What, ToolError> { Ok(input) }),
        )
        .tool(destroy("lab.destroy", ledger, Remember::Session))
        .tool(destroy("lab.destroy_each", ledger, Remember::Call))
        .tool(put(ledger))
        .tool(transfer(ledger))
        .tool(form())
        .tool(confirm(ledger))
        .tool(asking(ledger))
        .tool(sure(ledger))
        .tool(steps(ledger))
        .tool(two_questions(ledger))
        .tool(failing())
        .tool(leaking())
        .tool(slow(ledger))
}

/// Notes that a handler was entered.
fn enter(ctx: &Ctx, ledger: &Ledger) {
    ledger.entry(Entry { tool: ctx.path().to_string(), key: ctx.idempotency_key().to_owned() });
}

/// Has an effect in the ledger, under the name of the running call.
pub async fn happen(ctx: &Ctx, ledger: &Ledger, what: &str) {
    let effect = Effect {
        execution: ctx.execution_id().to_owned(),
        tool: ctx.path().to_string(),
        what: what.to_owned(),
        key: ctx.idempotency_key().to_owned(),
    };
    ledger.effect(effect).await;
}

fn destroy(path: &str, ledger: &Ledger, remember: Remember) -> Tool {
    let ledger = ledger.clone();
    Tool::new(path)
        .name("Destroy")
        .describe("Destroys something for good.")
        .remember(remember)
        .destructive(|i: &What| format!("Permanently destroy \"{}\"? This cannot be undone.", i.what))
        .handler(move |ctx: Ctx, input: Approved<What>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                happen(&ctx, &ledger, &input.what).await;
                Ok(Done { done: true })
            }
        })
}

fn put(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.put")
        .name("Put")
        .describe("Puts something in its place; putting it twice is putting it once.")
        .idempotent()
        .destructive(|i: &What| format!("Put \"{}\"?", i.what))
        .handler(move |ctx: Ctx, input: Approved<What>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                happen(&ctx, &ledger, &input.what).await;
                Ok(Done { done: true })
            }
        })
}

fn transfer(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.transfer").name("Transfer").describe("Asks from inside, above 10,000.").handler(
        move |ctx: Ctx, input: Amount| {
            let ledger = ledger.clone();
            async move {
                if input.amount > 10_000 {
                    let answer = ctx.elicit(Approval::new("Large transfer exceeding $10,000")).await?;
                    if !answer.approved {
                        return Err(ToolError::denied("Transfer denied by user"));
                    }
                }
                happen(&ctx, &ledger, &input.amount.to_string()).await;
                Ok(Done { done: true })
            }
        },
    )
}

fn form() -> Tool {
    Tool::new("lab.form").name("Form").describe("Asks which warehouse.").handler(
        async |ctx: Ctx, _: Nothing| -> Result<serde_json::Value, ToolError> {
            match ctx.elicit(Form::<Warehouse>::new("Which warehouse should I check?")).await? {
                Some(answer) => Ok(json!({ "warehouseId": answer.warehouse_id, "units": 7 })),
                None => Ok(json!({ "cancelled": true })),
            }
        },
    )
}

fn confirm(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.confirm").name("Confirm").describe("Confirms, then acts.").handler(
        move |ctx: Ctx, _: Nothing| {
            let ledger = ledger.clone();
            async move {
                let yes = ctx.confirm("Remove 5 completed todos? This cannot be undone.").await?;
                if yes {
                    happen(&ctx, &ledger, "removed").await;
                }
                Ok::<_, ToolError>(Done { done: yes })
            }
        },
    )
}

fn asking(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.elicit")
        .name("Elicit")
        .describe("Asks as it is told, and gives back the answer it got.")
        .handler(move |ctx: Ctx, input: Asking| {
            let ledger = ledger.clone();
            async move {
                let mut question = Approval::new("May I?");
                if let Some(path) = input.tool_path {
                    question = question.tool_path(path);
                }
                if let Some(args) = input.args {
                    question = question.args(args);
                }
                if let Some(remember) = input.remember {
                    question = question.remember(remember);
                }
                let answer: ElicitationResponse = match input.style {
                    Style::Method => ctx.elicit(question).await?,
                    Style::Function => elicit(&ctx, question).await?,
                };
                if answer.approved {
                    happen(&ctx, &ledger, "asked").await;
                }
                Ok::<_, ToolError>(serde_json::to_value(answer)?)
            }
        })
}

fn sure(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.sure")
        .name("Sure")
        .describe("Destroys something, and asks by itself although the gate does.")
        .destructive(|i: &Sure| format!("Destroy \"{}\"?", i.what))
        .handler(move |ctx: Ctx, input: Approved<Sure>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                let question = Approval::new("Sure?");
                let sure = match input.about {
                    About::Nothing => ctx.confirm("Sure?").await?,
                    About::Call => ctx.elicit(question).await?.approved,
                    About::Same => ctx.elicit(question.args(json!(*input))).await?.approved,
                    About::Other => ctx.elicit(question.args(json!({ "what": "all" }))).await?.approved,
                    About::Elsewhere => ctx.elicit(question.tool_path("lab.put")).await?.approved,
                };
                if sure {
                    happen(&ctx, &ledger, &input.what).await;
                }
                Ok::<_, ToolError>(Done { done: sure })
            }
        })
}

fn steps(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.steps")
        .name("Steps")
        .describe("Two recorded steps with a question between them.")
        .idempotent()
        .destructive(|i: &What| format!("Run the steps for \"{}\"?", i.what))
        .handler(move |ctx: Ctx, _: Approved<What>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                let first: u64 = ctx
                    .step("first", async || {
                        happen(&ctx, &ledger, "first").await;
                        Ok(1)
                    })
                    .await?;
                // It is about something else than the call that the gate asked about.
                let go_on = Approval::new("Go on to the second step?").args(json!({ "step": 2 }));
                if !ctx.elicit(go_on).await?.approved {
                    return Ok(Done { done: false });
                }
                let second: u64 = ctx
                    .step("second", async || {
                        happen(&ctx, &ledger, "second").await;
                        Ok(first + 1)
                    })
                    .await?;
                Ok::<_, ToolError>(Done { done: second == 2 })
            }
        })
}

fn two_questions(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.two").name("Two").describe("Asks two questions at once.").handler(
        move |ctx: Ctx, _: Nothing| {
            let ledger = ledger.clone();
            async move {
                let (a, b) = tokio::join!(ctx.confirm("First?"), ctx.confirm("Second?"));
                let both = a? && b?;
                if both {
                    happen(&ctx, &ledger, "both").await;
                }
                Ok::<_, ToolError>(Done { done: both })
            }
        },
    )
}

fn failing() -> Tool {
    Tool::new("lab.fail")
        .name("Fail")
        .describe("Fails as told: `error`, `panic`, or with a foreign error.")
        .destructive(|i: &What| format!("Fail by {}?", i.what))
        .handler(async |_: Ctx, input: Approved<What>| -> Result<Done, ToolError> {
            match input.what.as_str() {
                "panic" => std::panic::resume_unwind(Box::new("a handler's bug")),
                "foreign" => Err(std::io::Error::other("password=hunter2"))?,
                _ => Err(ToolError::with_code("teapot", "I am a teapot.")),
            }
        })
}

fn leaking() -> Tool {
    Tool::new("lab.leak")
        .name("Leak")
        .describe("Puts the caller's token everywhere it can.")
        .auth_provider("github")
        .handler(async |ctx: Ctx, input: What| -> Result<What, ToolError> {
            let token = ctx.auth().token("github").await?;
            let secret = token.expose_secret();
            ctx.logger().info("token", json!({ "is": secret }));
            match input.what.as_str() {
                "error" => Err(ToolError::new(format!("bad token {secret}"))),
                "ask" => {
                    let yes = ctx
                        .elicit(Approval::new(format!("Use {secret}?")).args(json!({ "token": secret })))
                        .await?;
                    Ok(What { what: format!("{} {secret}", yes.approved) })
                }
                "step" => ctx.step("leak", async || Ok(What { what: secret.to_owned() })).await,
                _ => Ok(What { what: secret.to_owned() }),
            }
        })
}

fn slow(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("lab.slow")
        .name("Slow")
        .describe("Takes its time between start and effect.")
        .destructive(|i: &Slow| format!("Take {} ms?", i.ms))
        .handler(move |ctx: Ctx, input: Approved<Slow>| {
            let ledger = ledger.clone();
            async move {
                enter(&ctx, &ledger);
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(Duration::from_millis(input.ms)) => {}
                    () = ctx.cancelled() => return Err(ToolError::new("Stopped before the effect.")),
                }
                happen(&ctx, &ledger, "slow").await;
                Ok::<_, ToolError>(Done { done: true })
            }
        })
}

/// What `github.issues.list` takes, as in seed 002.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListIssues {
    /// Repository owner.
    pub owner: String,
    /// Repository name.
    pub repo: String,
    /// Which issues.
    #[serde(default)]
    pub state: IssueState,
    /// Only with these labels.
    pub labels: Option<Vec<String>>,
    /// How many.
    #[serde(default = "thirty")]
    #[schemars(range(min = 1))]
    pub limit: u32,
}

/// Which issues.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IssueState {
    /// Those that are open.
    #[default]
    Open,
    /// Those that are closed.
    Closed,
    /// Both.
    All,
}

fn thirty() -> u32 {
    30
}

/// What `github.issues.create` takes, as in seed 000.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreateIssue {
    /// Repository owner.
    pub owner: String,
    /// Repository name.
    pub repo: String,
    /// The issue's title.
    pub title: String,
    /// The issue's text.
    pub body: Option<String>,
    /// Its labels.
    pub labels: Option<Vec<String>>,
}

/// A new issue.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Issue {
    /// Its number.
    pub number: u64,
    /// Where it is.
    pub url: String,
}

/// The seeds' example plugin, with the ledger in place of GitHub.
pub fn github(ledger: &Ledger) -> Plugin {
    Plugin::new("github", "GitHub", "GitHub issues, pull requests, and repository operations.")
        .auth(AuthProvider::oauth2("github").scopes(["repo", "read:user"]))
        .tool(
            Tool::new("github.issues.list")
                .name("List Issues")
                .describe("List issues in a GitHub repository, optionally filtered by state and labels.")
                .auth_provider("github")
                .handler(async |ctx: Ctx, input: ListIssues| -> Result<Value, ToolError> {
                    ctx.auth().token("github").await?;
                    ctx.logger().info(
                        "Fetching issues",
                        json!({ "repo": format!("{}/{}", input.owner, input.repo) }),
                    );
                    Ok(json!({ "issues": [], "asked": input }))
                }),
        )
        .tool(create_issue(ledger))
        .tool(
            Tool::new("github.logs.export")
                .name("Export Logs")
                .describe("Exports the audit log, for background jobs too.")
                .service_account_allowed()
                .handler(async |_: Ctx, _: Nothing| -> Result<Done, ToolError> { Ok(Done { done: true }) }),
        )
}

fn create_issue(ledger: &Ledger) -> Tool {
    let ledger = ledger.clone();
    Tool::new("github.issues.create")
        .name("Create Issue")
        .describe("Create a new issue in a GitHub repository.")
        .auth_provider("github")
        .destructive(|i: &CreateIssue| format!("Create issue \"{}\" in {}/{}?", i.title, i.owner, i.repo))
        .handler(move |ctx: Ctx, input: Approved<CreateIssue>| {
            let ledger = ledger.clone();
            async move {
                let question = Approval::new(format!("Create issue \"{}\"?", input.title))
                    .tool_path("github.issues.create");
                if !ctx.elicit(question).await?.approved {
                    return Err(ToolError::denied("Issue creation denied by user"));
                }
                ctx.auth().token("github").await?;
                happen(&ctx, &ledger, &input.title).await;
                Ok(Issue {
                    number: 1,
                    url: format!("https://github.com/{}/{}/issues/1", input.owner, input.repo),
                })
            }
        })
}
