//! Processes: how they are started, ended and started again.
