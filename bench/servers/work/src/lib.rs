//! The implementation of the tools of all servers, and their types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The arguments of `search` as a single value.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Search {
    /// Words that must appear.
    pub query: String,
    /// Conditions that articles must meet.
    pub filter: Filter,
    /// The part of the result to return.
    pub page: Page,
}

/// Conditions that articles must meet.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Filter {
    /// Tags that articles must have.
    pub tags: Vec<String>,
    /// The price range.
    pub price: Price,
    /// The name of the seller.
    pub seller: Option<String>,
}

/// A price range.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Price {
    /// The lowest price.
    pub min: f64,
    /// The highest price.
    pub max: f64,
}

/// A part of a result.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Page {
    /// The number of articles to skip.
    pub offset: u32,
    /// The number of articles to return.
    pub limit: u32,
}

/// The result of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Found {
    /// The number of articles on all pages.
    pub total: u64,
    /// The articles of this page.
    pub items: Vec<Article>,
}

/// An article.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Article {
    /// The article number.
    pub id: u64,
    /// The name.
    pub title: String,
    /// The price.
    pub price: f64,
    /// Whether it is in stock.
    pub in_stock: bool,
    /// The tags.
    pub tags: Vec<String>,
    /// The seller.
    pub seller: Seller,
}

/// A seller.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Seller {
    /// The name.
    pub name: String,
    /// The average rating by customers, from 1 to 5.
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
