//! `#[ax_schedule(…)]`: its options, and how it finds its job.
//!
//! The attribute is read by `#[ax_job]`, which sees all attributes of the function. When it stands above `#[ax_job]` the
//! compiler calls it first; it then moves itself below.

use ax_core::{Cron, JobName, Misfire, Overlap, Timestamp};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Attribute;

use crate::fault::Faults;
use crate::setting::{Setting, Vocabulary, arguments_of, is_named};
use crate::signature::JobFn;

/// Options that stand nowhere else.
pub(crate) const ONLY_THERE: &[&str] = &[
    "delay",
    "every",
    "fixed_delay",
    "cron",
    "tz",
    "misfire",
    "overlap",
    "event",
    "at",
];

const OPTIONS: Vocabulary = Vocabulary {
    attribute: "#[ax_schedule]",
    options: &[
        "delay",
        "every",
        "fixed_delay",
        "cron",
        "tz",
        "misfire",
        "overlap",
        "name",
    ],
    unlisted: &["event", "at"],
    repeated: &[],
    elsewhere: &[(
        &[
            "aliases", "retries", "backoff", "timeout", "priority", "on_lost", "handle", "crate",
        ],
        "#[ax_job(…)]",
    )],
};

const WHEN: &str = "say when: `delay = \"30m\"`, `every = \"10s\"`, `fixed_delay = \"10s\"` or `cron = \"0 0 2 * * *\"`";
const MISFIRES: &[&str] = &["fire_once", "skip", "fire_all(100)", "fire_last_n(3)"];
const OVERLAPS: &[&str] = &[
    "skip",
    "queue_one",
    "queue_all",
    "cancel_running",
    "allow(2)",
];

/// The schedules of one function.
#[derive(Default)]
pub(crate) struct Schedules {
    /// Preset delay of a submit.
    pub(crate) delay_ms: Option<u64>,
    /// What makes tasks by itself.
    pub(crate) recurring: Vec<Schedule>,
}

/// A schedule that makes tasks by itself.
pub(crate) struct Schedule {
    /// Own name.
    pub(crate) name: Option<String>,
    /// When it fires.
    pub(crate) trigger: Trigger,
    /// Text of a misfire policy, checked.
    pub(crate) misfire: String,
    /// Text of an overlap policy, checked.
    pub(crate) overlap: String,
}

/// When a schedule fires.
pub(crate) enum Trigger {
    /// Fixed rate.
    Every(u64),
    /// Pause after the end of the former task.
    FixedDelay(u64),
    /// A cron text and its zone.
    Cron(String, String),
}

impl Schedules {
    /// Reads every `#[ax_schedule]` among the attributes of a function.
    pub(crate) fn read(attributes: &[Attribute], faults: &mut Faults) -> Self {
        let mut schedules = Self::default();
        for attribute in attributes
            .iter()
            .filter(|attribute| is_named(attribute, "ax_schedule"))
        {
            if let Some(tokens) = faults.keep(arguments_of(attribute)) {
                let (known, settings) = (faults.count(), OPTIONS.read(tokens, faults));
                if settings.is_empty() && faults.count() > known {
                    continue;
                }
                schedules.add(attribute, &settings, faults);
            }
        }
        schedules
    }

    fn add(&mut self, attribute: &Attribute, settings: &[Setting], faults: &mut Faults) {
        if let Some(event) = find(settings, "event").or_else(|| find(settings, "at")) {
            faults.on(&event.name, "event triggers are not available in this version; use `delay`, `every`, `fixed_delay` or `cron`");
            return;
        }
        let kinds: Vec<&Setting> = settings
            .iter()
            .filter(|setting| {
                ["delay", "every", "fixed_delay", "cron"]
                    .iter()
                    .any(|kind| setting.name == kind)
            })
            .collect();
        match kinds.as_slice() {
            [] if settings.is_empty() => faults.on(attribute, WHEN),
            [] => faults.on(&settings[0].name, WHEN),
            [kind] if kind.name == "delay" => self.set_delay(kind, settings, faults),
            [kind] => self.recurring.extend(recurring(kind, settings, faults)),
            [first, second, ..] => {
                let text = format!(
                    "`{}` and `{}` are two triggers; write one `#[ax_schedule(…)]` for each",
                    first.name, second.name
                );
                faults.on(&second.name, text);
            }
        }
    }

