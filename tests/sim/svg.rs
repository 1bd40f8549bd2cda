//! Line charts as SVG, small and the same for the same numbers.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 44.0;
const COLOURS: [&str; 6] = ["#1b6ca8", "#c8553d", "#3c896d", "#8a5a9e", "#b58900", "#586069"];

/// One line of a chart: its name, and its points.
#[derive(Debug)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub struct Chart {
    pub title: String,
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<Line>,
}

impl Chart {
    /// The chart as a document.
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (x_max, y_max) = points().fold((1.0_f64, 0.0_f64), |(x, y), point| (x.max(point.0), y.max(point.1)));
        let y_max = round_up(y_max);
        let at = |(x, y): (f64, f64)| {
            let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
            (LEFT + x / x_max * width, HEIGHT - BOTTOM - y / y_max * height)
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"{LEFT}\" y=\"18\" font-size=\"14\" font-weight=\"bold\">{}</text>\n",
            self.title
        );
        for step in 0..=4 {
            let value = y_max * f64::from(step) / 4.0;
            let ((left, y), (right, _)) = (at((0.0, value)), at((x_max, value)));
            let _ = writeln!(svg, "<path d=\"M{left:.0} {y:.1}H{right:.0}\" stroke=\"#dddddd\"/>");
            let _ =
                writeln!(svg, "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", left - 6.0, y + 4.0);
        }
        for step in 0..=6 {
            let value = (x_max * f64::from(step) / 6.0).round();
            let (x, y) = at((value, 0.0));
            let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{value}</text>", y + 16.0);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 10.0,
            self.x
        );
        let _ = writeln!(svg, "<text x=\"6\" y=\"34\">{}</text>", self.y);
        for (place, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[place % COLOURS.len()];
            let mut path = String::new();
            for (number, &point) in line.points.iter().enumerate() {
                let (x, y) = at(point);
                let _ = write!(path, "{}{x:.1} {y:.1}", if number == 0 { 'M' } else { 'L' });
            }
            let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>");
            let x = WIDTH - RIGHT - 150.0 * (self.lines.len() - place) as f64;
            let _ = writeln!(svg, "<text x=\"{x:.0}\" y=\"34\" fill=\"{colour}\">{}</text>", line.name);
        }
        svg + "</svg>\n"
    }
}

/// The next number that reads well on an axis.
fn round_up(value: f64) -> f64 {
    let size = 10_f64.powf(value.max(1e-9).log10().floor());
    [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
        .map(|step| step * size)
        .into_iter()
        .find(|&it| it >= value)
        .unwrap_or(value)
}
