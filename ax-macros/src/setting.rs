//! The common grammar of the attributes: `name`, `name = value`, separated by commas.
//!
//! Enters: the tokens between the parentheses. Leaves: settings with known names, each once, and readers that turn a value
//! into what the option wants or say how to write it.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Token};

use crate::fault::Faults;
use crate::nearest::{hint, nearest};

/// One `name` or `name = value`.
pub(crate) struct Setting {
    /// The name as written.
    pub(crate) name: Ident,
    /// What stands behind the `=`.
    pub(crate) value: Option<Expr>,
}

/// The options an attribute knows.
pub(crate) struct Vocabulary {
    /// The attribute as people write it, such as `#[ax_job]`.
    pub(crate) attribute: &'static str,
    /// Its options.
    pub(crate) options: &'static [&'static str],
    /// Options that are read so that they can be refused in words of their own.
    pub(crate) unlisted: &'static [&'static str],
    /// Options that may stand more than once.
    pub(crate) repeated: &'static [&'static str],
    /// Options that stand elsewhere, with the place.
    pub(crate) elsewhere: &'static [(&'static [&'static str], &'static str)],
}

impl Parse for Setting {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        let value = if input.parse::<Option<Token![=]>>()?.is_some() {
            Some(input.parse::<Expr>()?)
        } else {
            None
        };
        Ok(Self {
            name,
            value: value.map(ungroup),
        })
    }
}

/// Values that came through a `macro_rules!` stand in invisible parentheses.
fn ungroup(expression: Expr) -> Expr {
    match expression {
        Expr::Group(group) => ungroup(*group.expr),
        other => other,
    }
}

impl Vocabulary {
    /// Reads the tokens of an attribute; what is unknown or stands twice becomes a fault and is left out.
    pub(crate) fn read(&self, tokens: TokenStream, faults: &mut Faults) -> Vec<Setting> {
        let parsed = Punctuated::<Setting, Token![,]>::parse_terminated.parse2(tokens);
        let mut settings: Vec<Setting> = Vec::new();
        for setting in faults.keep(parsed).into_iter().flatten() {
            let name = setting.name.to_string();
            let known = [self.options, self.unlisted].concat();
            if !known.contains(&name.as_str()) {
                faults.on(&setting.name, self.unknown(&name));
            } else if settings.iter().any(|known| known.name == name)
                && !self.repeated.contains(&name.as_str())
            {
                faults.on(
                    &setting.name,
                    format!("`{name}` is given twice; keep one of them"),
                );
            } else {
                settings.push(setting);
            }
        }
        settings
    }

    fn unknown(&self, name: &str) -> String {
        let attribute = self.attribute;
        if let Some((_, place)) = self
            .elsewhere
            .iter()
            .find(|(options, _)| options.contains(&name))
        {
            return format!("`{name}` is no option of `{attribute}`: it belongs in `{place}`");
        }
        let hint = hint(name, self.options.iter().copied());
        let known = self.options.join("`, `");
        format!("`{name}` is no option of `{attribute}`{hint} (options: `{known}`)")
    }
}

impl Setting {
    /// The place of the value, or of the name when there is none.
    pub(crate) fn span(&self) -> Span {
        self.value
            .as_ref()
            .map_or_else(|| self.name.span(), syn::spanned::Spanned::span)
    }

    /// An error that underlines the value, or the name when there is none.
    pub(crate) fn error(&self, text: impl std::fmt::Display) -> syn::Error {
        match &self.value {
            Some(value) => syn::Error::new_spanned(value, text),
            None => syn::Error::new_spanned(&self.name, text),
        }
    }

    /// Refuses a value; for options that are a word alone.
    pub(crate) fn flag(&self) -> syn::Result<()> {
        match &self.value {
            Some(value) => Err(syn::Error::new_spanned(
                value,
                format!("`{}` stands alone, without a value", self.name),
            )),
            None => Ok(()),
        }
    }

    /// A text in quotes.
    pub(crate) fn text(&self, example: &str) -> syn::Result<LitStr> {
        self.value.as_ref().and_then(text_literal).ok_or_else(|| {
            self.error(format!(
                "`{0}` takes a text in quotes: `{0} = \"{example}\"`",
                self.name
            ))
        })
    }

