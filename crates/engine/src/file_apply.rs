//! Application of a file to a stored object: fields stay if neither this file nor the one before contains them.
//!
//! Offline commands compare files with the stored objects after an apply, so fields that servers and controllers have
//! set are kept.

pub mod clusters;
pub mod provider_objects;
