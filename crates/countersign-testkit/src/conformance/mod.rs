//! The promises of every store, one async function for each, named as the sentence it proves.
//!
//! A store joins with one line, which makes every promise a test of its own:
//!
//! ```text
//! countersign_testkit::store_conformance!(#[tokio::test] make);
//!
//! async fn make() -> (Arc<dyn Store>, impl Sized) { … }
//! ```
//!
//! The second part of what `make` gives is kept until the test ends: a folder, a container. Every promise uses ids,
//! sessions and requesters of its own, so that one database can serve them all. Those about `due`, `next_expiry`, the list
//! of sessions and the audit look at the whole of it, and so run one at a time there; they close what they open.

pub mod audit;
pub mod concurrency;
pub mod elicitations;
pub mod grants;
pub mod identities;
pub mod journals;
pub mod lists;
pub mod requirements;
pub mod sources;
pub mod standing;
pub mod subject;
pub mod users;

use std::sync::Arc;

use countersign_kernel::ports::Store;

/// Checks every promise, each on a store that `make` gives; what comes with the store is kept until it was checked.
pub async fn all<G>(make: impl AsyncFn() -> (Arc<dyn Store>, G)) {
    macro_rules! check {
        ($make:ident $($module:ident::$promise:ident,)*) => {
            $({
                let (store, _keep) = $make().await;
                Box::pin($module::$promise(store)).await;
            })*
        };
    }
    crate::store_promises!([check] make);
}

/// Makes each promise a test: `store_conformance!(#[tokio::test] make)`.
#[macro_export]
macro_rules! store_conformance {
    ($(#[$attribute:meta])* $make:path) => {
        $crate::store_promises! { [$crate::store_conformance] @each [$(#[$attribute])*] [$make] }
    };
    (@each $attributes:tt $make:tt $($module:ident::$promise:ident,)*) => {
        $($crate::store_conformance! { @one $attributes $make $module $promise })*
    };
    (@one [$(#[$attribute:meta])*] [$make:path] $module:ident $promise:ident) => {
        $(#[$attribute])*
        async fn $promise() {
            let (store, _keep) = $make().await;
            $crate::conformance::$module::$promise(store).await;
        }
    };
}

/// The list. Gives it to another macro, after that macro's own arguments.
#[macro_export]
macro_rules! store_promises {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! { $($arguments)*
            journals::a_journal_comes_back_as_it_was_written,
            journals::events_are_appended_in_order,
            journals::a_long_journal_comes_back_whole,
            journals::a_large_value_comes_back_whole,
            journals::another_length_than_expected_is_a_conflict_that_names_both,
            journals::an_execution_stays_what_it_is_and_shows_how_far_it_got,
            journals::a_key_leads_to_its_execution_and_is_nobody_elses,
            requirements::a_change_needs_its_token_to_be_live,
            requirements::a_session_has_fewer_open_elicitations_than_its_bound,
            requirements::a_requester_has_fewer_open_elicitations_than_its_bound_in_all_sessions,
            requirements::a_requesters_open_elicitations_have_fewer_bytes_than_its_bound,
            requirements::a_refused_change_changes_nothing,
            requirements::a_change_that_contradicts_what_is_stored_changes_nothing,
            grants::a_grant_is_used_until_its_uses_run_out,
            grants::a_grant_without_bound_is_used_again_and_again,
            grants::a_grant_ends_at_its_expiry,
            grants::a_grant_that_was_found_expired_is_gone_at_every_time,
            grants::a_grant_is_due_at_its_expiry_until_it_is_recorded_as_expired,
            grants::a_revoked_grant_is_gone,
            grants::clearing_a_session_forgets_its_grants_and_no_others,
            grants::a_grant_given_with_a_token_since_revoked_is_dead,
            grants::a_change_that_uses_a_grant_twice_needs_two_uses,
            elicitations::an_elicitation_comes_back_open_and_then_decided,
            elicitations::a_decided_elicitation_keeps_its_decision,
            elicitations::an_elicitation_may_be_opened_already_decided,
            elicitations::elicitations_are_found_by_execution_subject_and_openness,
            elicitations::what_is_due_comes_oldest_expiry_first,
            elicitations::the_next_expiry_is_that_of_an_open_elicitation,
            standing::what_is_unfinished_is_counted,
            standing::what_everything_open_was_judged_by_is_the_last_that_was_said,
            lists::executions_are_listed_newest_first,
            lists::executions_are_found_by_status_and_requester,
            lists::executions_are_found_by_session,
            lists::elicitations_are_listed_oldest_first,
            lists::pages_follow_one_another_while_rows_are_added,
            lists::a_page_holds_what_was_asked_for_and_never_more_than_a_thousand,
            lists::a_foreign_cursor_is_refused,
            lists::a_page_of_large_elicitations_ends_at_its_bytes_and_the_next_goes_on,
            lists::one_item_is_read_however_large_it_is,
            lists::a_journal_is_read_in_parts_that_end_at_their_number_or_their_bytes,
            identities::opening_a_session_again_changes_nothing,
            identities::a_principal_has_fewer_sessions_than_its_bound,
            identities::sessions_are_listed_newest_first,
            identities::a_session_is_listed_with_the_number_of_its_live_grants,
            identities::a_foreign_cursor_finds_no_sessions,
            identities::a_token_is_found_by_its_hash_revoked_or_not,
            identities::tokens_are_listed_oldest_first,
            sources::a_source_is_listed_as_it_was_put_last_until_it_is_removed,
            sources::accepting_a_definition_replaces_the_one_before_it,
            users::a_user_is_listed_as_they_were_added_and_changed,
            users::no_two_users_have_the_same_name,
            users::a_change_needs_its_user_to_be_active,
            users::a_token_ends_with_its_time_and_with_its_user,
            users::a_token_can_be_noted_as_used_and_adopted,
            users::a_grant_is_dead_while_its_giver_may_not_decide,
            users::a_login_ends_with_its_time_its_token_and_its_user,
            users::earlier_questions_about_the_same_are_found_by_subject_and_owner,
            audit::records_are_numbered_without_gaps_and_chained,
            audit::a_change_without_records_names_the_last_there_is,
            audit::records_are_read_in_parts,
            concurrency::of_many_writers_of_one_journal_exactly_one_wins,
            concurrency::of_many_executions_under_one_key_exactly_one_is_accepted,
            concurrency::concurrent_uses_never_exceed_what_was_granted,
            concurrency::concurrent_questions_never_exceed_the_bound,
            concurrency::concurrent_questions_of_one_requester_never_exceed_its_bound,
            concurrency::concurrent_changes_leave_a_whole_audit_chain,
            concurrency::an_answered_change_is_seen_by_every_later_read,
            concurrency::what_is_committed_soon_is_seen_before_what_is_committed_after_it,
            concurrency::what_is_committed_soon_is_found_by_whoever_reads_after_it,
        }
    };
}
