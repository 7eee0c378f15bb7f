//! The implementation of the tools of all servers, and their types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `search`, for those who take them as one value.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Search {
    /// Words that must appear.
    pub query: String,
    /// What an article must be like.
    pub filter: Filter,
    /// Which part of the result is wanted.
    pub page: Page,
}

/// What an article must be like.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Filter {
    /// All of these tags.
    pub tags: Vec<String>,
    /// What it may cost.
    pub price: Price,
    /// Who sells it.
    pub seller: Option<String>,
}

/// What an article may cost.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Price {
    /// At least this.
    pub min: f64,
    /// At most this.
    pub max: f64,
}

/// A part of a result.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Page {
    /// How many articles to leave out.
    pub offset: u32,
    /// How many articles to return.
    pub limit: u32,
}

/// What was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Found {
    /// How many articles there are on all pages.
    pub total: u64,
    /// The articles of this page.
    pub items: Vec<Article>,
}

/// An article.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Article {
    /// Its number.
    pub id: u64,
    /// What it is called.
    pub title: String,
    /// What it costs.
    pub price: f64,
    /// Whether it can be sent today.
    pub in_stock: bool,
    /// Its tags.
    pub tags: Vec<String>,
    /// Who sells it.
    pub seller: Seller,
}

/// Somebody who sells articles.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Seller {
    /// The name.
    pub name: String,
    /// What customers think, from 1 to 5.
    pub rating: f64,
}

/// Returns a page of invented articles.
pub fn search(query: &str, filter: &Filter, page: &Page) -> Found {
    let seller = filter.seller.as_deref().unwrap_or("Anybody");
    let article = |number: u32| Article {
        id: 100_000 + u64::from(number),
        title: format!("The \"{query}\" that is number {number} of the catalogue"),
        price: (filter.price.min + f64::from(number) * 0.25).min(filter.price.max),
        in_stock: !number.is_multiple_of(3),
        tags: filter.tags.clone(),
        seller: Seller { name: seller.to_owned(), rating: 4.5 },
    };
    Found { total: 1_234, items: (page.offset..page.offset + page.limit).map(article).collect() }
}
