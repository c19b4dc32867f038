//! Applying a file to a stored object: which fields stay, because neither this file nor the one before mentions them.
//!
//! Offline commands compare files with stored objects as they will be, so fields that servers and controllers have filled in are kept.

pub mod clusters;
pub mod provider_objects;
