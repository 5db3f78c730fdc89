//! What goes wrong from outside: kills, freezes, outages, cut connections, jumps of the database's clock, deployments.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::dice::Dice;
use super::executor::{Place, Process, WORLD};
use super::trace::Event;
use super::world::World;

/// One kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kill,
    Freeze,
    Stall,
    Partition,
    Outage,
    Cut,
    Jump,
    Deploy,
}

const KINDS: [Kind; 8] = [
    Kind::Kill,
    Kind::Freeze,
    Kind::Stall,
    Kind::Partition,
    Kind::Outage,
    Kind::Cut,
    Kind::Jump,
    Kind::Deploy,
];

/// Makes trouble until told to stop. Each world has kinds of its own, so that no kind hides another in all of them.
pub(crate) async fn run(world: Arc<World>, mut dice: Dice, stop: CancellationToken) {
    let kinds: Vec<Kind> = KINDS.into_iter().filter(|_| dice.chance(0.6)).collect();
    let busy = 500 + dice.between(0, 6_000);
    while !stop.is_cancelled() {
        world.executor.sleep(dice.millis(100, busy)).await;
        if stop.is_cancelled() {
            return;
        }
        if let Some(kind) = dice.pick(&kinds).copied() {
            strike(&world, &mut dice, kind, &stop);
        }
        revive(&world, &mut dice);
    }
}

fn note(world: &World, process: Process, what: &'static str, span: Duration) {
    let span_ms = i64::try_from(span.as_millis()).unwrap_or(0);
    world.trace.add(
        world.executor.micros(),
        Event::Fault {
            process,
            what,
            span_ms,
        },
    );
}

/// Does something once `span` has passed, unless all trouble is over by then.
fn later(
    world: &Arc<World>,
    span: Duration,
    stop: &CancellationToken,
    act: impl FnOnce(&Arc<World>) + Send + 'static,
) {
    let (there, stop) = (world.clone(), stop.clone());
    world.executor.spawn(Place::loops(WORLD), async move {
        there.executor.sleep(span).await;
        if !stop.is_cancelled() {
            act(&there);
        }
    });
}

fn strike(world: &Arc<World>, dice: &mut Dice, kind: Kind, stop: &CancellationToken) {
    let seat = dice.below(world.plan.seats);
    let Some(process) = world.process(seat) else {
        return;
    };
    let lease = i64::try_from(world.plan.config.lease.as_millis()).unwrap_or(0);
    let span = match dice.below(3) {
        0 => dice.millis(10, lease / 2),
        1 => dice.millis(lease / 2, lease),
        _ => dice.millis(lease, lease * 3),
    };
    match kind {
        Kind::Kill => {
            note(world, process, "kill", Duration::ZERO);
            world.kill(seat);
        }
        Kind::Freeze => freeze(world, process, span, stop),
        Kind::Stall => stall(world, process, span, stop),
        Kind::Partition => partition(world, dice, process, span, stop),
        Kind::Outage => {
            let span = span.mul_f64(0.7);
            note(world, WORLD, "outage", span);
            world.network.all_down();
            later(world, span, stop, |world| {
                note(world, WORLD, "outage ends", Duration::ZERO);
                world.network.everybody_is_back();
            });
        }
        Kind::Cut => {
            note(world, process, "cut", Duration::ZERO);
            world.network.cut(Some(process), Duration::ZERO);
        }
        Kind::Jump => {
            let by = dice.between(-lease * 2, lease * 2);
            note(
                world,
                WORLD,
                "clock jump",
                Duration::from_millis(by.unsigned_abs()),
            );
            world.server.jump(by);
        }
        Kind::Deploy => {
            note(world, process, "deploy", Duration::ZERO);
            world.stop(seat);
        }
    }
}

fn freeze(world: &Arc<World>, process: Process, span: Duration, stop: &CancellationToken) {
    note(world, process, "freeze", span);
    world.book.process_freezes(process);
    world.executor.freeze(Place::loops(process));
    world.executor.freeze(Place::heartbeat(process));
    later(world, span, stop, move |world| {
        note(world, process, "thaw", Duration::ZERO);
        thaw(world, process);
    });
}

/// The loops stand still while the heartbeat goes on: user code blocks the runtime.
fn stall(world: &Arc<World>, process: Process, span: Duration, stop: &CancellationToken) {
    note(world, process, "stall", span);
    world.executor.freeze(Place::loops(process));
    later(world, span, stop, move |world| {
        note(world, process, "stall ends", Duration::ZERO);
        world.executor.thaw(Place::loops(process));
    });
}

fn partition(
    world: &Arc<World>,
    dice: &mut Dice,
    process: Process,
    span: Duration,
    stop: &CancellationToken,
) {
    note(world, process, "partition", span);
    world.book.excuse(process);
    let unnoticed = if dice.chance(0.5) {
        Duration::ZERO
    } else {
        dice.millis(0, 15_000)
    };
    world.network.down(process, unnoticed);
    later(world, span, stop, move |world| {
        note(world, process, "partition ends", Duration::ZERO);
        world.book.excuse(process);
        world.network.back(process);
    });
}

/// Lets everything of a process go on.
pub(crate) fn thaw(world: &World, process: Process) {
    world.book.process_thaws(process);
    world.executor.thaw(Place::loops(process));
    world.executor.thaw(Place::heartbeat(process));
}

/// Starts what was killed or has left, now and then.
fn revive(world: &Arc<World>, dice: &mut Dice) {
    for seat in 0..world.plan.seats {
        if world.process(seat).is_none() && dice.chance(0.5) {
            world.start(seat);
            note(
                world,
                world.process(seat).unwrap_or(WORLD),
                "start",
                Duration::ZERO,
            );
        }
    }
}
