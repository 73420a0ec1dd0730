//! Scripts: how they are accepted, and who gets a VM. Their turns are in `owner/script.rs`.

mod accept;
mod places;

pub use accept::RunRequest;
pub(crate) use places::{Claim, PlacedVm, Places, share_of};
