//! Every route that a command uses, as a function.

use std::time::Duration;

use countersign_core::audit::AuditRecord;
use countersign_core::event::Event;
use countersign_server::wire::{
    AddUserRequest, ChangeUserRequest, Configuration, CreateTokenRequest, CreatedToken, Elicitation,
    ElicitationResponse, ExecuteRequest, ExecutionResult, ExecutionSummary, ExplainRequest, Explanation,
    Grant, List, LoginLink, Pending, ResolveRequest, SettleRequest, Standing, Status, Token, ToolDetail,
    User, Whoami,
};
use reqwest::Method;

use super::Client;
use crate::exit::Problem;

/// How long the first request waits for an execution, and the longest that one waits. A question that opens between two
/// of them is noticed when the second ends, so that they begin short.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How many items are asked for at once.
const PART: usize = 200;

/// Which part of a list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Part {
    /// Where an earlier part ended.
    pub(crate) cursor: Option<String>,
    /// How many at most; what is customary where nothing is said.
    pub(crate) limit: Option<usize>,
}

impl Part {
    /// The part that follows, if there is one.
    pub(crate) fn after<T>(list: &List<T>) -> Option<Self> {
        list.next_cursor.clone().map(|cursor| Self { cursor: Some(cursor), limit: None })
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit.unwrap_or(PART).min(PART);
        let mut query = vec![("limit", limit.to_string())];
        query.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        query
    }
}

impl Client {
    /// Runs a tool or a script.
    pub(crate) async fn execute(&self, request: &ExecuteRequest) -> Result<ExecutionResult, Problem> {
        self.json(self.request(Method::POST, &["api", "executions"], &[])?.json(request)).await
    }

    /// An execution; waits up to `wait` for its end, or for its next question.
    pub(crate) async fn execution(&self, id: &str, wait: Duration) -> Result<ExecutionResult, Problem> {
        let wait = wait.as_millis();
        let query = if wait == 0 { vec![] } else { vec![("waitMs", wait.to_string())] };
        self.json(self.request(Method::GET, &["api", "executions", id], &query)?).await
    }

