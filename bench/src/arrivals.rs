//! Reads recorded arrivals: the first column of a CSV file, gzipped or not.

use std::fs::File;
use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// The arrivals of a file, from the start of the recording, made `speed` times faster, in order.
pub(crate) fn read(path: &Path, speed: f64) -> anyhow::Result<Vec<Duration>> {
    if !(speed.is_finite() && speed > 0.0) {
        bail!("--speed must be a number above zero");
    }
    let mut arrivals = Vec::new();
    for (line, record) in csv::Reader::from_reader(open(path)?)
        .into_records()
        .enumerate()
    {
        let record =
            record.with_context(|| format!("read line {} of {}", line + 2, path.display()))?;
        let text = record.get(0).unwrap_or_default();
        let millis: f64 = text.trim().parse().with_context(|| {
            format!(
                "line {} of {}: {text:?} is not a number of milliseconds",
                line + 2,
                path.display()
            )
        })?;
        arrivals.push(
            Duration::try_from_secs_f64(millis / 1_000.0 / speed)
                .context("an arrival lies before the start")?,
        );
    }
    if arrivals.is_empty() {
        bail!("{} has no arrivals", path.display());
    }
    arrivals.sort_unstable();
    Ok(arrivals)
}

fn open(path: &Path) -> anyhow::Result<Box<dyn Read>> {
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut magic = [0; 2];
    let zipped = file.read(&mut magic)? == 2 && magic == [0x1f, 0x8b];
    file.seek(SeekFrom::Start(0))?;
    let reader = BufReader::new(file);
    Ok(if zipped {
        Box::new(flate2::read::MultiGzDecoder::new(reader))
    } else {
        Box::new(reader)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const TEXT: &[u8] = b"arrival_ms,size\n0,1\n1200,5\n600,2\n";

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn plain_and_gzipped_files_give_the_same_arrivals() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(TEXT).unwrap();
        let zipped = file(&gz.finish().unwrap());
        let expected = [0, 10, 20].map(Duration::from_millis);
        assert_eq!(read(file(TEXT).path(), 60.0).unwrap(), expected);
        assert_eq!(read(zipped.path(), 60.0).unwrap(), expected);
    }

    #[test]
    fn a_line_that_is_no_number_is_named() {
        let error = read(file(b"arrival_ms\n5\nx\n").path(), 1.0).unwrap_err();
        assert!(format!("{error:#}").contains("line 3"), "{error:#}");
    }
}
