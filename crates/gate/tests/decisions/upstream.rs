//! The behaviour of upstream's PodTransitionRule, statement by statement (facts/kuperator.md §1). Where we deviate the test says
//! what we do, and its name or comment what upstream does; docs/compatibility.md gives the reasons. How webhooks are asked (§1.9)
//! is tested in `controller/tests/approvals`.

mod admission;
mod availability;
mod evaluation;
mod fields;