    /// Waits until an execution ends, is in doubt, or asks anew; for as long as that takes.
    pub(crate) async fn until_it_rests(&self, id: &str) -> Result<ExecutionResult, Problem> {
        let (mut result, mut wait) = (self.execution(id, Duration::ZERO).await?, FIRST_WAIT);
        while result.status == Status::Running {
            result = self.execution(id, wait).await?;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        Ok(result)
    }

    /// Executions, newest first.
    pub(crate) async fn executions(
        &self,
        status: &[Status],
        part: &Part,
    ) -> Result<List<ExecutionSummary>, Problem> {
        let mut query = part.query();
        if !status.is_empty() {
            query.push(("status", status.iter().map(text).collect::<Vec<_>>().join(",")));
        }
        self.json(self.request(Method::GET, &["api", "executions"], &query)?).await
    }

    /// The journal of an execution.
    pub(crate) async fn journal(&self, id: &str) -> Result<Vec<Event>, Problem> {
        let (mut all, mut query) = (Vec::new(), Vec::new());
        loop {
            let request = self.request(Method::GET, &["api", "executions", id, "journal"], &query)?;
            let part = self.json::<List<Event>>(request).await?;
            all.extend(part.items);
            match part.next_cursor {
                Some(cursor) => query = vec![("cursor", cursor)],
                None => return Ok(all),
            }
        }
    }

    /// Stops an execution. It may have a call to finish first; then it still runs in the answer.
    pub(crate) async fn cancel(&self, id: &str) -> Result<ExecutionResult, Problem> {
        self.json(self.request(Method::POST, &["api", "executions", id, "cancel"], &[])?).await
    }

    /// Settles a call in doubt.
    pub(crate) async fn settle(&self, id: &str, request: &SettleRequest) -> Result<ExecutionResult, Problem> {
        self.json(self.request(Method::POST, &["api", "executions", id, "settle"], &[])?.json(request)).await
    }

    /// Questions that nobody answered, oldest first.
    pub(crate) async fn elicitations(&self, part: &Part) -> Result<List<Elicitation>, Problem> {
        let mut query = part.query();
        query.push(("status", "pending".to_owned()));
        self.json(self.request(Method::GET, &["api", "elicitation"], &query)?).await
    }

    /// Every question of an execution, open or decided, oldest first.
    pub(crate) async fn elicitations_of(
        &self,
        execution: &str,
        part: &Part,
    ) -> Result<List<Elicitation>, Problem> {
        let mut query = part.query();
        query.push(("executionId", execution.to_owned()));
        self.json(self.request(Method::GET, &["api", "elicitation"], &query)?).await
    }

    /// Questions about the same tool and arguments as this one, for the same user, open or decided, oldest first.
    pub(crate) async fn elicitations_like(
        &self,
        elicitation: &str,
        part: &Part,
    ) -> Result<List<Elicitation>, Problem> {
        let mut query = part.query();
        query.push(("sameAs", elicitation.to_owned()));
        self.json(self.request(Method::GET, &["api", "elicitation"], &query)?).await
    }

    /// One question, open or decided.
    pub(crate) async fn elicitation(&self, id: &str) -> Result<Elicitation, Problem> {
        self.json(self.request(Method::GET, &["api", "elicitation", id], &[])?).await
    }

    /// Decides a question that was shown: another one of the same execution is not decided by this.
    pub(crate) async fn resolve(
        &self,
        question: &Pending,
        request: &ResolveRequest,
    ) -> Result<ElicitationResponse, Problem> {
        let id = &question.elicitation_id;
        let request = &ResolveRequest { digest: Some(question.digest.clone()), ..request.clone() };
        self.json(self.request(Method::POST, &["api", "elicitation", id, "resolve"], &[])?.json(request))
            .await
    }

    /// Tools that have these words, all where there are none.
    pub(crate) async fn tools(&self, query: &str) -> Result<List<ToolDetail>, Problem> {
        let mut query = if query.is_empty() { vec![] } else { vec![("query", query.to_owned())] };
        let mut all = Vec::new();
        loop {
            let part: List<ToolDetail> =
                self.json(self.request(Method::GET, &["api", "tools"], &query)?).await?;
            all.extend(part.items);
            match part.next_cursor {
                Some(cursor) => query = vec![("cursor", cursor)],
                None => return Ok(List::whole(all)),
            }
        }
    }

    /// One tool.
    pub(crate) async fn tool(&self, path: &str) -> Result<ToolDetail, Problem> {
        self.json(self.request(Method::GET, &["api", "tools", path], &[])?).await
    }

    /// Tools as scripts see them: TypeScript. All where none is named.
    pub(crate) async fn declarations(&self, paths: &[&str]) -> Result<String, Problem> {
        let query = if paths.is_empty() { vec![] } else { vec![("path", paths.join(","))] };
        self.text(self.request(Method::GET, &["api", "declarations"], &query)?).await
    }

    /// What the rules say of a call. Nothing runs.
    pub(crate) async fn explain(&self, request: &ExplainRequest) -> Result<Explanation, Problem> {
        self.json(self.request(Method::POST, &["api", "policy", "explain"], &[])?.json(request)).await
    }

    /// How everything stands, in numbers.
    pub(crate) async fn standing(&self) -> Result<Standing, Problem> {
        self.json(self.request(Method::GET, &["api", "standing"], &[])?).await
    }

    /// The remembered approvals of a session.
    pub(crate) async fn grants(&self, session: &str) -> Result<List<Grant>, Problem> {
        self.json(self.request(Method::GET, &["api", "sessions", session, "approvals"], &[])?).await
    }

    /// Forgets all remembered approvals of a session.
    pub(crate) async fn clear_grants(&self, session: &str) -> Result<(), Problem> {
        self.done(self.request(Method::DELETE, &["api", "sessions", session, "approvals"], &[])?).await
    }

    /// Forgets one remembered approval.
    pub(crate) async fn revoke_grant(&self, session: &str, grant: &str) -> Result<(), Problem> {
        self.done(self.request(Method::DELETE, &["api", "sessions", session, "approvals", grant], &[])?).await
    }

    /// Audit records after a number.
    pub(crate) async fn audit(&self, after: u64, limit: usize) -> Result<Vec<AuditRecord>, Problem> {
        let query = [("cursor", after.to_string()), ("limit", limit.to_string())];
        let request = self.request(Method::GET, &["api", "audit"], &query)?;
        self.json::<List<AuditRecord>>(request).await.map(|list| list.items)
    }

    /// Every token.
    pub(crate) async fn tokens(&self) -> Result<List<Token>, Problem> {
        self.json(self.request(Method::GET, &["api", "tokens"], &[])?).await
    }

    /// All users.
    pub(crate) async fn users(&self) -> Result<List<User>, Problem> {
        self.json(self.request(Method::GET, &["api", "users"], &[])?).await
    }

    /// Adds a user.
    pub(crate) async fn add_user(&self, request: &AddUserRequest) -> Result<User, Problem> {
        self.json(self.request(Method::POST, &["api", "users"], &[])?.json(request)).await
    }

    /// Changes a user, by id or name.
    pub(crate) async fn change_user(&self, user: &str, request: &ChangeUserRequest) -> Result<User, Problem> {
        self.json(self.request(Method::PATCH, &["api", "users", user], &[])?.json(request)).await
    }

    /// A link that logs a user in to the console, once.
    pub(crate) async fn invite_user(&self, user: &str) -> Result<LoginLink, Problem> {
        self.json(self.request(Method::POST, &["api", "users", user, "invite"], &[])?).await
    }

    /// Makes a token. The answer is the only place that has its secret.
    pub(crate) async fn create_token(&self, request: &CreateTokenRequest) -> Result<CreatedToken, Problem> {
        self.json(self.request(Method::POST, &["api", "tokens"], &[])?.json(request)).await
    }

    /// Revokes a token.
    pub(crate) async fn revoke_token(&self, id: &str) -> Result<(), Problem> {
        self.done(self.request(Method::DELETE, &["api", "tokens", id], &[])?).await
    }

    /// A link that logs this client's holder in to the console.
    pub(crate) async fn login_link(&self) -> Result<LoginLink, Problem> {
        self.json(self.request(Method::POST, &["api", "login-links"], &[])?).await
    }

    /// The configuration that the server runs with.
    pub(crate) async fn configuration(&self) -> Result<Configuration, Problem> {
        self.json(self.request(Method::GET, &["api", "configuration"], &[])?).await
    }

    /// Whose credential this is.
    pub(crate) async fn whoami(&self) -> Result<Whoami, Problem> {
        self.json(self.request(Method::GET, &["api", "whoami"], &[])?).await
    }

    /// What a route for operators says: `healthz`, `readyz`.
    pub(crate) async fn probe(&self, route: &str) -> Result<String, Problem> {
        self.text(self.request(Method::GET, &[route], &[])?).await
    }
}

/// A status as it stands in an address.
fn text(status: &Status) -> String {
    serde_json::to_value(status).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