    fn set_delay(&mut self, delay: &Setting, settings: &[Setting], faults: &mut Faults) {
        for other in settings.iter().filter(|setting| setting.name != "delay") {
            let text = format!(
                "`{}` does not go with `delay`, which only presets the delay of a submit",
                other.name
            );
            faults.on(&other.name, text);
        }
        if self.delay_ms.is_some() {
            faults.on(
                &delay.name,
                "the job has a preset delay already; keep one of them",
            );
        }
        self.delay_ms = faults.keep(delay.millis("30m")).or(self.delay_ms);
    }
}

fn find<'a>(settings: &'a [Setting], name: &str) -> Option<&'a Setting> {
    settings.iter().find(|setting| setting.name == name)
}

fn recurring(kind: &Setting, settings: &[Setting], faults: &mut Faults) -> Option<Schedule> {
    let trigger = match kind.name.to_string().as_str() {
        "cron" => {
            cron(kind, find(settings, "tz"), faults).map(|(text, zone)| Trigger::Cron(text, zone))
        }
        "every" => faults.keep(interval(kind)).map(Trigger::Every),
        _ => faults.keep(interval(kind)).map(Trigger::FixedDelay),
    };
    if kind.name != "cron"
        && let Some(zone) = find(settings, "tz")
    {
        faults.on(
            &zone.name,
            format!(
                "`tz` goes with `cron`; `{}` does not depend on a zone",
                kind.name
            ),
        );
    }
    let mut option = |name: &str, read: &dyn Fn(&Setting) -> syn::Result<String>| {
        find(settings, name).and_then(|setting| faults.keep(read(setting)))
    };
    let name = option("name", &|setting| setting.checked("nightly", JobName::new));
    let misfire = option("misfire", &|setting| {
        setting.policy(MISFIRES, str::parse::<Misfire>)
    });
    let overlap = option("overlap", &|setting| {
        setting.policy(OVERLAPS, str::parse::<Overlap>)
    });
    Some(Schedule {
        name,
        trigger: trigger?,
        misfire: misfire.unwrap_or_else(|| Misfire::default().to_string()),
        overlap: overlap.unwrap_or_else(|| Overlap::default().to_string()),
    })
}

fn interval(setting: &Setting) -> syn::Result<u64> {
    match setting.millis("10s")? {
        0 => Err(setting.error(format!(
            "`{}` needs an interval greater than zero",
            setting.name
        ))),
        millis => Ok(millis),
    }
}

/// The text and the zone, each checked at its own place.
fn cron(text: &Setting, zone: Option<&Setting>, faults: &mut Faults) -> Option<(String, String)> {
    let checked = faults.keep(text.checked("0 0 2 * * *", |text| Cron::parse(text, "UTC")));
    let zone = match zone {
        Some(zone) => {
            faults.keep(zone.checked("Asia/Shanghai", |zone| Cron::parse("* * * * *", zone)))?
        }
        None => "UTC".to_owned(),
    };
    let checked = checked?;
    match Cron::parse(&checked, &zone) {
        Ok(cron) if cron.can_fire(EARLIEST_FIRE) => Some((checked, zone)),
        Ok(_) => {
            faults.at(
                text.span(),
                "this can never fire: no date fits; check day, month and year",
            );
            None
        }
        Err(error) => {
            faults.at(text.span(), error);
            None
        }
    }
}

/// A build must not depend on the day it is made on: 2020-01-01.
const EARLIEST_FIRE: Timestamp = Timestamp::from_millis(1_577_836_800_000);

/// What `#[ax_schedule]` does when the compiler calls it before `#[ax_job]`, or without one.
pub(crate) fn hand_to_job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let Ok(mut function) = syn::parse2::<JobFn>(item.clone()) else {
        return orphan(item);
    };
    if !function
        .attributes
        .iter()
        .any(|attribute| is_named(attribute, "ax_job"))
    {
        return orphan(item);
    }
    function
        .attributes
        .push(syn::parse_quote!(#[ax_schedule(#arguments)]));
    function.into_token_stream()
}

fn orphan(item: TokenStream) -> TokenStream {
    let text = "`#[ax_schedule]` says when a job runs, and this is no job: put `#[ax_job]` on the same function, under its \
                own name (not renamed by `use … as`)";
    let error = syn::Error::new(Span::call_site(), text).into_compile_error();
    quote!(#item #error)
}
