//! Who somebody is, tokens, links to log in by, and how everything stands.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use countersign_core::ids::TokenId;
use countersign_kernel::ports::SourceSummary;
use countersign_kernel::{Caller, NewToken};
use countersign_sdk::{ExposeSecret as _, Role};

use super::body::{Body, Named};
use super::users;
use crate::access::Invited;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// Who this credential belongs to
#[utoipa::path(get, operation_id = "whoami", path = "/api/whoami", tag = "identity", responses(
    (status = 200, description = "Who", body = wire::Whoami),
    (status = 401, description = "Nobody that is known here", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn whoami(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<wire::Whoami>, Refusal> {
    let user = caller.principal.user();
    let users = shared.gateway.users().await?;
    let known = users.iter().find(|row| user.is_some_and(|user| user.as_str() == row.id.to_string()));
    Ok(Json(wire::Whoami {
        principal: caller.principal.id.to_string(),
        user: user.map(ToString::to_string),
        user_name: known.map(|user| user.name.clone()),
        attended: caller.attended,
        kind: format!("{:?}", caller.principal.kind).to_lowercase(),
        roles: caller.principal.roles.iter().map(|role| wire::role_text(*role).to_owned()).collect(),
    }))
}

/// How everything stands, in numbers
#[utoipa::path(get, operation_id = "getStanding", path = "/api/standing", tag = "events", responses(
    (status = 200, description = "The numbers of this moment", body = wire::Standing),
    (status = 403, description = "This credential may not decide", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn standing(State(shared): State<Arc<Shared>>) -> Result<Json<wire::Standing>, Refusal> {
    let standing = shared.gateway.standing().await?;
    let mut standing = wire::Standing::of(&standing, shared.gateway.settings().remember_for);
    if let Some(sources) = &shared.sources {
        let waits = |source: &SourceSummary| source.new + source.changed + source.missing;
        standing.unaccepted_tools = sources.list().await.iter().map(|source| waits(source) as u64).sum();
    }
    Ok(Json(standing))
}

/// List the tokens
#[utoipa::path(get, operation_id = "listTokens", path = "/api/tokens", tag = "identity", responses(
    (status = 200, description = "All tokens, revoked ones too, oldest first", body = wire::List<wire::Token>),
    (status = 403, description = "Only an admin may do this", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn tokens(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<wire::List<wire::Token>>, Refusal> {
    let (tokens, users) = (shared.gateway.list_tokens().await?, shared.gateway.users().await?);
    let items = tokens.items.iter().map(|token| wire::Token::of(token, &users));
    Ok(Json(wire::List::whole(items.collect()).beside(&tokens.damaged)))
}

/// Make a token
///
/// Its secret is in the answer and nowhere else.
#[utoipa::path(post, operation_id = "createToken", path = "/api/tokens", tag = "identity", request_body = wire::CreateTokenRequest, responses(
    (status = 201, description = "The token, with its secret", body = wire::CreatedToken),
    (status = 422, description = "The name or the role cannot be used", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn create_token(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<wire::CreateTokenRequest>,
) -> Result<(StatusCode, Json<wire::CreatedToken>), Refusal> {
    let role = match request.role.as_str() {
        "agent" => Role::Agent,
        "approver" => Role::Approver,
        "admin" => Role::Admin,
        "service" => Role::Service,
        "worker" => Role::Worker,
        _ => {
            return Err(Refusal::new(422, "bad_role", "`role` is agent, approver, admin, service or worker"));
        }
    };
    let user = match &request.user {
        Some(named) => Some(users::find(&shared, named).await?.id),
        None => caller.principal.user().and_then(|user| user.as_str().parse().ok()),
    };
    let expires_at = request.expires_in_ms.map(|ms| shared.gateway.now().after(Duration::from_millis(ms)));
    let new = NewToken { name: request.name, role, user, attended: request.attended, expires_at };
    let minted = shared.gateway.create_token(new, Some(&caller)).await?;
    let token = wire::Token::of(&minted.row, &shared.gateway.users().await?);
    let created = wire::CreatedToken { token, secret: minted.secret.expose_secret().to_owned() };
    Ok((StatusCode::CREATED, Json(created)))
}

/// Revoke a token
///
/// From this moment on and everywhere: what was approved with it and has not started will not.
#[utoipa::path(delete, operation_id = "revokeToken", path = "/api/tokens/{id}", tag = "identity", params(("id" = String, Path, description = "`tok_…`")), responses(
    (status = 204, description = "It is revoked"),
    (status = 404, description = "There is no such token", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn revoke_token(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
) -> Result<StatusCode, Refusal> {
    let missing = || Refusal::not_found("there is no such token");
    let id: TokenId = id.parse().map_err(|_| missing())?;
    let tokens = shared.gateway.list_tokens().await?;
    // One whose record is damaged is good for nothing; whoever would be sure of it may revoke it all the same.
    let is_damaged = tokens.damaged.iter().any(|damaged| damaged.id == id.to_string());
    if !is_damaged && !tokens.items.iter().any(|token| token.id == id) {
        return Err(missing());
    }
    shared.gateway.revoke_token(id, Some(&caller)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a link that logs you in to the console, once
#[utoipa::path(post, operation_id = "createLoginLink", path = "/api/login-links", tag = "identity", responses(
    (status = 201, description = "The link", body = wire::LoginLink),
    (status = 403, description = "This credential may not decide, so that the console is not for it", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn create_login_link(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
) -> Result<(StatusCode, Json<wire::LoginLink>), Refusal> {
    let link = login_link(&shared, &caller);
    let link =
        link.ok_or_else(|| Refusal::new(503, "unavailable", "no link can be made for this credential"))?;
    Ok((StatusCode::CREATED, Json(link)))
}

/// A link for the user behind a credential; none for whoever may not decide.
pub(crate) fn login_link(shared: &Shared, by: &Caller) -> Option<wire::LoginLink> {
    let user = by.principal.user().filter(|_| by.principal.may_decide())?;
    link_for(shared, Invited { user: user.as_str().parse().ok()?, token: by.token })
}

/// A link that logs this user in, once.
pub(super) fn link_for(shared: &Shared, invited: Invited) -> Option<wire::LoginLink> {
    let (code, expires_at) = shared.logins.invite(invited, shared.gateway.now())?;
    Some(wire::LoginLink {
        url: format!("{}/login?code={code}", shared.links.base()),
        expires_at: expires_at.to_string(),
    })
}
