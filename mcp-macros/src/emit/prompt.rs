use proc_macro2::TokenStream;
use quote::quote_spanned;

use super::{Entry, common::common, here};
use crate::model::Prompt;

/// Emits the static data of a prompt.
///
/// ```text
/// PromptEntry { common: CommonEntry { … } }
/// ```
pub(crate) fn prompt(prompt: &Prompt, private: &TokenStream) -> Entry {
    let common = common(&prompt.common, "write_prompt", Vec::new(), private);
    let value = quote_spanned!(here()=> #private::PromptEntry { common: #common });
    let call = &prompt.common.call;
    Entry { kind: "Prompt", value, conditions: call.conditions.clone() }
}
