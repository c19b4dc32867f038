//! Whole desired states; what belongs to one kind of object is tested there.

use crate::hub::ObjectKey;
use crate::topology::names::Names;
use crate::topology::testing::Scene;

/// Ends that no [`crate::topology::names::Derived`] gives.
struct Others;

impl Names for Others {
    fn end(&mut self, _: &ObjectKey, _: &str) -> String {
        "other".to_owned()
    }
}

#[test]
fn what_is_written_is_asked_for_again_under_the_same_names() {
    // DS-07
    for (case, scene) in [
        ("whole", Scene::new()),
        ("no workers", Scene::without_workers()),
        ("older contract", Scene::of_the_older_contract()),
    ] {
        let before = scene.desired();
        let after = scene.applied().compute_with(&mut Others).unwrap().desired;
        assert_eq!(before, after, "{case}");
    }
}
