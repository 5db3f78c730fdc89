//! The code that stands for a job.
//!
//! Enters: the function with all its attributes. Leaves: the function as written, and beside it the type that carries `JOB`
//! and `task(…)`, and the entry in the list of linked jobs. Types of parameters keep the places they have in the user's
//! code, so that a type error underlines them. Names that a user could also have are avoided: locals are hygienic, items
//! start with `__ax`. `#[cfg]` needs no care: the compiler obeys it before it calls an attribute.

use ax_core::OnLost;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Attribute, Ident, ReturnType, Visibility};

use crate::attributes::JobOptions;
use crate::fault::Faults;
use crate::schedule::{Schedule, Schedules, Trigger};
use crate::setting::is_named;
use crate::signature::{self, Absent, Field, JobFn, Parameter, Source};

/// What `#[ax_job(arguments)] item` becomes.
pub(crate) fn job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut function: JobFn = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => return not_a_function(&item, &error),
    };
    let mut faults = Faults::default();
    let options = JobOptions::read(arguments, &mut faults);
    let schedules = Schedules::read(&function.attributes, &mut faults);
    function
        .attributes
        .retain(|attribute| !is_named(attribute, "ax_schedule"));
    let parameters = signature::parameters(&mut function, &mut faults);
    let beside = parameters.map(|parameters| {
        check_ticks(&schedules, &parameters, &mut faults);
        Job::new(&function, options, schedules, parameters).into_tokens()
    });
    let faults = faults.into_tokens();
    quote!(#function #beside #faults)
}

