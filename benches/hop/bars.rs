//! Bar charts as SVG: a group of bars for each load, a colour for each peer.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 28.0;
/// The share of a group's width that its bars take.
const FILLED: f64 = 0.84;
const COLOURS: [&str; 8] = ["#9aa5b1", "#3c896d", "#8a5a9e", "#b58900", "#586069", "#d08fb0", "#c8553d", "#1b6ca8"];

/// Values of one peer, one for each group; a value that is no number has no bar.
pub(crate) type Series = (String, Vec<f64>);

/// The chart as a document. All series have a value for every group.
pub(crate) fn bars(title: &str, groups: &[String], series: &[Series]) -> String {
    let values = series.iter().flat_map(|(_, values)| values).copied().filter(|it| it.is_finite());
    let top = round_up(values.fold(0.0, f64::max));
    let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    let y = |value: f64| TOP + height * (1.0 - value / top);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{title}</text>\n"
    );
    for step in 0..=4 {
        let value = top * f64::from(step) / 4.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{:.0}\" stroke=\"#dddddd\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value) + 4.0,
            y = y(value),
        );
    }
    let group_width = width / groups.len() as f64;
    let bar_width = group_width * FILLED / series.len() as f64;
    for (place, group) in groups.iter().enumerate() {
        let left = LEFT + group_width * place as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{group}</text>",
            left + group_width / 2.0,
            HEIGHT - 10.0
        );
        for (number, (_, values)) in series.iter().enumerate().filter(|(_, (_, values))| values[place].is_finite()) {
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                left + group_width * (1.0 - FILLED) / 2.0 + bar_width * number as f64,
                y(values[place]),
                bar_width * 0.92,
                HEIGHT - BOTTOM - y(values[place]),
                COLOURS[number % COLOURS.len()]
            );
        }
    }
    let step = width / series.len() as f64;
    for (number, (name, _)) in series.iter().enumerate() {
        let (x, colour) = (LEFT + step * number as f64, COLOURS[number % COLOURS.len()]);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.0}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{colour}\"/><text x=\"{:.0}\" y=\"39\">{name}</text>",
            x + 14.0
        );
    }
    svg + "</svg>\n"
}

/// The next number that reads well on an axis.
fn round_up(value: f64) -> f64 {
    let size = 10_f64.powf(value.max(1e-9).log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
    steps.map(|step| step * size).into_iter().find(|it| *it >= value).unwrap_or(value)
}
