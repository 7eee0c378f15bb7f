use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use super::{argument::argument, call, slice};
use crate::{model::Server, syntax::Function};

/// Emits the function that serves, usually `main`.
///
/// ```text
/// fn main() -> ExitCode {
///     async fn main(server: Server, db: PathBuf) -> Result<Server, Error> { … }
///
///     start(package!(), const { &[ArgumentEntry { … }] }, |server, input| {
///         let mut a0 = slot::<PathBuf>();
///         input.decode(&mut [&mut a0])?;
///         let a0 = a0.take();
///         Ok(Box::pin(async move { <Result<Server, Error> as IntoServer>::into_server(main(server, a0).await) }))
///     })
/// }
/// ```
pub(crate) fn server(server: &Server, function: &Function, private: &TokenStream) -> TokenStream {
    let here = server.function.span().resolved_at(Span::mixed_site());
    let Server { function: main, flags, output, asynchronous, server_span, .. } = server;
    let slots: Vec<Ident> = (0..flags.len()).map(call::slot_name).collect();
    let decode = call::decode(flags, private);
    let value = Ident::new("server", server_span.resolved_at(Span::mixed_site()));
    let values = flags
        .iter()
        .zip(&slots)
        .map(|(flag, slot)| if flag.borrowed { quote_spanned!(here=> &#slot) } else { quote_spanned!(here=> #slot) });
    let visibility = &function.visibility;
    let wait = asynchronous.then(|| quote_spanned!(here=> .await));
    let flags = slice(flags.iter().map(|flag| argument(flag, private)));
    quote_spanned! {here=>
        #visibility fn #main() -> ::std::process::ExitCode {
            #function

            #private::start(#private::package!(), const { #flags }, |server, input| {
                #decode
                #(let #slots = #slots.take();)*
                ::core::result::Result::Ok(::std::boxed::Box::pin(async move {
                    <#output as #private::IntoServer>::into_server(#main(#value #(, #values)*) #wait)
                }))
            })
        }
    }
}
