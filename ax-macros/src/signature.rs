//! The function behind a job: its parameters and what they are to the engine.
//!
//! The body is carried along unread. What no job can have (a receiver, generics, patterns, borrowed parameters) is
//! refused here, in words that say what to write instead.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Expr, FnArg, Ident, Pat, PatType, PathArguments, ReturnType, Signature, Type,
    Visibility,
};

use crate::fault::Faults;
use crate::setting::{Setting, Vocabulary, arguments_of};

/// A function as it was written, the body not taken apart.
pub(crate) struct JobFn {
    /// Attributes, docs included.
    pub(crate) attributes: Vec<Attribute>,
    /// Visibility.
    pub(crate) visibility: Visibility,
    /// From `async` to the return type.
    pub(crate) signature: Signature,
    body: TokenStream,
}

impl Parse for JobFn {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        Ok(Self {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: input.parse()?,
        })
    }
}

impl ToTokens for JobFn {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.append_all(&self.attributes);
        self.visibility.to_tokens(tokens);
        self.signature.to_tokens(tokens);
        self.body.to_tokens(tokens);
    }
}

/// A parameter of the function.
pub(crate) struct Parameter {
    /// Its name.
    pub(crate) ident: Ident,
    /// Its type.
    pub(crate) ty: Type,
    /// Where its value comes from.
    pub(crate) source: Source,
}

/// Where the value of a parameter comes from.
pub(crate) enum Source {
    /// From the attempt, through `FromJob`.
    Injected,
    /// From the payload.
    Payload(Field),
}

/// How a parameter stands in the payload.
pub(crate) struct Field {
    /// The name it is written under, then the others it is read under.
    pub(crate) names: Vec<String>,
    /// What it is when the payload does not have it.
    pub(crate) absent: Absent,
}

/// What a parameter is when the payload does not have it.
pub(crate) enum Absent {
    /// An error.
    Refused,
    /// `Default::default()`.
    Default,
    /// This value.
    Value(Box<Expr>),
}

const OPTIONS: Vocabulary = Vocabulary {
    attribute: "#[ax]",
    options: &["inject", "rename", "alias", "default"],
    unlisted: &[],
    repeated: &["alias"],
    elsewhere: &[],
};

/// Reads the parameters and takes `#[ax(…)]` off them; `None` when no job can be made of the function.
pub(crate) fn parameters(function: &mut JobFn, faults: &mut Faults) -> Option<Vec<Parameter>> {
    let sound = check_shape(function, faults);
    let mut parameters = Vec::new();
    let mut complete = true;
    for input in &mut function.signature.inputs {
        match input {
            FnArg::Receiver(receiver) => {
                faults.on(receiver, RECEIVER);
                complete = false;
            }
            FnArg::Typed(typed) => match parameter(typed, faults) {
                Some(parameter) => parameters.push(parameter),
                None => complete = false,
            },
        }
    }
    check_names(&parameters, faults);
    (sound && complete).then_some(parameters)
}

const RECEIVER: &str = "a job is a free function, not a method: move it out of the `impl` and take what it needs of `self` as \
                        `State<…>` (given to the builder with `.state(value)`)";

fn check_shape(function: &JobFn, faults: &mut Faults) -> bool {
    let signature = &function.signature;
    let mut sound = true;
    let mut refuse = |tokens: &dyn ToTokens, text: &str| {
        faults.on(tokens, text);
        sound = false;
    };
    if !signature.generics.params.is_empty() {
        let text = "a job cannot be generic: its payload is read back by name alone; write one job per type";
        refuse(&signature.generics.params, text);
    } else if let Some(clause) = &signature.generics.where_clause {
        refuse(clause, "a job is not generic and needs no `where`");
    }
    if let syn::Safety::Unsafe(token) = &signature.safety {
        refuse(
            token,
            "the engine calls jobs from safe code: make the function safe and its body `unsafe { … }`",
        );
    }
    if let Some(abi) = &signature.abi {
        refuse(abi, "a job is an ordinary Rust function, without `extern`");
    }
    if let Some(variadic) = &signature.variadic {
        refuse(variadic, "a job has a fixed number of parameters");
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && has_impl(ty)
    {
        refuse(
            ty,
            "name the type that the job returns: `JobResult<T>`; for a future write `async fn`",
        );
    }
    if !function
        .body
        .clone()
        .into_iter()
        .any(|token| matches!(token, TokenTree::Group(_)))
    {
        refuse(
            &signature.ident,
            "a job needs a body; `#[ax_job]` does not go on the methods of a trait",
        );
    }
    sound
}

fn parameter(typed: &mut PatType, faults: &mut Faults) -> Option<Parameter> {
    let marks = marks(typed, faults);
    let ident = name(&typed.pat, faults);
    let ty = (*typed.ty).clone();
    let source = source(&ty, &marks, ident.as_ref(), faults);
    let sound = check_type(&ty, &source, faults);
    let ident = ident?;
    sound.then_some(Parameter { ident, ty, source })
}

/// Takes the options of `#[ax(…)]` off a parameter.
fn marks(typed: &mut PatType, faults: &mut Faults) -> Vec<Setting> {
    let mut marks = Vec::new();
    for attribute in typed
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("ax"))
    {
        if let Some(tokens) = faults.keep(arguments_of(attribute)) {
            marks.extend(OPTIONS.read(tokens, faults));
        }
    }
    typed
        .attrs
        .retain(|attribute| !attribute.path().is_ident("ax"));
    for attribute in &typed.attrs {
        if attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr") {
            faults.on(
                attribute,
                "a job has the same parameters in every build; put `#[cfg]` on the function",
            );
        }
    }
    marks
}

