//! Plans that an API server refuses, step by step.
