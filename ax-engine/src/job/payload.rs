//! From parameters to JSON text and back.
//!
//! Enters: the parameters of `task(…)` by name, later the payload text of a claimed task. Leaves: one JSON object with one
//! field per parameter, later the parameters again. A payload that does not fit is a terminal error that names the field:
//! another attempt would read the same text. Unknown fields are passed over, so that old tasks outlive a new signature.

use std::borrow::Cow;
use std::fmt;

use ax_core::{JobError, JobResult};
use serde::de::value::Error as AbsentError;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};
use serde_json::value::RawValue;

/// A type that can travel in the payload of a task: it has both directions of serde and borrows nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel in the payload of a job",
    label = "this parameter is stored as JSON",
    note = "derive `serde::Serialize` and `serde::Deserialize` for `{Self}` and the types in it",
    note = "a value of the host comes as `State<{Self}>` (builder: `.state(value)`), any other as `#[ax(inject)]` through `FromJob`"
)]
pub trait Argument: Sized {
    /// Adds the value to a payload.
    #[doc(hidden)]
    fn write(&self, name: &str, arguments: ArgumentsWriter) -> ArgumentsWriter;

    /// Reads the field that has one of these names, the first that is there; an absent `Option` is `None`.
    #[doc(hidden)]
    fn read(arguments: &Arguments<'_>, names: &[&str]) -> JobResult<Self>;

    /// As [`read`](Self::read), with a value for a field that is absent.
    #[doc(hidden)]
    fn read_or(
        arguments: &Arguments<'_>,
        names: &[&str],
        default: impl FnOnce() -> Self,
    ) -> JobResult<Self>;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Argument for T {
    fn write(&self, name: &str, arguments: ArgumentsWriter) -> ArgumentsWriter {
        arguments.field(name, self)
    }

    fn read(arguments: &Arguments<'_>, names: &[&str]) -> JobResult<Self> {
        arguments.take(names)
    }

    fn read_or(
        arguments: &Arguments<'_>,
        names: &[&str],
        default: impl FnOnce() -> Self,
    ) -> JobResult<Self> {
        arguments.take_or(names, default)
    }
}

/// What the function of a job may return.
#[diagnostic::on_unimplemented(
    message = "a job cannot return `{Self}`",
    label = "expected `JobResult<T>`",
    note = "return `JobResult<T>` (or `Result<T, E>` with an error that turns into `JobError`), where `T` is stored as JSON",
    note = "a job without a result returns `JobResult<()>`"
)]
pub trait JobReturn {
    /// The value of a task that succeeded.
    type Output;

    /// The result as JSON text.
    #[doc(hidden)]
    fn into_json(self) -> JobResult<String>;
}

impl<T: Serialize, E: JobFailure> JobReturn for Result<T, E> {
    type Output = T;

    fn into_json(self) -> JobResult<String> {
        encode(&self.map_err(JobFailure::into_job_error)?)
    }
}

/// What a job may return as its error: everything that turns into a `JobError`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a job",
    label = "no `JobError` can be made from this error",
    note = "implement `std::error::Error` for `{Self}`, or return `JobError` (`.map_err(JobError::msg)`)"
)]
pub trait JobFailure {
    /// The error as the engine knows it.
    #[doc(hidden)]
    fn into_job_error(self) -> JobError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<JobError>> JobFailure for E {
    fn into_job_error(self) -> JobError {
        self.into()
    }
}

impl JobReturn for () {
    type Output = ();

