//! The threads that read and judge files.

use std::sync::Once;

/// Size of their stacks, in bytes: that of the main thread, since files may be nested deeply.
const STACK: usize = 8 << 20;

/// Starts one thread for each processor.
pub(super) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        // Fails only if they run already.
        drop(rayon::ThreadPoolBuilder::new().stack_size(STACK).build_global());
    });
}
