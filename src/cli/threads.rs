//! The threads that read and judge files.

use std::sync::Once;

/// Size of their stacks, in bytes: that of the main thread, since files may be nested deeply.
const STACK: usize = 8 << 20;

/// Starts one thread for each processor.
pub(super) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let pool = || rayon::ThreadPoolBuilder::new().stack_size(STACK);
        if pool().build_global().is_err() {
            // A process may be allowed few threads: the one that it has does all the work.
            drop(pool().num_threads(1).use_current_thread().build_global());
        }
    });
}
