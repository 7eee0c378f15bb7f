use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};

use super::argument;
use crate::model::{Argument, Call, Execution, ParameterSource};

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
    // The closure of a blocking function has a reference to the context.
    let borrowed = match call.execution {
        Execution::Blocking => quote_spanned!(here=> #context),
        Execution::Sync | Execution::Async => quote_spanned!(here=> &#context),
    };
    let values = values(call, |ty| quote_spanned!(super::here()=> #private::get::<#ty>(#borrowed)));
    let finish = quote_spanned! {here=>
        #private::finish(#borrowed, |reply| #private::#write::<#output>(reply, #private::mapped!(#output, value)))
    };
    let future = match call.execution {
        Execution::Blocking => quote_spanned! {here=>
            #private::blocking(#context, move |#context| {
                let value = #path(#values);
                #finish
            })
        },
        Execution::Sync | Execution::Async => quote_spanned! {here=>
            async move {
                let value = #path(#values).await;
                #finish
            }
        },
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
pub(super) fn decode(arguments: &[Argument], private: &TokenStream) -> TokenStream {
    let names: Vec<Ident> = (0..arguments.len()).map(slot_name).collect();
    let slots = arguments.iter().map(|argument| argument::slot(argument, private));
    quote_spanned! {super::here()=>
        #(let mut #names = #slots;)*
        input.decode(&mut [#(&mut #names),*])?;
    }
}

pub(super) fn slot_name(index: usize) -> Ident {
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
