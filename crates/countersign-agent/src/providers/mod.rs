//! Providers ready to use: approve everything, decide by code, ask at the terminal, ask through a channel, ask through a gateway.

mod channel;
mod gateway;
mod keyboard;
mod predicate;
mod terminal;

pub use channel::{ChannelConfirmation, Confirmations, MAX_PENDING, NotPending};
pub use gateway::{CONFIRM_PATH, GatewayConfirmation, GatewayConfirmationError};
pub use keyboard::Keyboard;
pub use predicate::{AlwaysApprove, ByPredicate};
pub use terminal::{TerminalConfirmation, prompt};
