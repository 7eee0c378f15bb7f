use proc_macro2::TokenStream;
use quote::{format_ident, quote_spanned};

use super::{Entry, common::common, here, option};
use crate::model::{TaskSupport, Tool, ToolUi, Visibility};

/// Emits the static data of a tool.
///
/// ```text
/// ToolEntry {
///     output: OutputType::of::<Json<Vec<Note>>>(),
///     common: CommonEntry { … },
///     hints: Hints { read_only: Some(true), destructive: None, idempotent: None, open_world: None },
///     task: task_support!(Optional),
/// }
/// ```
pub(crate) fn tool(tool: &Tool, private: &TokenStream) -> Entry {
    let here = here();
    let [read_only, destructive, idempotent, open_world] =
        [tool.read_only, tool.destructive, tool.idempotent, tool.open_world].map(option);
    let output = &tool.common.call.output;
    let ui = tool.ui.iter().flat_map(|ui| ui_members(ui, output, private)).collect();
    let common = common(&tool.common, "write_tool", ui, private);
    // The macro fails without the feature `tasks` of the runtime.
    let supported = |variant| {
        let variant = format_ident!("{variant}", span = here);
        quote_spanned!(here=> #private::task_support!(#variant))
    };
    let task = match tool.task {
        TaskSupport::Forbidden => quote_spanned!(here=> #private::TaskSupport::Forbidden),
        TaskSupport::Optional => supported("Optional"),
        TaskSupport::Required => supported("Required"),
        TaskSupport::Deferred => supported("Deferred"),
    };
    let value = quote_spanned! {here=>
        #private::ToolEntry {
            output: #private::OutputType::of::<#output>(),
            common: #common,
            hints: #private::Hints {
                read_only: #read_only,
                destructive: #destructive,
                idempotent: #idempotent,
                open_world: #open_world,
            },
            task: #task,
        }
    };
    Entry { kind: "Tool", value, conditions: tool.common.call.conditions.clone() }
}

/// Emits the members of `_meta` that name the page of a tool and who may call it. The runtime concatenates no text: a
/// page provides the JSON of each member.
///
/// ```text
/// ("ui", { shows_content::<Json<Vec<Note>>>(); ui_member!(<board as Page>::LINKS[0usize]) })
/// ("ui/resourceUri", ui_member!(<board as Page>::URI_JSON))
/// ```
fn ui_members(ui: &ToolUi, output: &TokenStream, private: &TokenStream) -> Vec<(&'static str, TokenStream)> {
    let here = here();
    let ToolUi { page, visibility } = ui;
    let Some(page) = page else {
        let json = match visibility {
            Visibility::All => r#"{"visibility":["model","app"]}"#,
            Visibility::Model => r#"{"visibility":["model"]}"#,
            Visibility::App => r#"{"visibility":["app"]}"#,
        };
        return vec![("ui", quote_spanned!(here=> #private::ui_member!(#json)))];
    };
    let index = match visibility {
        Visibility::All => 0_usize,
        Visibility::Model => 1,
        Visibility::App => 2,
    };
    // Errors about the page are reported on its name.
    let there = page.segments.last().map_or(here, |last| last.ident.span().resolved_at(here));
    let link = quote_spanned! {there=>
        #private::ui_member!({
            #private::shows_content::<#output>();
            <#page as #private::Page>::LINKS[#index]
        })
    };
    vec![
        ("ui", link),
        ("ui/resourceUri", quote_spanned!(there=> #private::ui_member!(<#page as #private::Page>::URI_JSON))),
    ]
}
