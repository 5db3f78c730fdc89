//! Types that nobody else sees may travel in the payload, and a job that only a schedule starts is not dead code.
#![deny(warnings, missing_docs, unused, dead_code, nonstandard_style)]

/// A module with a public job.
mod reports {
    use ax_sdk::prelude::*;

    #[derive(Default, serde::Serialize, serde::Deserialize)]
    pub(crate) struct Scope {
        pub(crate) days: u8,
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Pages(u32);

    #[ax_job]
    #[ax_schedule(cron = "0 0 2 * * *")]
    async fn nightly(#[ax(default)] pages: Option<Pages>) -> JobResult<Pages> {
        Ok(pages.unwrap_or(Pages(1)))
    }

    /// A report.
    #[ax_job]
    pub(crate) async fn report(scope: Scope) -> JobResult<()> {
        let _ = scope.days;
        Ok(())
    }
}

/// The compiler itself warns about such a function once; the job beside it adds nothing.
mod inner {
    use ax_sdk::prelude::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Hidden(u8);

    #[ax_job]
    #[expect(private_interfaces, reason = "the function would warn without the attribute, too")]
    pub async fn hidden(hidden: Hidden) -> JobResult<Hidden> {
        Ok(hidden)
    }
}

fn main() {
    let _ = reports::report::task(reports::Scope { days: 1 });
}
