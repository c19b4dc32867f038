//! Everything that is tested through the public interface, one file per story.

mod admission_fixtures;