fn name(pattern: &Pat, faults: &mut Faults) -> Option<Ident> {
    match pattern {
        Pat::Ident(simple) if simple.by_ref.is_none() && simple.subpat.is_none() => {
            Some(simple.ident.clone())
        }
        other => {
            faults.on(other, "a parameter of a job needs a plain name, under which it stands in the payload; take it apart in the body");
            None
        }
    }
}

fn source(ty: &Type, marks: &[Setting], ident: Option<&Ident>, faults: &mut Faults) -> Source {
    let inject = marks.iter().find(|mark| mark.name == "inject");
    if let Some(inject) = inject {
        faults.keep(inject.flag());
    }
    if inject.is_none() && !is_known_injection(ty) {
        return Source::Payload(field(marks, ident, faults));
    }
    for mark in marks.iter().filter(|mark| mark.name != "inject") {
        faults.on(
            &mark.name,
            format!(
                "`{}` is for payload parameters; this one comes from the engine",
                mark.name
            ),
        );
    }
    Source::Injected
}

/// `JobContext` and `State<…>`, by the last part of the path.
fn is_known_injection(ty: &Type) -> bool {
    let path = match bare(ty) {
        Type::Reference(reference) => return is_known_injection(&reference.elem),
        Type::Path(path) => path,
        _ => return false,
    };
    path.path
        .segments
        .last()
        .is_some_and(|segment| match &segment.arguments {
            PathArguments::AngleBracketed(_) => segment.ident == "State",
            _ => segment.ident == "JobContext",
        })
}

fn field(marks: &[Setting], ident: Option<&Ident>, faults: &mut Faults) -> Field {
    let mut names: Vec<String> = ident
        .map(|ident| ident.unraw().to_string())
        .into_iter()
        .collect();
    let mut absent = Absent::Refused;
    for mark in marks {
        if mark.name == "rename" {
            if let (Some(text), Some(first)) =
                (faults.keep(mark.text("orderId")), names.first_mut())
            {
                *first = text.value();
            }
        } else if mark.name == "alias" {
            names.extend(faults.keep(mark.text("order")).map(|text| text.value()));
        } else if mark.name == "default" {
            absent = mark
                .value
                .clone()
                .map_or(Absent::Default, |value| Absent::Value(Box::new(value)));
        }
    }
    Field { names, absent }
}

fn check_type(ty: &Type, source: &Source, faults: &mut Faults) -> bool {
    let text = match (bare(ty), source) {
        (Type::Reference(reference), Source::Payload(_)) => owned_advice(&reference.elem),
        (Type::Reference(reference), Source::Injected) => {
            format!("the engine gives this parameter by value: write `{}`", plain(&reference.elem))
        }
        (other, _) if has_impl(other) => {
            "a job cannot be generic, and `impl Trait` is: write the type that travels in the payload".to_owned()
        }
        (other, Source::Payload(_)) if borrows(other.to_token_stream()) => {
            format!("{STORED}, and `{}` does: write an owned type", plain(other))
        }
        _ => return true,
    };
    faults.on(ty, text);
    false
}

const STORED: &str =
    "the payload is read back from the database, so a job cannot borrow from its caller";

fn owned_advice(borrowed: &Type) -> String {
    let owned = match borrowed {
        Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
        Type::Path(path) if path.path.is_ident("Path") => "PathBuf".to_owned(),
        Type::Slice(slice) => format!("Vec<{}>", plain(&slice.elem)),
        other => plain(other),
    };
    format!("{STORED}: write `{owned}`")
}

/// Type text as people write it.
fn plain(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (spaced, tight) in [
        (" < ", "<"),
        (" >", ">"),
        (" :: ", "::"),
        ("& ", "&"),
        (" ,", ","),
        ("' ", "'"),
    ] {
        text = text.replace(spaced, tight);
    }
    text
}

fn check_names(parameters: &[Parameter], faults: &mut Faults) {
    let mut seen: Vec<&str> = Vec::new();
    for parameter in parameters {
        let Source::Payload(field) = &parameter.source else {
            continue;
        };
        for name in &field.names {
            if seen.contains(&name.as_str()) {
                faults.on(
                    &parameter.ident,
                    format!("two parameters are read from the field `{name}` of the payload"),
                );
            }
            seen.push(name);
        }
    }
}

/// A type without the invisible groups of `macro_rules!` and without parentheses.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        other => other,
    }
}

/// Whether an absent field of this type is `None`.
pub(crate) fn is_option(ty: &Type) -> bool {
    matches!(bare(ty), Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "Option"))
}

fn has_impl(ty: &Type) -> bool {
    any_token(
        ty.to_token_stream(),
        &|token| matches!(token, TokenTree::Ident(ident) if ident == "impl"),
    )
}

/// Whether a `&` or a lifetime other than `'static` stands anywhere in a type.
fn borrows(tokens: TokenStream) -> bool {
    let mut after_tick = false;
    tokens.into_iter().any(|token| {
        let lifetime = std::mem::replace(&mut after_tick, false);
        match token {
            TokenTree::Group(group) => borrows(group.stream()),
            TokenTree::Ident(ident) => lifetime && ident != "static",
            TokenTree::Punct(punct) => {
                after_tick = punct.as_char() == '\'';
                punct.as_char() == '&'
            }
            TokenTree::Literal(_) => false,
        }
    })
}

fn any_token(tokens: TokenStream, wanted: &dyn Fn(&TokenTree) -> bool) -> bool {
    tokens.into_iter().any(|token| match &token {
        TokenTree::Group(group) => any_token(group.stream(), wanted),
        other => wanted(other),
    })
}
