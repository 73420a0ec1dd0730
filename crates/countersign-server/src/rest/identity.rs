//! Tokens and logins.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use axum::{Extension, Json};
use countersign_core::ids::TokenId;
use countersign_kernel::Caller;
use countersign_sdk::{ExposeSecret as _, Role};
use serde::Deserialize;

use super::body::{Body, Form, Named, Params};
use super::signpost::guarded;
use crate::access::{COOKIE, COOKIE_LIFE, Proof};
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::wire;

/// Who this credential belongs to
#[utoipa::path(get, operation_id = "whoami", path = "/api/whoami", tag = "identity", responses(
    (status = 200, description = "Who", body = wire::Whoami),
    (status = 401, description = "Nobody that is known here", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn whoami(
    Extension(caller): Extension<Caller>,
    Extension(proof): Extension<Proof>,
) -> Json<wire::Whoami> {
    let csrf_token = match proof {
        Proof::Bearer => None,
        Proof::Cookie { csrf } => Some(csrf),
    };
    Json(wire::Whoami {
        principal: caller.principal.id.to_string(),
        kind: format!("{:?}", caller.principal.kind).to_lowercase(),
        roles: caller.principal.roles.iter().map(|role| wire::role_text(*role).to_owned()).collect(),
        csrf_token,
    })
}

/// List the tokens
#[utoipa::path(get, operation_id = "listTokens", path = "/api/tokens", tag = "identity", responses(
    (status = 200, description = "All tokens, revoked ones too, oldest first", body = wire::List<wire::Token>),
    (status = 403, description = "Only an admin may do this", body = wire::Problem, content_type = "application/problem+json"),
))]
pub(super) async fn tokens(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<wire::List<wire::Token>>, Refusal> {
    let tokens = shared.gateway.tokens().await?;
    Ok(Json(wire::List::whole(tokens.iter().map(Into::into).collect())))
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
        _ => return Err(Refusal::new(422, "bad_role", "`role` is agent, approver, admin or service")),
    };
    let minted = shared.gateway.create_token(&request.name, role, Some(&caller)).await?;
    let created =
        wire::CreatedToken { token: (&minted.row).into(), secret: minted.secret.expose_secret().to_owned() };
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
    if !shared.gateway.tokens().await?.iter().any(|token| token.id == id) {
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

/// A link for whoever holds this token; none for whoever may not decide.
pub(crate) fn login_link(shared: &Shared, by: &Caller) -> Option<wire::LoginLink> {
    let token = by.token.filter(|_| by.principal.may_decide())?;
    let (code, expires_at) = shared.logins.invite(token, shared.gateway.now())?;
    Some(wire::LoginLink {
        url: format!("{}/login?code={code}", shared.links.base()),
        expires_at: expires_at.to_string(),
    })
}

/// The code of a link.
#[derive(Deserialize)]
pub(super) struct Code {
    #[serde(default)]
    code: String,
}

/// A button. Opening the link changes nothing, so that whoever looks at links on the way does not use it up.
pub(super) async fn login_page(
    State(shared): State<Arc<Shared>>,
    Params(Code { code }): Params<Code>,
) -> Response {
    let good =
        code.bytes().all(|b| b.is_ascii_hexdigit()) && shared.logins.is_good(&code, shared.gateway.now());
    let (status, inside) = match good {
        true => (
            StatusCode::OK,
            format!(
                "<p>This link logs you in on this browser. It is good once.</p><form method=\"post\" action=\"/login\">\
             <input type=\"hidden\" name=\"code\" value=\"{code}\"><button autofocus>Log in</button></form>"
            ),
        ),
        false => (
            StatusCode::GONE,
            "<p>This link was used or is too old. Run <code>countersign login</code> for a new one.</p>"
                .to_owned(),
        ),
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Countersign: log in</title></head><body><main><h1>Countersign</h1>{inside}</main></body></html>"
    );
    let mut response = (status, Html(page)).into_response();
    guarded(&mut response);
    response
}

/// Uses a link up, and gives the cookie.
pub(super) async fn login(State(shared): State<Arc<Shared>>, Form(form): Form) -> Result<Response, Refusal> {
    let code = form.split('&').find_map(|pair| pair.strip_prefix("code=")).unwrap_or_default();
    let Some(cookie) = shared.logins.redeem(code, shared.gateway.now()) else {
        return Err(Refusal::new(410, "link_used", "this link was used or is too old; make a new one"));
    };
    let mut response = Redirect::to("/").into_response();
    let life = COOKIE_LIFE.as_secs();
    // A server behind TLS says so by its public address.
    let secure = if shared.links.base().starts_with("https://") { "; Secure" } else { "" };
    let text = format!("{COOKIE}={cookie}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    guarded(&mut response);
    Ok(response)
}

/// Forgets the cookie in this browser.
pub(super) async fn logout() -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    if let Ok(value) =
        HeaderValue::from_str(&format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"))
    {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
    response
}