    /// A list of texts, `["a", "b"]`.
    pub(crate) fn texts(&self, example: &str) -> syn::Result<Vec<LitStr>> {
        let wrong = || {
            self.error(format!(
                "`{0}` takes a list of texts: `{0} = [\"{example}\"]`",
                self.name
            ))
        };
        let Some(Expr::Array(list)) = &self.value else {
            return Err(wrong());
        };
        list.elems
            .iter()
            .map(|element| text_literal(&ungroup(element.clone())).ok_or_else(wrong))
            .collect()
    }

    /// A whole number up to `largest`.
    pub(crate) fn number(&self, largest: u32, example: u32) -> syn::Result<u32> {
        let wrong = || {
            let name = &self.name;
            self.error(format!(
                "`{name}` takes a whole number from 0 to {largest}, without quotes: `{name} = {example}`"
            ))
        };
        let Some(Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        })) = &self.value
        else {
            return Err(wrong());
        };
        let value: u32 = number.base10_parse().map_err(|_| wrong())?;
        if value > largest || !number.suffix().is_empty() {
            return Err(wrong());
        }
        Ok(value)
    }

    /// A duration in quotes, in milliseconds.
    pub(crate) fn millis(&self, example: &str) -> syn::Result<u64> {
        let text = self.text(example)?.value();
        let duration = ax_core::parse_duration(&text).map_err(|error| self.error(error))?;
        u64::try_from(duration.as_millis()).map_err(|_| {
            self.error(format!(
                "this is longer than any wait; write a duration like \"{example}\""
            ))
        })
    }

    /// A text that a parser of `ax-core` reads; the text is kept as it was written.
    pub(crate) fn checked<T>(
        &self,
        example: &str,
        parse: impl Fn(&str) -> Result<T, ax_core::Error>,
    ) -> syn::Result<String> {
        let text = self.text(example)?.value();
        match parse(&text) {
            Ok(_) => Ok(text),
            Err(error) => Err(self.error(error)),
        }
    }

    /// One of some words, possibly with a number in parentheses behind it.
    pub(crate) fn policy<T>(
        &self,
        words: &[&'static str],
        parse: impl Fn(&str) -> Result<T, ax_core::Error>,
    ) -> syn::Result<String> {
        let text = self
            .text(words.first().copied().unwrap_or_default())?
            .value();
        match parse(&text) {
            Ok(_) => Ok(text),
            Err(error) => Err(self.error(format!("{error}{}", hint_of_policy(&text, words)))),
        }
    }
}

/// Compares the words in front of the parentheses and shows the whole form.
fn hint_of_policy(text: &str, words: &[&'static str]) -> String {
    let found = nearest(head(text), words.iter().copied().map(head));
    let form = words.iter().find(|word| Some(head(word)) == found);
    form.map(|form| format!("; did you mean `{form}`?"))
        .unwrap_or_default()
}

fn head(policy: &str) -> &str {
    policy.split('(').next().unwrap_or_default().trim()
}

fn text_literal(expression: &Expr) -> Option<LitStr> {
    match expression {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.clone()),
        _ => None,
    }
}

/// The tokens between the parentheses of an attribute; nothing when it has none.
pub(crate) fn arguments_of(attribute: &syn::Attribute) -> syn::Result<TokenStream> {
    match &attribute.meta {
        syn::Meta::Path(_) => Ok(TokenStream::new()),
        syn::Meta::List(list) => Ok(list.tokens.clone()),
        syn::Meta::NameValue(pair) => Err(syn::Error::new_spanned(
            pair,
            format!(
                "write the options in parentheses: `#[{}(…)]`",
                pair.path.to_token_stream()
            ),
        )),
    }
}

/// Whether an attribute has this name, whatever path leads to it.
pub(crate) fn is_named(attribute: &syn::Attribute, name: &str) -> bool {
    attribute
        .path()
        .segments
        .last()
        .is_some_and(|segment| segment.ident == name)
}
