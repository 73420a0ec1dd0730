//! The ports: what the kernel needs from the world, as traits.
//!
//! One store trait, not one per table; a clock; entropy; credentials; where scripts run. Implementations live elsewhere, but for the
//! system clock, the system's entropy and credentials from the environment, which need nothing but `std`.

mod clock;
mod credentials;
mod entropy;
mod refresh_interval;
mod scripts;
mod source_rows;
mod sources;
mod store;
mod store_error;

pub use clock::{Clock, SystemClock};
pub use credentials::{Credentials, CredentialsError, EnvCredentials};
pub use entropy::{Entropy, SystemEntropy};
pub use refresh_interval::{BadRefreshInterval, RefreshInterval};
pub use scripts::{
    Completion, Program, Request, ScriptEnd, ScriptFault, ScriptHost, Stripped, Turn, Vm, Wanted,
};
pub use source_rows::{SourceRow, SourceToolRow, SourceWrite};
pub use sources::{
    Acceptance, CallFigures, CredentialConfig, CredentialPlace, EffectSetting, FieldChange, McpProtocol,
    McpQuestions, McpSampling, SecretPlace, SourceConfig, SourceDetail, SourceHealth, SourceKind,
    SourceOrigin, SourceSummary, SourceTool, Sources, SourcesError, ToolSettings, ToolStanding,
    UnmappedOperation,
};
pub use store::{
    ByteBudget, Committed, DamagedRow, ElicitationFilter, ElicitationRow, ExecutionFilter, ExecutionRow,
    GrantWrite, JournalPart, JournalWrite, Listing, LoginRow, LoginWrite, MAX_LISTING_BYTES, Page,
    Requirement, SessionRow, SessionSummary, Standing, Store, TokenRow, TokenWrite, UserMay, UserRow,
    UserWrite, Write,
};
pub use store_error::StoreError;
