//! The store's conformance suite: one case per promise of a verb, the same for every database.
//!
//! A case is an `async fn(&TestDatabase)`; `store_cases!` makes a test per database of it.

#[path = "store/connections.rs"]
mod connections;
#[path = "store/generated.rs"]
mod generated;
#[path = "store/interleavings.rs"]
mod interleavings;
#[path = "store/plans.rs"]
mod plans;
#[path = "store/road.rs"]
mod road;
#[path = "store/rows.rs"]
mod rows;
#[path = "store/sessions.rs"]
mod sessions;
#[path = "store/unique.rs"]
mod unique;
#[path = "store/world.rs"]
mod world;
