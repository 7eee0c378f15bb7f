use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};

use super::{argument, slice};
use crate::{
    model::{Argument, Call, Execution, ParameterSource, Server},
    syntax::Function,
};

/// Emits a closure that decodes the arguments, calls the function and writes its result with the function `write`.
///
/// The closure is in the same body as the table of arguments, so that an invalid type is reported only once.
///
/// ```text
/// Handler::Sync(|input, reply| {
///     let mut a0 = slot::<String>();
///     let mut a1 = slot_or_json::<usize>("10");
///     input.decode(&mut [&mut a0, &mut a1])?;
///     let a0 = a0.take();
///     let a1 = a1.take();
///     write_tool::<Json<Vec<Note>>>(reply, mapped!(Json<Vec<Note>>, search(input.get::<Db>(), &a0, a1)))
/// })
///
/// Handler::Async(|input, context| {
///     let mut a0 = slot::<String>();
///     input.decode(&mut [&mut a0])?;
///     let a0 = a0.take();
///     Ok(boxed(async move {
///         let value = search(get::<Db>(&context), &a0).await;
///         finish(&context, |reply| write_tool::<Json<Vec<Note>>>(reply, mapped!(Json<Vec<Note>>, value)))
///     }))
/// })
///
/// Handler::Async(|input, context| {
///     …
///     Ok(boxed(blocking(context, move |context| {
///         let value = search(get::<Db>(context), &a0);
///         finish(context, |reply| write_tool::<Json<Vec<Note>>>(reply, mapped!(Json<Vec<Note>>, value)))
///     })))
/// })
/// ```
pub(super) fn handler(call: &Call, write: &str, private: &TokenStream) -> TokenStream {
    // Errors about the call as a whole, such as a future that is not `Send`, are reported on the function's name.
    let here = call.function.span().resolved_at(Span::mixed_site());
    let write = Ident::new(write, here);
    let output = &call.output;
    let path = call.enclosing_type.path_to(&call.function);
    let slots: Vec<Ident> = (0..call.arguments.len()).map(slot_name).collect();
    let decode = decode(&call.arguments, private);
    if call.execution == Execution::Sync {
        let values = values(call, |ty| quote_spanned!(super::here()=> input.get::<#ty>()));
        return quote_spanned! {here=>
            #private::Handler::Sync(|input, reply| {
                #decode
                #(let #slots = #slots.take();)*
                #private::#write::<#output>(reply, #private::mapped!(#output, #path(#values)))
            })
        };
    }
    let context = Ident::new("context", here);
    let is_blocking = call.execution == Execution::Blocking;
    // The closure of a blocking function has a reference to the context.
    let borrowed = if is_blocking { quote_spanned!(here=> #context) } else { quote_spanned!(here=> &#context) };
    let wait = if is_blocking { TokenStream::new() } else { quote_spanned!(here=> .await) };
    let values = values(call, |ty| quote_spanned!(super::here()=> #private::get::<#ty>(#borrowed)));
    let body = quote_spanned! {here=>
        {
            let value = #path(#values) #wait;
            #private::finish(#borrowed, |reply| #private::#write::<#output>(reply, #private::mapped!(#output, value)))
        }
    };
    let future = if is_blocking {
        quote_spanned!(here=> #private::blocking(#context, move |#context| #body))
    } else {
        quote_spanned!(here=> async move #body)
    };
    quote_spanned! {here=>
        #private::Handler::Async(|input, #context| {
            #decode
            #(let #slots = #slots.take();)*
            ::core::result::Result::Ok(#private::boxed(#future))
        })
    }
}

/// Emits the declaration and the decoding of the slots.
fn decode(arguments: &[Argument], private: &TokenStream) -> TokenStream {
    let names: Vec<Ident> = (0..arguments.len()).map(slot_name).collect();
    let slots = arguments.iter().map(|argument| argument::slot(argument, private));
    quote_spanned! {super::here()=>
        #(let mut #names = #slots;)*
        input.decode(&mut [#(&mut #names),*])?;
    }
}

fn slot_name(index: usize) -> Ident {
    format_ident!("a{index}", span = super::here())
}

/// Emits the values that the function is called with.
fn values(call: &Call, get: impl Fn(&TokenStream) -> TokenStream) -> TokenStream {
    let here = super::here();
    let values = call.parameters.iter().map(|parameter| match parameter {
        ParameterSource::Server(_, ty) => get(ty),
        ParameterSource::Caller(index) => {
            let slot = slot_name(*index);
            if call.arguments[*index].borrowed { quote_spanned!(here=> &#slot) } else { quote_spanned!(here=> #slot) }
        }
    });
    quote_spanned!(here=> #(#values),*)
}

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
    let slots: Vec<Ident> = (0..flags.len()).map(slot_name).collect();
    let decode = decode(flags, private);
    let value = Ident::new("server", server_span.resolved_at(Span::mixed_site()));
    let values = flags
        .iter()
        .zip(&slots)
        .map(|(flag, slot)| if flag.borrowed { quote_spanned!(here=> &#slot) } else { quote_spanned!(here=> #slot) });
    let visibility = &function.visibility;
    let wait = asynchronous.then(|| quote_spanned!(here=> .await));
    let flags = slice(flags.iter().map(|flag| argument::argument(flag, private)));
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
