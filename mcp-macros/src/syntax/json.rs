use syn::{
    Expr, LitStr, Token, braced, bracketed,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    token,
};

/// A JSON value, whose numbers, strings and booleans are Rust literals.
pub(crate) enum JsonSyntax {
    Null,
    Literal(Expr),
    Array(Punctuated<JsonSyntax, Token![,]>),
    Object(Punctuated<JsonMember, Token![,]>),
}

/// `"key": value`
pub(crate) struct JsonMember {
    pub(crate) key: LitStr,
    pub(crate) value: JsonSyntax,
}

impl Parse for JsonSyntax {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let inner;
        if input.peek(token::Brace) {
            braced!(inner in input);
            return Ok(Self::Object(Punctuated::parse_terminated(&inner)?));
        }
        if input.peek(token::Bracket) {
            bracketed!(inner in input);
            return Ok(Self::Array(Punctuated::parse_terminated(&inner)?));
        }
        let value = input.parse()?;
        match &value {
            Expr::Path(path) if path.path.is_ident("null") => Ok(Self::Null),
            _ => Ok(Self::Literal(value)),
        }
    }
}

impl Parse for JsonMember {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self { key, value: input.parse()? })
    }
}
