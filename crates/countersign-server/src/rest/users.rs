//! Users, for admins: add, change, disable, and invite into the console.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use countersign_core::ids::UserId;
use countersign_kernel::ports::UserRow;
use countersign_kernel::{Caller, UserChange, UserStatus};
use countersign_sdk::Role;

use super::body::{Body, Named};
use super::identity::link_for;
use crate::access::Invited;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// List the users
#[utoipa::path(get, operation_id = "listUsers", path = "/api/users", tag = "identity", responses(
    (status = 200, description = "All users, disabled ones too, oldest first; the first is the operator", body = wire::List<wire::User>),
    (status = 403, description = "Only an admin may do this", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Json<wire::List<wire::User>>, Refusal> {
    let users = shared.gateway.list_users().await?;
    let items = users.items.iter().map(Into::into).collect();
    Ok(Json(wire::List::whole(items).beside(&users.damaged)))
}

/// Add a user
#[utoipa::path(post, operation_id = "addUser", path = "/api/users", tag = "identity", request_body = wire::AddUserRequest, responses(
    (status = 201, description = "The user", body = wire::User),
    (status = 409, description = "There is a user of this name", body = wire::Problem, content_type = "application/problem+json"),
    (status = 422, description = "The name or a role cannot be used", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn add(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Body(request): Body<wire::AddUserRequest>,
) -> Result<(StatusCode, Json<wire::User>), Refusal> {
    let roles = roles(&request.roles)?;
    let user = shared.gateway.create_user(&request.name, roles, Some(&caller)).await?;
    Ok((StatusCode::CREATED, Json((&user).into())))
}

/// Change a user's roles, or disable or enable them
///
/// Whoever is disabled may do nothing from this moment on: their tokens, their agents' tokens and their logins are refused, and
/// what they approved and has not started will not start.
#[utoipa::path(patch, operation_id = "changeUser", path = "/api/users/{id}", tag = "identity", params(("id" = String, Path, description = "`usr_…` or the user's name")), request_body = wire::ChangeUserRequest, responses(
    (status = 200, description = "The user as they are now", body = wire::User),
    (status = 404, description = "There is no such user", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "It is the last admin", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Named(id): Named<String>,
    Body(request): Body<wire::ChangeUserRequest>,
) -> Result<Json<wire::User>, Refusal> {
    let user = find(&shared, &id).await?;
    let status = request.disabled.map(|disabled| match disabled {
        true => UserStatus::Disabled,
        false => UserStatus::Enabled,
    });
    let roles = request.roles.as_deref().map(self::roles).transpose()?;
    let changed = shared.gateway.change_user(user.id, UserChange { roles, status }, Some(&caller)).await?;
    Ok(Json((&changed).into()))
}

/// Make a link that logs a user in to the console, once
#[utoipa::path(post, operation_id = "inviteUser", path = "/api/users/{id}/invite", tag = "identity", params(("id" = String, Path, description = "`usr_…` or the user's name")), responses(
    (status = 201, description = "The link, for that user's eyes", body = wire::LoginLink),
    (status = 404, description = "There is no such user", body = wire::Problem, content_type = "application/problem+json"),
    (status = 409, description = "The user is disabled or may not decide", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn invite(
    State(shared): State<Arc<Shared>>,
    Named(id): Named<String>,
) -> Result<(StatusCode, Json<wire::LoginLink>), Refusal> {
    let user = find(&shared, &id).await?;
    if user.disabled_at.is_some() || user.roles.is_empty() {
        let detail = "this user is disabled or has no role, so that the console is not for them";
        return Err(Refusal::new(409, "user_inactive", detail));
    }
    let link = link_for(&shared, Invited { user: user.id, token: None });
    let link = link.ok_or_else(|| Refusal::new(503, "unavailable", "no link can be made now"))?;
    Ok((StatusCode::CREATED, Json(link)))
}

/// A user, by id or by name.
pub(super) async fn find(shared: &Shared, id: &str) -> Result<UserRow, Refusal> {
    let users = shared.gateway.users().await?;
    let by_id = id.parse::<UserId>().ok();
    let found = users.into_iter().find(|user| by_id == Some(user.id) || user.name == id);
    found.ok_or_else(|| Refusal::not_found("there is no such user"))
}

fn roles(words: &[String]) -> Result<Vec<Role>, Refusal> {
    let one = |word: &String| match word.as_str() {
        "approver" => Ok(Role::Approver),
        "admin" => Ok(Role::Admin),
        _ => Err(Refusal::new(422, "bad_role", "a user's role is approver or admin")),
    };
    words.iter().map(one).collect()
}
