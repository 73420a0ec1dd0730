//! Tokens, for admins: make one, see which there are, revoke one. A secret is shown once, where it was made.

use axum::response::Response;
use maud::{Markup, html};

use super::frame::{Place, Reader, Trouble};
use super::inbox::damaged;
use super::text::text;
use super::when;
use crate::wire;

const ROLES: [(&str, &str); 5] = [
    ("agent", "agent: calls tools and waits"),
    ("approver", "approver: decides"),
    ("admin", "admin: does everything"),
    ("service", "service: calls tools that allow service accounts"),
    ("worker", "worker: registers tools"),
];

/// The page.
pub(super) async fn page(reader: Reader) -> Result<Response, Trouble> {
    let list: wire::List<wire::Token> = reader.get("/api/tokens").await?;
    let main = html! {
        div.heading { h1 { "Tokens" } }
        form.inline method="post" data-api="POST /api/tokens" data-then="secret" {
            label { "Name" input name="name" data-type="string" required maxlength="100" autocomplete="off"; }
            label { "Role" select name="role" data-type="string" { @for (role, means) in ROLES { option value=(role) { (means) } } } }
            label.check { input type="checkbox" name="attended" data-type="boolean"; " Attended: prompts in this agent’s client reach a person" }
            button.primary { "Create token" }
            p.violation role="alert" {}
        }
        (damaged(&list.damaged))
        div #secret role="status" hidden { p { "This is its secret. It is shown once:" } pre tabindex="0" {} button type="button" data-copy { "Copy" } }
        div.scroll tabindex="0" role="region" aria-label="Tokens" { table {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Role" } th scope="col" { "User" } th scope="col" { "Created" } th scope="col" { "Last used" } th scope="col" { "Expires" } th scope="col" { "Token" } th scope="col" { "Revoke" } } }
            tbody { @for token in list.items.iter().rev() { (row(token)) } }
        } }
    };
    Ok(reader.page(Place::Tokens, "Tokens", &main))
}

fn row(token: &wire::Token) -> Markup {
    html! {
        tr {
            td { (text(&token.name)) }
            td { (token.role) @if token.attended { " (attended)" } }
            td { (text(token.owner_name.as_deref().unwrap_or(""))) }
            td { (when::moment(&token.created_at)) }
            td { @match &token.last_used_at { Some(at) => (when::moment(at)), None => span.faint { "never" } } }
            td { @match &token.expires_at { Some(at) => (when::moment(at)), None => span.faint { "never" } } }
            td { code { (token.token_id) } }
            td {
                @match &token.revoked_at {
                    Some(at) => span.faint { "revoked " (when::moment(at)) },
                    None => form method="post" data-api={ "DELETE /api/tokens/" (token.token_id) } data-sure={ "Revoke the token “" (token.name) "”? Whoever uses it is refused from this moment on." } { button { "Revoke" } },
                }
            }
        }
    }
}
