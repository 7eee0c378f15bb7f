#![deny(warnings)]

mod elsewhere {
    #[derive(mcp_runtime::Elicit)]
    #[elicit(legacy_names)]
    pub enum Size {
        #[elicit(rename = "s", title = "Small")]
        Small = 4,
        r#Large,
    }
}

use elsewhere::Size;

const LEAST: u8 = 3;

/// A form.
#[derive(mcp_runtime::Elicit)]
#[elicit(crate = mcp_runtime)]
pub struct Every {
    /// A number.
    #[elicit(default = LEAST, range = 1..=255)]
    pub number: u8,
    #[elicit(default, length = ..=80, title = "For people", description = include_str!("../../../hygiene/description.txt"))]
    pub text: String,
    #[elicit(default = "s", rename = "the-size")]
    pub size: Size,
    #[elicit(default = vec![Size::Small, Size::Large], length = 1..)]
    pub sizes: Vec<Size>,
    #[elicit(default = ["s"])]
    pub more: Option<Vec<Size>>,
    #[elicit(range = 0..256)]
    pub byte: Option<u8>,
    pub r#type: Option<f32>,
    #[deprecated]
    pub old: bool,
}

#[derive(mcp_runtime::Elicit)]
struct Confirm;

macro_rules! form {
    ($name:ident { $field:ident: $of:ty = $default:literal }) => {
        #[derive(mcp_runtime::Elicit)]
        struct $name {
            #[elicit(default = $default, range = 1..)]
            $field: $of,
        }
    };
}

form!(Written { number: u8 = 5 });

fn main() {
    let _ = mcp_runtime::ask::Elicitation::<Every>::new("every", "Fill in.");
    let _ = mcp_runtime::ask::Elicitation::<Confirm>::new("confirm", "Sure?");
    let _ = mcp_runtime::ask::Elicitation::<Written>::new("written", "Fill in.");
    let _ = |written: Written| written.number;
}
