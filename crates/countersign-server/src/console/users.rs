//! Users, for admins: add one, invite them into the console, disable and enable them.

use axum::response::Response;
use maud::{Markup, html};

use super::frame::{Place, Reader, Trouble};
use super::inbox::damaged;
use super::text::text;
use super::when;
use crate::wire;

/// The page.
pub(super) async fn page(reader: Reader) -> Result<Response, Trouble> {
    let list: wire::List<wire::User> = reader.get("/api/users").await?;
    let main = html! {
        div.heading { h1 { "Users" } }
        p.faint { "Only users decide. An invite link lets a user into this console once; it expires in 10 minutes." }
        form.inline method="post" data-api="POST /api/users" {
            label { "Name" input name="name" data-type="string" required maxlength="100" autocomplete="off"; }
            label { "Role" select name="roles" data-type="json" {
                option value="[\"approver\"]" { "approver: decides" }
                option value="[\"admin\"]" { "admin: does everything" }
                option value="[]" { "none: only owns agents" }
            } }
            button.primary { "Add user" }
            p.violation role="alert" {}
        }
        (damaged(&list.damaged))
        div #secret role="status" hidden { p { "Send this link to the user (single use, expires in 10 min):" } pre tabindex="0" {} button type="button" data-copy { "Copy" } }
        div.scroll tabindex="0" role="region" aria-label="Users" { table {
            thead { tr { th scope="col" { "Name" } th scope="col" { "Roles" } th scope="col" { "Added" } th scope="col" { "Id" } th scope="col" { "Invite" } th scope="col" { "Status" } } }
            tbody { @for user in &list.items { (row(user)) } }
        } }
    };
    Ok(reader.page(Place::Users, "Users", &main))
}

fn row(user: &wire::User) -> Markup {
    let at = format!("/api/users/{}", user.user_id);
    let is_active = user.disabled_at.is_none();
    html! {
        tr {
            td { (text(&user.name)) }
            td { @if user.roles.is_empty() { span.faint { "none" } } @else { (user.roles.join(", ")) } }
            td { (when::moment(&user.created_at)) }
            td { code { (user.user_id) } }
            td {
                @if is_active && !user.roles.is_empty() {
                    form method="post" data-api={ "POST " (at) "/invite" } data-then="link" { button { "Invite" } }
                }
            }
            td {
                @if let Some(since) = &user.disabled_at {
                    form method="post" data-api={ "PATCH " (at) } {
                        span.faint { "disabled " (when::moment(since)) " " }
                        input type="hidden" name="disabled" data-type="json" value="false";
                        button { "Enable" }
                    }
                } @else {
                    form method="post" data-api={ "PATCH " (at) } data-sure={ "Disable “" (user.name) "”? Their logins and tokens, and their agents\u{2019} tokens, stop working at once." } {
                        input type="hidden" name="disabled" data-type="json" value="true";
                        button { "Disable" }
                    }
                }
            }
        }
    }
}
