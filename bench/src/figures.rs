//! What is printed: percentiles and rates, as JSON or for people.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Percentiles of a time in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// Median and 99th percentile of a time in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Two {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Tasks a second of ax, of the plain loop, and their ratio.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Rate {
    /// ax.
    pub ax: f64,
    /// A plain loop of the same statements, in the same run.
    pub raw: f64,
    /// ax over the plain loop.
    pub ratio: f64,
}

impl Rate {
    /// From the times that `tasks` took with each.
    pub(crate) fn new(tasks: usize, ax: Duration, raw: Duration) -> Rate {
        let (ax, raw) = (
            tasks as f64 / ax.as_secs_f64(),
            tasks as f64 / raw.as_secs_f64(),
        );
        Rate {
            ax: round(ax, 1.0),
            raw: round(raw, 1.0),
            ratio: round(ax / raw, 100.0),
        }
    }
}

/// Percentiles of times in microseconds.
pub(crate) fn percentiles(micros: impl IntoIterator<Item = i64>) -> Percentiles {
    let histogram = histogram(micros);
    let at = |q: f64| histogram.value_at_quantile(q) as f64 / 1_000.0;
    Percentiles {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64 / 1_000.0,
    }
}

/// Median and 99th percentile of times in microseconds.
pub(crate) fn two(micros: impl IntoIterator<Item = i64>) -> Two {
    let all = percentiles(micros);
    Two {
        p50: all.p50,
        p99: all.p99,
    }
}

fn histogram(micros: impl IntoIterator<Item = i64>) -> Histogram<u64> {
    let mut histogram =
        Histogram::new(3).unwrap_or_else(|e| unreachable!("three digits are allowed: {e}"));
    for value in micros {
        // A histogram that resizes itself takes every value.
        let _taken = histogram.record(u64::try_from(value).unwrap_or(0));
    }
    histogram
}

fn round(value: f64, by: f64) -> f64 {
    (value * by).round() / by
}
