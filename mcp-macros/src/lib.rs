//! stub
use proc_macro::TokenStream;
/// t
#[proc_macro_attribute]
pub fn tool(_: TokenStream, i: TokenStream) -> TokenStream {
    i
}
/// t
#[proc_macro_attribute]
pub fn tools(_: TokenStream, i: TokenStream) -> TokenStream {
    i
}
/// t
#[proc_macro_attribute]
pub fn resource(_: TokenStream, i: TokenStream) -> TokenStream {
    i
}
/// t
#[proc_macro_attribute]
pub fn prompt(_: TokenStream, i: TokenStream) -> TokenStream {
    i
}
/// t
#[proc_macro_attribute]
pub fn server(_: TokenStream, i: TokenStream) -> TokenStream {
    i
}
