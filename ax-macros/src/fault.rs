//! Errors that are collected, so that one build shows all of them.

use std::fmt::Display;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;

/// The errors found so far.
#[derive(Default)]
pub(crate) struct Faults(Vec<syn::Error>);

impl Faults {
    /// An error that underlines `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, text: impl Display) {
        self.0.push(syn::Error::new_spanned(tokens, text));
    }

    /// An error at a place.
    pub(crate) fn at(&mut self, span: Span, text: impl Display) {
        self.0.push(syn::Error::new(span, text));
    }

    /// The value, or `None` with the error kept.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.push(error)).ok()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// One `compile_error!` per error; nothing when there is none.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0
            .into_iter()
            .map(syn::Error::into_compile_error)
            .collect()
    }
}
