//! Four plans of the same change say the same, and what they say is what then happens: `plan --live`, `plan` beside
//! exported objects with the record of their field owners and without, and `plan` of the class files alone (DEC-42,
//! DEC-43).
//!
//! Edits are made in many namespaces at a time: one round plans them all, makes them all, and waits for all of them.
//!
//! ```text
//! installation.rs   serve --embedded, or kube-apiserver + webhook + reconciler ◄─┐
//! normal.rs   a provider that changes values                               ├── fleet.rs  before ─► plans ─► edits ─► after
//! flavour.rs  what others do to the objects of a topology                  │                       └── compared ──────┘
//! edits.rs    what users do to classes, templates and Clusters ────────────┘             actual.rs
//! ```

mod actual;
mod edits;
mod flavour;
mod fleet;
mod installation;
mod normal;

use edits::Draw;
use fleet::Fleet;
use installation::Installation;

/// In how many namespaces edits are made side by side, and how often in each.
const EMBEDDED: (usize, usize) = (50, 7);
const REAL: (usize, usize) = (10, 6);
/// The same on the real API server in `make soak`.
const SOAK: (usize, usize) = (20, 17);

/// Edits a fleet, and returns how many edits there were.
async fn edited(installation: Installation, (places, rounds): (usize, usize)) -> usize {
    let mut fleet = Fleet::on(installation, places).await;
    let mut draw = Draw(0x2545_f491_4f6c_dd1d);
    let mut edits = 0;
    for _ in 0..rounds {
        edits += fleet.round(&mut draw).await;
    }
    println!("{edits} edits");
    edits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_plans_of_an_edit_equal_the_rollout() {
    // DEC-41, DEC-42, DEC-43, RS-39, ROLL-9, ROLL-12, ROLL-16
    let edits = edited(Installation::embedded().await, EMBEDDED).await;
    assert!(edits >= 300, "{edits} edits changed anything");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_plans_of_an_edit_on_a_real_api_server_equal_the_rollout() {
    // DEC-15, DEC-41, DEC-42, DEC-43, SSA-01
    let is_soak = std::env::var_os("TOPOLOGIST_TEST_SOAK").is_some();
    let (least, size) = if is_soak { (300, SOAK) } else { (40, REAL) };
    let edits = edited(Installation::real().await, size).await;
    assert!(edits >= least, "{edits} edits changed anything");
}