fn not_a_function(item: &TokenStream, error: &syn::Error) -> TokenStream {
    let is_function = item
        .clone()
        .into_iter()
        .any(|token| token.to_string() == "fn");
    let text = "`#[ax_job]` goes on a function: `async fn close_order(order_id: u64) -> JobResult<()> { … }`";
    let fault = if is_function {
        error.to_compile_error()
    } else {
        syn::Error::new(Span::call_site(), text).into_compile_error()
    };
    quote!(#item #fault)
}

/// A tick has no payload: every parameter must do without one.
fn check_ticks(schedules: &Schedules, parameters: &[Parameter], faults: &mut Faults) {
    if schedules.recurring.is_empty() {
        return;
    }
    for parameter in parameters {
        let Source::Payload(Field {
            absent: Absent::Refused,
            ..
        }) = &parameter.source
        else {
            continue;
        };
        if !signature::is_option(&parameter.ty) {
            let text = format!(
                "a schedule submits this job without a payload, so `{}` needs a value: mark it `#[ax(default)]` or \
                 `#[ax(default = …)]`, make it an `Option`, or take what it stands for from a `State`",
                parameter.ident
            );
            faults.on(&parameter.ident, text);
        }
    }
}

/// All that is known of a job, ready to be written.
struct Job {
    function: Ident,
    is_async: bool,
    /// Calling it is no news to its author.
    deprecated: bool,
    visibility: Visibility,
    docs: Vec<Attribute>,
    returns: TokenStream,
    name: String,
    handle: Ident,
    /// `…::__private`
    sdk: TokenStream,
    options: JobOptions,
    schedules: Schedules,
    parameters: Vec<Parameter>,
}

impl Job {
    fn new(
        function: &JobFn,
        options: JobOptions,
        schedules: Schedules,
        parameters: Vec<Parameter>,
    ) -> Self {
        let ident = &function.signature.ident;
        let sdk = &options.sdk;
        Self {
            function: ident.clone(),
            is_async: function.signature.asyncness.is_some(),
            deprecated: function
                .attributes
                .iter()
                .any(|attribute| is_named(attribute, "deprecated")),
            visibility: function.visibility.clone(),
            docs: function
                .attributes
                .iter()
                .filter(|attribute| attribute.path().is_ident("doc"))
                .cloned()
                .collect(),
            returns: match &function.signature.output {
                ReturnType::Default => quote_spanned!(ident.span()=> ()),
                ReturnType::Type(_, ty) => ty.to_token_stream(),
            },
            name: options
                .name
                .clone()
                .unwrap_or_else(|| ident.unraw().to_string()),
            handle: options.handle.clone().unwrap_or_else(|| ident.clone()),
            sdk: quote!(#sdk::__private),
            options,
            schedules,
            parameters,
        }
    }

    fn into_tokens(self) -> TokenStream {
        let Self {
            visibility,
            docs,
            handle,
            sdk,
            ..
        } = &self;
        let docs = if docs.is_empty() {
            let text = format!("The job `{}`.", self.name);
            quote!(#[doc = #text])
        } else {
            quote!(#(#docs)*)
        };
        let quiet_handle = quiet(handle);
        let definition = self.definition();
        let task = self.task();
        quote! {
            #docs
            #visibility enum #quiet_handle {}

            impl #handle {
                #definition
                #task
            }

            const _: () = {
                #sdk::inventory::submit! { #sdk::JobEntry(#handle::JOB) }
            };
        }
    }

    /// `const JOB`
    fn definition(&self) -> TokenStream {
        let Self {
            visibility,
            sdk,
            name,
            options,
            ..
        } = self;
        let aliases = &options.aliases;
        let max_retries = option(options.retries);
        let backoff = option(options.backoff.as_deref());
        let timeout = option(options.timeout_ms);
        let priority = options.priority;
        let on_lost = match options.on_lost {
            OnLost::Retry => quote!(Retry),
            OnLost::Fail => quote!(Fail),
        };
        let delay = option(self.schedules.delay_ms);
        let schedules = self
            .schedules
            .recurring
            .iter()
            .map(|schedule| schedule_tokens(schedule, sdk));
        let (run, kind) = self.run();
        let check = self.check();
        let line = quote_spanned!(self.function.span()=> ::core::line!());
        let doc = format!("The definition of the job `{name}`, for `Ax::builder(…).job(…)`.");
        quote! {
            #[doc = #doc]
            #visibility const JOB: #sdk::JobDef = {
                #run
                #check
                #sdk::JobDef {
                    name: #name,
                    aliases: &[#(#aliases),*],
                    max_retries: #max_retries,
                    backoff: #backoff,
                    timeout_ms: #timeout,
                    priority: #priority,
                    on_lost: #sdk::OnLost::#on_lost,
                    delay_ms: #delay,
                    schedules: &[#(#schedules),*],
                    check: __ax_check,
                    handler: #sdk::Handler::#kind(__ax_run),
                    file: ::core::file!(),
                    line: #line,
                }
            };
        }
    }

    /// The handler and the name of its kind.
    fn run(&self) -> (TokenStream, Ident) {
        let sdk = &self.sdk;
        let call = Ident::new("call", Span::mixed_site());
        let values: Vec<Ident> = (0..self.parameters.len()).map(local).collect();
        let taken = self
            .parameters
            .iter()
            .map(|parameter| taken(parameter, sdk));
        let arguments = Ident::new("arguments", Span::mixed_site());
        let arguments = self.has_payload().then(|| {
            let name = &self.name;
            quote!(let #arguments = #sdk::Arguments::read(#name, &#call.payload)?;)
        });
        let read = (!values.is_empty()).then(|| {
            quote! {
                let (#(#values,)*) = {
                    let #call = #call;
                    #arguments
                    #(let #values = #taken?;)*
                    (#(#values,)*)
                };
            }
        });
        let function = quiet(&self.function);
        let deprecated = self
            .deprecated
            .then(|| quote!(#[expect(deprecated, reason = "the tasks that are left still run")]));
        let wait = self.is_async.then(|| quote!(.await));
        let into_json = member(&self.returns, &quote!(#sdk::JobReturn), "into_json");
        let give = quote!(#into_json(#function(#(#values),*)#wait));
        let future = quote_spanned!(self.function.span()=> ::std::boxed::Box::pin(async move { #read #give }));
        if self.is_async {
            (
                quote!(#deprecated fn __ax_run(#call: #sdk::JobCall) -> #sdk::HandlerFuture { #future }),
                format_ident!("Async"),
            )
        } else {
            let result = quote!(#sdk::JobResult<::std::string::String>);
            (
                quote!(#deprecated fn __ax_run(#call: #sdk::JobCall) -> #result { #read #give }),
                format_ident!("Blocking"),
            )
        }
    }

    /// The question whether all states are there.
    fn check(&self) -> TokenStream {
        let sdk = &self.sdk;
        let states = Ident::new("states", Span::mixed_site());
        let checks = self
            .parameters
            .iter()
            .filter(|parameter| matches!(parameter.source, Source::Injected))
            .map(|parameter| {
                let check = member(&parameter.ty, &quote!(#sdk::FromJob), "check");
                quote!(#check(#states)?;)
            });
        quote! {
            fn __ax_check(#states: &#sdk::States) -> ::core::result::Result<(), ::std::string::String> {
                let _ = #states;
                #(#checks)*
                ::core::result::Result::Ok(())
            }
        }
    }

    /// `fn task(…)`
    fn task(&self) -> TokenStream {
        let Self {
            visibility,
            sdk,
            name,
            ..
        } = self;
        let arguments = Ident::new("arguments", Span::mixed_site());
        let (mut inputs, mut writes) = (Vec::new(), Vec::new());
        for Parameter { ident, ty, source } in &self.parameters {
            let Source::Payload(field) = source else {
                continue;
            };
            let key = field.names.first();
            let write = member(ty, &quote!(#sdk::Argument), "write");
            inputs.push(quote!(#ident: #ty));
            writes.push(quote!(let #arguments = #write(&#ident, #key, #arguments);));
        }
        let (first, last) = ends(&self.returns);
        let (returns, task_of) = (&self.returns, placed(&quote!(#sdk::TaskOf), first));
        let submission = quote_spanned!(last=> #task_of<#returns>);
        let doc = format!("A task of the job `{name}`; it does nothing until it is submitted.");
        quote! {
            #[doc = #doc]
            #visibility fn task(#(#inputs),*) -> #submission {
                let #arguments = #sdk::ArgumentsWriter::new();
                #(#writes)*
                #sdk::JobDef::submission(&Self::JOB, #arguments)
            }
        }
    }

    fn has_payload(&self) -> bool {
        self.parameters
            .iter()
            .any(|parameter| matches!(parameter.source, Source::Payload(_)))
    }
}

/// Expression that gives the value of a parameter, as a `Result`.
fn taken(parameter: &Parameter, sdk: &TokenStream) -> TokenStream {
    let call = Ident::new("call", Span::mixed_site());
    let arguments = Ident::new("arguments", Span::mixed_site());
    let ty = &parameter.ty;
    let Source::Payload(Field { names, absent }) = &parameter.source else {
        let from_job = member(ty, &quote!(#sdk::FromJob), "from_job");
        return quote!(#from_job(&#call));
    };
    let argument = quote!(#sdk::Argument);
    let names = quote!(&#arguments, &[#(#names),*]);
    let value = match absent {
        Absent::Refused => {
            let read = member(ty, &argument, "read");
            return quote!(#read(#names));
        }
        Absent::Default => {
            let default = member(ty, &quote!(::core::default::Default), "default");
            quote!(#default())
        }
        Absent::Value(value) => quote!(#value),
    };
    let read_or = member(ty, &argument, "read_or");
    quote!(#read_or(#names, || #value))
}

/// `<ty as role>::name`, spread over the place of the type: whatever part of it a type error underlines, it is the type.
fn member(ty: &impl ToTokens, role: &TokenStream, name: &str) -> TokenStream {
    let (first, last) = ends(ty);
    let (role, name) = (placed(role, last), Ident::new(name, last));
    let open = quote_spanned!(first=> <);
    quote_spanned!(last=> #open #ty as #role>::#name)
}

/// The places of the first and the last token.
fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let spans = tokens
        .to_token_stream()
        .into_iter()
        .map(|token| token.span());
    let first = spans.clone().next().unwrap_or_else(Span::call_site);
    (first, spans.last().unwrap_or(first))
}

/// The same tokens at another place.
fn placed(tokens: &TokenStream, span: Span) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.clone().into_iter().map(at).collect()
}

/// The name at its place, but as ours: lints of the user's crate do not look at it.
fn quiet(ident: &Ident) -> Ident {
    let mut ident = ident.clone();
    ident.set_span(ident.span().resolved_at(Span::call_site()));
    ident
}

/// The name of the value of the parameter at `index`.
fn local(index: usize) -> Ident {
    Ident::new(&format!("value_{index}"), Span::mixed_site())
}

fn option<T: ToTokens>(value: Option<T>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn schedule_tokens(schedule: &Schedule, sdk: &TokenStream) -> TokenStream {
    let name = option(schedule.name.as_deref());
    let trigger = match &schedule.trigger {
        Trigger::Every(ms) => quote!(Every { ms: #ms }),
        Trigger::FixedDelay(ms) => quote!(FixedDelay { ms: #ms }),
        Trigger::Cron(text, zone) => quote!(Cron { text: #text, zone: #zone }),
    };
    let (misfire, overlap) = (&schedule.misfire, &schedule.overlap);
    quote! {
        #sdk::ScheduleDef {
            name: #name,
            trigger: #sdk::TriggerDef::#trigger,
            misfire: #misfire,
            overlap: #overlap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_is_told_where_the_attribute_goes() {
        let text = job(
            quote!(),
            quote!(
                struct Order;
            ),
        )
        .to_string();
        assert!(text.contains("goes on a function"), "{text}");
    }

    #[test]
    fn several_faults_come_together() {
        let item = quote!(
            fn close(order: &str) {}
        );
        let text = job(quote!(retries = -1, timeout = "soon"), item).to_string();
        assert_eq!(text.matches("compile_error").count(), 3, "{text}");
    }

    #[test]
    fn the_function_is_left_as_it_was() {
        let item = quote!(
            pub async fn close(order: u64) -> JobResult<()> {
                Ok(())
            }
        );
        assert!(
            job(quote!(), item.clone())
                .to_string()
                .starts_with(&item.to_string())
        );
    }
}
