//! Where scripts run: TypeScript stripping, QuickJS, limits, the child process and its frame protocol.
