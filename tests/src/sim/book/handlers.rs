//! What may run.

use super::{Book, Id};
use crate::sim::check::Check;
use crate::sim::executor::Process;
use crate::sim::trace::{Event, short};

impl Book {
    /// A handler starts in a process.
    pub(crate) fn started(&self, process: Process, task: Id, fence: i64) {
        self.trace.add(
            self.executor.micros(),
            Event::Started {
                process,
                task,
                fence,
            },
        );
        let mut pages = self.pages();
        let pages = &mut *pages;
        let name = short(&task);
        let story = pages.tasks.entry(task).or_default();
        let claim = story.claims.get(&fence).copied();
        let again = story.starts.insert(fence, process).is_some();
        let open: Vec<i64> = story
            .starts
            .keys()
            .copied()
            .filter(|f| *f < fence && !story.explained.contains(f))
            .collect();
        let forbidden = story.at_most_once
            && story
                .lost
                .iter()
                .any(|lost| *lost < fence && story.starts.contains_key(lost));
        let own = claim.is_some_and(|(node, _)| pages.nodes.get(&node) == Some(&process));
        self.must(pages, Check::OwnClaim, own, || {
            format!("{name}:{fence} starts in p{process}, claimed by {claim:?}")
        });
        self.must(pages, Check::OwnClaim, !again, || {
            format!("{name}:{fence} starts twice")
        });
        self.must(pages, Check::ExplainedStart, open.is_empty(), || {
            format!("{name}:{fence} starts and nothing tells what became of the starts {open:?}")
        });
        self.must(pages, Check::AtMostOnce, !forbidden, || {
            format!("{name}:{fence} starts again after a loss")
        });
    }

    /// A handler ended; `how` is `ok` where it succeeded.
    pub(crate) fn ended(&self, process: Process, task: Id, fence: i64, how: &'static str) {
        self.trace.add(
            self.executor.micros(),
            Event::Ended {
                process,
                task,
                fence,
                how,
            },
        );
        self.pages()
            .tasks
            .entry(task)
            .or_default()
            .ends
            .insert(fence, how);
    }
}