    fn into_json(self) -> JobResult<String> {
        encode(&self)
    }
}

/// Writes the result of a handler as JSON text.
///
/// A value without a JSON form (a map with keys that are not texts, an error of its own `Serialize`) is a terminal error.
pub fn encode<T: Serialize>(value: &T) -> JobResult<String> {
    serde_json::to_string(value).map_err(|error| {
        JobError::msg(format!("the result cannot be written as JSON: {error}")).terminal()
    })
}

/// Reads a whole payload into one type; for handlers that are written without the macro.
pub fn decode<'a, T: Deserialize<'a>>(payload: &'a str) -> JobResult<T> {
    serde_json::from_str(payload).map_err(|error| {
        JobError::msg(format!("the payload does not fit the job: {error}")).terminal()
    })
}

/// Collects parameters into the text of a payload.
#[derive(Debug)]
pub struct ArgumentsWriter {
    text: Vec<u8>,
    fault: Option<String>,
}

impl ArgumentsWriter {
    /// An object without fields.
    #[expect(
        clippy::new_without_default,
        reason = "an unfinished object is not a useful default"
    )]
    pub fn new() -> Self {
        Self {
            text: vec![b'{'],
            fault: None,
        }
    }

    /// Adds one parameter; the first one that has no JSON form is reported by [`finish`](Self::finish).
    #[must_use]
    pub fn field<T: Serialize>(mut self, name: &str, value: &T) -> Self {
        if self.fault.is_none()
            && let Err(error) = self.append(name, value)
        {
            self.fault = Some(format!(
                "parameter `{name}` cannot be written as JSON: {error}"
            ));
        }
        self
    }

    fn append<T: Serialize>(&mut self, name: &str, value: &T) -> serde_json::Result<()> {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        serde_json::to_writer(&mut self.text, name)?;
        self.text.push(b':');
        serde_json::to_writer(&mut self.text, value)
    }

    /// The text, or what was wrong with the first bad parameter.
    pub fn finish(mut self) -> Result<String, String> {
        self.text.push(b'}');
        match self.fault {
            Some(fault) => Err(fault),
            None => String::from_utf8(self.text).map_err(|error| error.to_string()),
        }
    }
}

