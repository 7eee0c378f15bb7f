//! Files of pages that the policy forbids, or that cannot become part of a page.

use mcp_runtime::ui;

#[ui("ui://notes/policy", file = "pages/policy.html", connect = ["https://api.example.com"])]
fn policy();

#[ui("ui://notes/files", file = "pages/files.html")]
fn files();

fn main() {}
