//! Brings the schema to the version of this program, one process at a time.

use ax_core::Error;

use super::Store;

impl Store {
    /// Applies what is missing. A second process that comes meanwhile waits for the first.
    ///
    /// # Errors
    /// `Schema` when the database is newer than this program or an applied migration differs; any error of the database.
    pub async fn migrate(&self) -> Result<(), Error> {
        todo!()
    }

    /// Checks that the schema is exactly what this program needs.
    ///
    /// # Errors
    /// `Schema`, with what to run.
    pub async fn check_schema(&self) -> Result<(), Error> {
        todo!()
    }
}
