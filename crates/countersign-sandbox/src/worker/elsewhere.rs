//! Systems that offer none of the layers: scripts run in a process of their own, and nothing more is claimed.

use crate::worker::isolation::{Bounds, Layer};

fn absent() -> Layer {
    Layer::Absent("only Linux offers this".to_owned())
}

pub(crate) fn close_inherited() -> Layer {
    absent()
}

pub(crate) fn hide_memory() -> Layer {
    absent()
}

pub(crate) fn die_with_parent() -> Layer {
    Layer::Partial("it ends when its input does".to_owned())
}

pub(crate) fn give_up_files_and_network() -> Layer {
    absent()
}

pub(crate) fn bound_resources(_bounds: &Bounds) -> Layer {
    absent()
}

pub(crate) fn start_nothing_more() -> Result<(), String> {
    Ok(())
}

pub(crate) fn allow_only_what_is_needed() -> Layer {
    absent()
}
