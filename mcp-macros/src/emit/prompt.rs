use proc_macro2::TokenStream;
use quote::quote_spanned;

use super::{Entry, common::common, here};
use crate::model::Prompt;

/// ```text
/// PromptEntry { common: Common { … } }
/// ```
pub(crate) fn prompt(prompt: &Prompt, private: &TokenStream) -> Entry {
    let common = common(&prompt.common, "prompt", private);
    let value = quote_spanned!(here()=> #private::PromptEntry { common: #common });
    let call = &prompt.common.call;
    Entry { kind: "Prompt", value, conditions: call.conditions.clone() }
}
