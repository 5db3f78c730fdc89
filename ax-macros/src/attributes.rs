//! The options of `#[ax_job(…)]`.

use ax_core::{JobName, OnLost, Priority, RetryPolicy};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, Ident, Path};

use crate::fault::Faults;
use crate::setting::{Setting, Vocabulary};

/// What `#[ax_job]` knows.
const OPTIONS: Vocabulary = Vocabulary {
    attribute: "#[ax_job]",
    options: &[
        "name", "aliases", "retries", "backoff", "timeout", "priority", "on_lost", "handle",
        "crate",
    ],
    unlisted: &[],
    repeated: &[],
    elsewhere: &[
        (crate::schedule::ONLY_THERE, "#[ax_schedule(…)]"),
        (
            &["rename", "alias", "default", "inject"],
            "#[ax(…)] on a parameter",
        ),
    ],
};

/// The options of a job; what is not given is `None`.
pub(crate) struct JobOptions {
    /// Name in the task rows.
    pub(crate) name: Option<String>,
    /// Former names.
    pub(crate) aliases: Vec<String>,
    /// Retries after the first attempt.
    pub(crate) retries: Option<u32>,
    /// Waits between attempts, checked.
    pub(crate) backoff: Option<String>,
    /// Longest time of one attempt.
    pub(crate) timeout_ms: Option<u64>,
    /// Lane.
    pub(crate) priority: u8,
    /// What happens when the worker dies.
    pub(crate) on_lost: OnLost,
    /// Name of the type beside the function.
    pub(crate) handle: Option<Ident>,
    /// Path of `ax_sdk`.
    pub(crate) sdk: TokenStream,
}

impl JobOptions {
    /// Reads the tokens between the parentheses; a bad option counts as not given.
    pub(crate) fn read(tokens: TokenStream, faults: &mut Faults) -> Self {
        let mut options = Self {
            name: None,
            aliases: Vec::new(),
            retries: None,
            backoff: None,
            timeout_ms: None,
            priority: Priority::default().get(),
            on_lost: OnLost::Retry,
            handle: None,
            sdk: quote!(::ax_sdk),
        };
        for setting in OPTIONS.read(tokens, faults) {
            let taken = options.take(&setting);
            faults.keep(taken);
        }
        options
    }

    fn take(&mut self, setting: &Setting) -> syn::Result<()> {
        match setting.name.to_string().as_str() {
            "name" => self.name = Some(setting.checked("order.close", JobName::new)?),
            "aliases" => self.aliases = aliases(setting)?,
            "retries" => self.retries = Some(setting.number(MOST_RETRIES, 3)?),
            "backoff" => self.backoff = Some(backoff(setting)?),
            "timeout" => self.timeout_ms = Some(timeout(setting)?),
            "priority" => self.priority = u8::try_from(setting.number(9, 5)?).unwrap_or_default(),
            "on_lost" => self.on_lost = on_lost(setting)?,
            "handle" => self.handle = Some(handle(setting)?),
            _ => self.sdk = sdk_path(setting)?,
        }
        Ok(())
    }
}

/// Attempts are counted in 31 bits by the databases.
const MOST_RETRIES: u32 = 1_000_000;

fn aliases(setting: &Setting) -> syn::Result<Vec<String>> {
    setting
        .texts("close_order")?
        .into_iter()
        .map(|alias| {
            let text = alias.value();
            JobName::new(&text)
                .map(|_| text)
                .map_err(|error| syn::Error::new_spanned(&alias, format!("`aliases`: {error}")))
        })
        .collect()
}

fn backoff(setting: &Setting) -> syn::Result<String> {
    setting.checked("exponential 1s x2 max 10m", |text| {
        let policy: RetryPolicy = text.parse()?;
        policy.validate()
    })
}

fn timeout(setting: &Setting) -> syn::Result<u64> {
    match setting.millis("30s")? {
        0 => Err(setting.error("no attempt can end in no time; leave `timeout` out for no limit")),
        millis => Ok(millis),
    }
}

fn on_lost(setting: &Setting) -> syn::Result<OnLost> {
    let text = setting.policy(&["retry", "fail"], str::parse::<OnLost>)?;
    text.parse()
        .map_err(|error: ax_core::Error| setting.error(error))
}

fn handle(setting: &Setting) -> syn::Result<Ident> {
    match &setting.value {
        Some(Expr::Path(path)) if path.qself.is_none() => path.path.get_ident().cloned(),
        _ => None,
    }
    .ok_or_else(|| {
        setting.error("`handle` takes the name of the type to make: `handle = CloseOrder`")
    })
}

fn sdk_path(setting: &Setting) -> syn::Result<TokenStream> {
    match &setting.value {
        Some(Expr::Path(path)) if path.qself.is_none() => {
            let path: &Path = &path.path;
            Ok(quote!(#path))
        }
        _ => Err(setting.error("`crate` takes the path of `ax_sdk`: `crate = ::shop::ax_sdk`")),
    }
}
