//! A whole plugin: GitHub issues and repositories, and a `main` of your own around it.
//!
//! ```text
//! export GITHUB_TOKEN=…
//! cargo run --example github -- tools
//! cargo run --example github -- call github.issues.list '{"owner":"rust-lang","repo":"cargo","limit":3}'
//! cargo run --example github -- call github.issues.create '{"owner":"me","repo":"sandbox","title":"It works"}'
//! ```
//!
//! The first two flow through. The third waits for you: nothing reaches GitHub before you say yes, and then exactly what you
//! saw does, once. Every other command (`inbox`, `approve`, `executions`, …) is there too.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use countersign::sdk::{Approved, AuthProvider, Ctx, ExposeSecret as _, Plugin, Tool, ToolError};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

const DEFAULT_API: &str = "https://api.github.com";
/// GitHub gives up after ten seconds; a little more makes sure that we hear of it.
const PATIENCE: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    countersign::App::new().plugin(plugin(&api_url())).run()
}

#[expect(clippy::disallowed_methods, reason = "this example's own variable; the product never reads it")]
fn api_url() -> String {
    std::env::var("GITHUB_API_URL")
        .ok()
        .filter(|url| !url.is_empty())
        .unwrap_or_else(|| DEFAULT_API.to_owned())
}

/// The plugin, against GitHub or something that answers like it.
pub fn plugin(base_url: &str) -> Plugin {
    let api = Arc::new(Api { client: client(), base_url: base_url.trim_end_matches('/').to_owned() });
    Plugin::new("github", "GitHub", "GitHub issues, pull requests, and repository operations.")
        .version(env!("CARGO_PKG_VERSION"))
        .auth(AuthProvider::oauth2("github").scopes(["repo", "read:user"]))
        .tool(list_issues(Arc::clone(&api)))
        .tool(create_issue(Arc::clone(&api)))
        .tool(search_repositories(api))
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ListIssues {
    /// Repository owner
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,100}$"))]
    owner: String,
    /// Repository name
    #[schemars(regex(pattern = r"^\.?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$"))]
    repo: String,
    /// Which issues
    #[serde(default)]
    state: IssueState,
    /// Only issues with all of these
    labels: Option<Vec<String>>,
    /// How many at most
    #[serde(default = "thirty")]
    #[schemars(range(min = 1, max = 100))]
    limit: u8,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum IssueState {
    #[default]
    Open,
    Closed,
    All,
}

impl IssueState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::All => "all",
        }
    }
}

fn thirty() -> u8 {
    30
}