/// The fields of a payload, read once and then taken by name.
#[derive(Debug)]
pub struct Arguments<'a> {
    job: &'static str,
    fields: Vec<(Name<'a>, &'a RawValue)>,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Arguments<'a> {
    /// Splits the text of a payload into its fields.
    pub fn read(job: &'static str, payload: &'a str) -> JobResult<Self> {
        let mut reader = serde_json::Deserializer::from_str(payload);
        let fields = reader
            .deserialize_map(Fields)
            .and_then(|fields| reader.end().map(|()| fields));
        match fields {
            Ok(fields) => Ok(Self { job, fields }),
            Err(error) => Err(JobError::msg(format!("payload of job `{job}`: {error}")).terminal()),
        }
    }

    /// Reads the parameter that has one of these names, the first that is there; an absent `Option` is `None`.
    pub fn take<T: DeserializeOwned>(&self, names: &[&str]) -> JobResult<T> {
        match self.find(names) {
            Some((name, raw)) => self.parse(name, raw),
            None => T::deserialize(Absent).map_err(|_| self.missing(names)),
        }
    }

    /// As [`take`](Self::take), with a value for a field that is absent.
    pub fn take_or<T: DeserializeOwned>(
        &self,
        names: &[&str],
        default: impl FnOnce() -> T,
    ) -> JobResult<T> {
        match self.find(names) {
            Some((name, raw)) => self.parse(name, raw),
            None => Ok(default()),
        }
    }

    fn find(&self, names: &[&str]) -> Option<(&str, &'a RawValue)> {
        names.iter().find_map(|wanted| {
            let (name, raw) = self.fields.iter().find(|(name, _)| name.0 == *wanted)?;
            Some((name.0.as_ref(), *raw))
        })
    }

    fn parse<T: DeserializeOwned>(&self, name: &str, raw: &RawValue) -> JobResult<T> {
        serde_json::from_str(raw.get()).map_err(|error| {
            let text = error.to_string();
            let place = format!(" at line {} column {}", error.line(), error.column());
            let text = text.strip_suffix(&place).unwrap_or(&text);
            JobError::msg(format!(
                "payload of job `{}`, field `{name}`: {text}",
                self.job
            ))
            .terminal()
        })
    }

    fn missing(&self, names: &[&str]) -> JobError {
        let wanted = names.first().copied().unwrap_or_default();
        let text = format!("payload of job `{}`: field `{wanted}` is missing", self.job);
        JobError::msg(text).terminal()
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Vec<(Name<'de>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one field per parameter")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(map.size_hint().unwrap_or(4));
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

/// Stands for a field that is not there: only an `Option` can be made from it.
struct Absent;

impl<'de> Deserializer<'de> for Absent {
    type Error = AbsentError;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(AbsentError::custom("absent"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken<T: DeserializeOwned>(payload: &str, names: &[&str]) -> Result<T, String> {
        let arguments =
            Arguments::read("order.close", payload).map_err(|error| error.message().to_owned())?;
        arguments.take(names).map_err(|error| {
            assert_eq!(error.kind(), ax_core::JobErrorKind::Terminal);
            error.message().to_owned()
        })
    }

    #[test]
    fn writes_and_reads_parameters_by_name() {
        let text = ArgumentsWriter::new()
            .field("id", &7)
            .field("note", &"a \"b\"")
            .finish()
            .unwrap();
        assert_eq!(text, r#"{"id":7,"note":"a \"b\""}"#);
        assert_eq!(taken::<u64>(&text, &["id"]), Ok(7));
        assert_eq!(taken::<String>(&text, &["note"]), Ok("a \"b\"".into()));
    }

    #[test]
    fn an_object_without_parameters_is_empty() {
        assert_eq!(ArgumentsWriter::new().finish(), Ok("{}".into()));
    }

    #[test]
    fn the_first_parameter_without_a_json_form_is_named() {
        let bad = std::collections::BTreeMap::from([((1, 2), 3)]);
        let fault = ArgumentsWriter::new()
            .field("grid", &bad)
            .field("id", &1)
            .finish()
            .unwrap_err();
        assert_eq!(
            fault,
            "parameter `grid` cannot be written as JSON: key must be a string"
        );
    }

    #[test]
    fn the_first_name_that_is_there_wins_and_unknown_fields_are_passed_over() {
        assert_eq!(
            taken::<u64>(r#"{"old":1,"new":2,"x":[{}]}"#, &["new", "old"]),
            Ok(2)
        );
        assert_eq!(taken::<u64>(r#"{"old":1}"#, &["new", "old"]), Ok(1));
        assert_eq!(taken::<u64>(r#"{"\u006fld":1}"#, &["old"]), Ok(1));
    }

    #[test]
    fn an_absent_field_is_none_or_an_error_that_names_it() {
        assert_eq!(taken::<Option<u64>>("{}", &["id"]), Ok(None));
        let missing = Err("payload of job `order.close`: field `id` is missing".into());
        assert_eq!(taken::<u64>("{}", &["id"]), missing);
        assert_eq!(
            taken::<serde_json::Value>("{}", &["id"]).map(|_| 0),
            missing
        );
    }

    #[test]
    fn a_wrong_type_names_the_field_and_what_was_expected() {
        let error = taken::<u64>(r#"{"id":"x"}"#, &["id"]).unwrap_err();
        assert_eq!(
            error,
            "payload of job `order.close`, field `id`: invalid type: string \"x\", expected u64"
        );
    }

    #[test]
    fn a_payload_that_is_no_object_is_refused() {
        let error = taken::<u64>("[1]", &["id"]).unwrap_err();
        assert!(
            error.contains("expected an object with one field per parameter"),
            "{error}"
        );
        assert!(taken::<u64>(r#"{"id":1} x"#, &["id"]).is_err());
        assert!(taken::<u64>("", &["id"]).is_err());
    }

    #[test]
    fn a_deep_payload_is_an_error_and_no_overflow() {
        let deep = format!(r#"{{"id":{}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        assert!(
            taken::<serde_json::Value>(&deep, &["id"])
                .unwrap_err()
                .contains("recursion limit")
        );
    }
}
