//! Facts about patches, by the rules that they follow.

mod application;
mod builtin;
mod carried_over;
mod extensions;
mod properties;
mod provenance;
mod selection;
mod values;
mod whole;
