//! The chart: the advantage over rmcp.

use std::fmt::Write as _;

use crate::{server::Implementation, table::Row};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 330.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 92.0;
const LINE: f64 = 30.0;
const BAR: f64 = 16.0;

/// Colors that are legible on light and dark pages.
const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #24292f; }\
    .title { font-size: 16px; font-weight: 600; } .small { font-size: 11px; fill: #57606a; }\
    .ours { fill: #2f81f7; } .worse { fill: #d2691e; } .limit { stroke: #8250df; stroke-width: 2.5; }\
    .grid { stroke: #8b949e; stroke-opacity: .35; } .peer { stroke: #8b949e; stroke-width: 1.5; }\
    @media (prefers-color-scheme: dark) {\
    text { fill: #e6edf3; } .small { fill: #9198a1; } .limit { stroke: #bc8cff; } }";

/// Draws the rows that both implementations have, on a logarithmic axis.
pub fn draw(rows: &[Row], machine: &str) -> String {
    let bars: Vec<_> = rows.iter().filter_map(|row| Some((row, row.advantage(Implementation::Ours)?))).collect();
    let others = bars.iter().filter_map(|(row, _)| row.advantage(Implementation::Limit));
    let all: Vec<f64> = bars.iter().map(|&(_, advantage)| advantage).chain(others).collect();
    let least = all.iter().copied().fold(1.0, f64::min).min(0.9);
    let most = all.iter().copied().fold(2.0, f64::max) * 1.1;
    let x = |ratio: f64| LEFT + (ratio / least).ln() / (most / least).ln() * (WIDTH - LEFT - RIGHT);
    let bottom = TOP + LINE * bars.len() as f64;
    let height = bottom + 44.0;

    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"How many times better than rmcp\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"16\" y=\"28\">How many times better than rmcp 3.11</text>\n\
         <text class=\"small\" x=\"16\" y=\"48\">faster, smaller or cheaper, on a logarithmic axis; the vertical line marks the minimal program (limit)</text>\n"
    );
    let _ = writeln!(out, "<text class=\"small\" x=\"16\" y=\"{}\">{}</text>", height - 12.0, escape(machine));
    for tick in [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0] {
        if (least..=most).contains(&tick) {
            let class = if tick == 1.0 { "peer" } else { "grid" };
            let label = if tick == 1.0 { "rmcp".to_owned() } else { format!("{tick}×") };
            let _ = writeln!(
                out,
                "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y1}\" y2=\"{bottom}\"/>\
                 <text class=\"small\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{label}</text>",
                x = x(tick),
                y1 = TOP - 6.0,
                y = TOP - 12.0,
            );
        }
    }
    for (index, (row, advantage)) in bars.into_iter().enumerate() {
        let y = TOP + LINE * index as f64 + (LINE - BAR) / 2.0;
        let (from, to) = (x(advantage.min(1.0)), x(advantage.max(1.0)));
        let class = if advantage < 1.0 { "worse" } else { "ours" };
        let _ = writeln!(
            out,
            "<text x=\"{label}\" y=\"{text}\" text-anchor=\"end\">{title}</text>\
             <rect class=\"{class}\" x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>",
            label = LEFT - 12.0,
            text = y + 12.5,
            title = escape(row.title),
            width = (to - from).max(1.0),
        );
        let mut end = to;
        if let Some(limit) = row.advantage(Implementation::Limit) {
            end = end.max(x(limit));
            let _ = writeln!(
                out,
                "<line class=\"limit\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>",
                y - 3.0,
                y + BAR + 3.0,
                x = x(limit)
            );
        }
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{}\">{}×</text>", end + 7.0, y + 12.5, round(advantage));
    }
    out + "</svg>\n"
}

fn round(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
