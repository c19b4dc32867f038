//! What the mutating end point does to objects, as edits of the raw request.

pub(super) mod cluster;
