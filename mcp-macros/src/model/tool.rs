//! `#[tool]`

use proc_macro2::Span;
use syn::{Expr, Ident, Lit, Path, ReturnType};

use super::{Common, EnclosingType, Execution, Kind};
use crate::{
    errors::{Errors, one_of},
    syntax::{Function, MetaSyntax, ToolSyntax},
};

/// The error of a tool with a page and without content. The runtime reports it for types such as `Result<(), E>`.
const NO_CONTENT: &str = "a tool with a page must return content";

/// A checked tool.
pub(crate) struct Tool {
    pub(crate) common: Common,
    /// `read_only`, `destructive`, `idempotent` and `open_world`
    pub(crate) hints: [Option<bool>; 4],
    pub(crate) task: TaskSupport,
    pub(crate) ui: Option<ToolUi>,
}

/// The page that shows the results of a tool, and who may call the tool.
pub(crate) struct ToolUi {
    pub(crate) page: Option<Path>,
    pub(crate) visibility: Visibility,
}

/// The callers to which a tool is offered.
#[derive(Clone, Copy)]
pub(crate) enum Visibility {
    /// The model and the page, as by default.
    All,
    Model,
    App,
}

/// Whether a call of a tool can become a task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskSupport {
    Forbidden,
    Optional,
    Required,
    Deferred,
}

impl TaskSupport {
    /// The values of the option `task`.
    const VALUES: [(&'static str, Self); 3] =
        [("optional", Self::Optional), ("required", Self::Required), ("deferred", Self::Deferred)];
}

impl Tool {
    /// Checks a tool and returns it with its function.
    pub(crate) fn check(given: ToolSyntax, enclosing_type: &EnclosingType, errors: &mut Errors) -> (Self, Function) {
        let ToolSyntax { mut function, common, hints, task, ui, visibility } = given;
        if let [Some((true, _)), Some((true, span)), ..] = hints {
            errors.help_at(span, "`destructive` contradicts `read_only`", "remove one of the two");
        }
        let ui = checked_ui(ui, &visibility, &common.meta, &function, errors);
        let common = Common::check(Kind::Tool, enclosing_type, common, &mut function, errors);
        let tool = Self {
            task: task.map_or(TaskSupport::Forbidden, |task| check_task(task, common.call.execution, errors)),
            common,
            hints: hints.map(|hint| hint.map(|(value, _)| value)),
            ui,
        };
        (tool, function)
    }
}

/// Checks the option `task`. A synchronous function cannot be a task, because it returns before a client could poll it.
fn check_task((value, span): (Option<Expr>, Span), execution: Execution, errors: &mut Errors) -> TaskSupport {
    let support = value.map_or(Some(TaskSupport::Optional), |value| read_task(&value, errors));
    let Some(support) = support else { return TaskSupport::Forbidden };
    match execution {
        Execution::Sync => errors.help_at(
            span,
            "a synchronous function cannot be a `task`: it blocks the server's thread until it returns",
            "add `blocking`, or make the function `async`",
        ),
        Execution::Blocking if support == TaskSupport::Deferred => errors.help_at(
            span,
            "a `blocking` function cannot be a deferred task: it cannot call `ctx.become_task().await`",
            "make the function `async`",
        ),
        Execution::Blocking | Execution::Async => {}
    }
    support
}

fn read_task(value: &Expr, errors: &mut Errors) -> Option<TaskSupport> {
    let Expr::Lit(literal) = value else { return invalid_value(value, errors) };
    let Lit::Str(text) = &literal.lit else { return invalid_value(value, errors) };
    let text = text.value();
    let known = || TaskSupport::VALUES.into_iter().map(|(name, _)| name);
    let support = TaskSupport::VALUES.into_iter().find_map(|(name, support)| (name == text).then_some(support));
    if support.is_none() {
        let message = format!("unknown task support `{text}`, expected {}", one_of(known()));
        errors.unknown(value, message, &text, known());
    }
    support
}

/// Checks the options `ui` and `visibility`.
fn checked_ui(
    page: Option<Path>,
    given: &[Ident],
    meta: &[MetaSyntax],
    function: &Function,
    errors: &mut Errors,
) -> Option<ToolUi> {
    let (mut model, mut app) = (false, false);
    for name in given {
        let seen = match name.to_string().as_str() {
            "model" => &mut model,
            "app" => &mut app,
            other => {
                let message = format!("unknown visibility `{other}`, expected one of `model`, `app`");
                errors.unknown(name, message, other, ["model", "app"]);
                continue;
            }
        };
        if std::mem::replace(seen, true) {
            errors.on(name, format_args!("duplicate visibility `{name}`"));
        }
    }
    if page.is_none() && given.is_empty() {
        return None;
    }
    for MetaSyntax { key, .. } in meta.iter().filter(|member| ["ui", "ui/resourceUri"].contains(&&*member.key.value()))
    {
        errors.on(key, format_args!("the options `ui` and `visibility` set the key `{}` of `meta`", key.value()));
    }
    if let (Some(page), ReturnType::Default) = (&page, &function.signature.output) {
        errors.help(page, NO_CONTENT, "return text or `Json`, which clients without pages show instead");
    }
    let visibility = match (model, app) {
        (true, false) => Visibility::Model,
        (false, true) => Visibility::App,
        _ => Visibility::All,
    };
    Some(ToolUi { page, visibility })
}

fn invalid_value(value: &Expr, errors: &mut Errors) -> Option<TaskSupport> {
    errors.on(
        value,
        r#"invalid value for the option `task`, expected `task`, `task = "required"` or `task = "deferred"`"#,
    );
    None
}