#[derive(Debug, Serialize, JsonSchema)]
struct IssueList {
    issues: Vec<Issue>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Issue {
    number: u64,
    title: String,
    state: String,
    labels: Vec<String>,
    created_at: String,
    url: String,
}

fn list_issues(api: Arc<Api>) -> Tool {
    /// What GitHub answers, as far as we need it.
    #[derive(Deserialize)]
    struct Found {
        number: u64,
        title: String,
        state: String,
        labels: Vec<Label>,
        created_at: String,
        html_url: String,
    }
    #[derive(Deserialize)]
    struct Label {
        name: String,
    }
    Tool::new("github.issues.list")
        .name("List Issues")
        .describe("List issues in a GitHub repository, optionally filtered by state and labels.")
        .auth_provider("github")
        .open_world()
        .handler(move |ctx: Ctx, input: ListIssues| {
            let api = Arc::clone(&api);
            async move {
                let ListIssues { owner, repo, state, labels, limit } = input;
                ctx.logger().info("Fetching issues", json!({ "repo": format!("{owner}/{repo}") }));
                let mut query = vec![("state", state.as_str().to_owned()), ("per_page", limit.to_string())];
                query.extend(labels.filter(|l| !l.is_empty()).map(|labels| ("labels", labels.join(","))));
                let path = format!("/repos/{owner}/{repo}/issues");
                let found: Vec<Found> = answer(api.request(&ctx, Method::GET, &path, &query).await?).await?;
                let issues = found.into_iter().map(|issue| Issue {
                    number: issue.number,
                    title: issue.title,
                    state: issue.state,
                    labels: issue.labels.into_iter().map(|label| label.name).collect(),
                    created_at: issue.created_at,
                    url: issue.html_url,
                });
                Ok::<_, ToolError>(IssueList { issues: issues.collect() })
            }
        })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct CreateIssue {
    /// Repository owner
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,100}$"))]
    owner: String,
    /// Repository name
    #[schemars(regex(pattern = r"^\.?[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}$"))]
    repo: String,
    title: String,
    body: Option<String>,
    labels: Option<Vec<String>>,
    assignees: Option<Vec<String>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CreatedIssue {
    number: u64,
    url: String,
}

fn create_issue(api: Arc<Api>) -> Tool {
    #[derive(Deserialize)]
    struct Created {
        number: u64,
        html_url: String,
    }
    Tool::new("github.issues.create")
        .name("Create Issue")
        .describe("Create a new issue in a GitHub repository.")
        .auth_provider("github")
        .open_world()
        .destructive(|i: &CreateIssue| format!("Create issue \"{}\" in {}/{}?", i.title, i.owner, i.repo))
        .handler(move |ctx: Ctx, input: Approved<CreateIssue>| {
            let api = Arc::clone(&api);
            async move {
                let path = format!("/repos/{}/{}/issues", input.owner, input.repo);
                let mut issue = json!({ "title": input.title });
                let optional = [
                    ("body", input.body.as_ref().map(|body| json!(body))),
                    ("labels", input.labels.as_ref().map(|labels| json!(labels))),
                    ("assignees", input.assignees.as_ref().map(|assignees| json!(assignees))),
                ];
                for (field, value) in optional {
                    if let Some(value) = value {
                        issue[field] = value;
                    }
                }
                let request = api.request(&ctx, Method::POST, &path, &[]).await?;
                let created: Created = answer(request.json(&issue)).await?;
                Ok::<_, ToolError>(CreatedIssue { number: created.number, url: created.html_url })
            }
        })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct SearchRepositories {
    /// What to search for, in GitHub's search syntax
    #[schemars(length(min = 1, max = 256))]
    query: String,
    /// How many at most
    #[serde(default = "thirty")]
    #[schemars(range(min = 1, max = 100))]
    limit: u8,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RepositoryList {
    total: u64,
    repositories: Vec<Repository>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Repository {
    name: String,
    description: Option<String>,
    stars: u64,
    url: String,
}

fn search_repositories(api: Arc<Api>) -> Tool {
    #[derive(Deserialize)]
    struct Found {
        total_count: u64,
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    struct Item {
        full_name: String,
        description: Option<String>,
        stargazers_count: u64,
        html_url: String,
    }
    Tool::new("github.repos.search")
        .name("Search Repositories")
        .describe("Search GitHub repositories by name, topic, language or description.")
        .auth_provider("github")
        .open_world()
        .handler(move |ctx: Ctx, input: SearchRepositories| {
            let api = Arc::clone(&api);
            async move {
                let query = [("q", input.query), ("per_page", input.limit.to_string())];
                let request = api.request(&ctx, Method::GET, "/search/repositories", &query).await?;
                let found: Found = answer(request).await?;
                let repositories = found.items.into_iter().map(|item| Repository {
                    name: item.full_name,
                    description: item.description,
                    stars: item.stargazers_count,
                    url: item.html_url,
                });
                Ok::<_, ToolError>(RepositoryList {
                    total: found.total_count,
                    repositories: repositories.collect(),
                })
            }
        })
}

/// A client whose TLS needs no C library beside the one that is built anyway.
fn client() -> Client {
    // Somebody may have chosen a provider already; then theirs stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::new()
}

/// GitHub's API, as the caller: every request carries their token.
struct Api {
    client: Client,
    base_url: String,
}

impl Api {
    async fn request(
        &self,
        ctx: &Ctx,
        method: Method,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<RequestBuilder, ToolError> {
        let token = ctx.auth().token("github").await?;
        let mut url = Url::parse(&format!("{}{path}", self.base_url))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client.request(method, url).timeout(PATIENCE);
        Ok(request
            .bearer_auth(token.expose_secret())
            .header("Accept", "application/vnd.github.v3+json")
            .header("User-Agent", concat!("countersign-example/", env!("CARGO_PKG_VERSION"))))
    }
}

/// Sends a request and reads the answer. What the caller is told is ours; what GitHub or the network said goes to the log.
async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, ToolError> {
    let response = request.send().await.map_err(|cause| {
        let message = if cause.is_connect() {
            "GitHub could not be reached; nothing was sent."
        } else {
            "GitHub did not answer; whether it did what was asked is unknown, so look before you try again."
        };
        ToolError::with_code("upstream_unreachable", message).caused_by(cause)
    })?;
    let status = response.status();
    if !status.is_success() {
        let said = response.text().await.unwrap_or_default();
        return Err(refused(status).caused_by(said));
    }
    response.json().await.map_err(|cause| {
        ToolError::with_code("upstream_error", "GitHub's answer could not be understood.").caused_by(cause)
    })
}

fn refused(status: StatusCode) -> ToolError {
    let advice = match status {
        StatusCode::UNAUTHORIZED => "The token is not valid; set GITHUB_TOKEN anew.",
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
            "The token may not do this, or the rate limit is used up; try later."
        }
        StatusCode::NOT_FOUND => "There is no such repository, or the token may not see it.",
        StatusCode::UNPROCESSABLE_ENTITY => "GitHub does not accept these values.",
        _ if status.is_server_error() => "GitHub has a problem; look before you try again.",
        _ => "The operator's log has what it said.",
    };
    ToolError::with_code("upstream_error", format!("GitHub answered {status}. {advice}"))
}
