//! Which crate may use which.
//!
//! What enters: what `cargo metadata` says of the workspace. What leaves: dependencies that point upwards, and libraries that
//! a crate must do without. Dependencies of tests are free.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::Finding;

/// A crate of the workspace: the crates of ax that it may use, and the libraries that it must not.
struct Layer {
    name: &'static str,
    uses: &'static [&'static str],
    never: &'static [&'static str],
}

const IO: &[&str] = &[
    "tokio",
    "sqlx",
    "async-trait",
    "futures-util",
    "axum",
    "libc",
    "rustix",
];
const NOT_WORDS: &[&str] = &[
    "tokio",
    "sqlx",
    "axum",
    "clap",
    "tracing-subscriber",
    "anyhow",
];
const FACE: &[&str] = &["axum", "clap", "tracing-subscriber", "anyhow"];

/// From the ground up. A new crate needs a line here.
const LAYERS: &[Layer] = &[
    Layer {
        name: "ax-core",
        uses: &[],
        never: IO,
    },
    Layer {
        name: "ax-migrations",
        uses: &[],
        never: NOT_WORDS,
    },
    Layer {
        name: "ax-macros",
        uses: &["ax-core"],
        never: NOT_WORDS,
    },
    Layer {
        name: "ax-engine",
        uses: &["ax-core", "ax-migrations"],
        never: FACE,
    },
    Layer {
        name: "ax-sdk",
        uses: &["ax-core", "ax-macros", "ax-engine"],
        never: FACE,
    },
    Layer {
        name: "ax-console",
        uses: &["ax-core", "ax-sdk"],
        never: &["clap", "anyhow"],
    },
    Layer {
        name: "ax-cli",
        uses: &["ax-core", "ax-sdk", "ax-console"],
        never: &[],
    },
    Layer {
        name: "ax-examples",
        uses: &["ax-sdk", "ax-console"],
        never: &[],
    },
    Layer {
        name: "ax-tests",
        uses: ANY,
        never: &[],
    },
    Layer {
        name: "ax-bench",
        uses: ANY,
        never: &[],
    },
];

const ANY: &[&str] = &[
    "ax-core",
    "ax-migrations",
    "ax-macros",
    "ax-engine",
    "ax-sdk",
    "ax-console",
    "ax-cli",
];

/// What `cargo metadata` says of the workspace, as far as it is needed here.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    /// The crates of the workspace.
    pub packages: Vec<Package>,
}

/// A crate of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// What it needs.
    pub dependencies: Vec<Dependency>,
}

/// What a crate needs.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The name of the crate that is needed.
    pub name: String,
    /// `dev`, `build`, or nothing for a normal one.
    pub kind: Option<String>,
}

/// Asks cargo about the workspace at `root`, without the network.
///
/// # Errors
///
/// When cargo fails or says what cannot be read.
pub fn workspace(root: &Path) -> anyhow::Result<Workspace> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = [
        "metadata",
        "--no-deps",
        "--offline",
        "--locked",
        "--format-version",
        "1",
    ];
    let output = Command::new(cargo)
        .args(arguments)
        .current_dir(root)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "failed to run cargo metadata: {said}"
    );
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Dependencies that the order of the crates does not allow. The finding names the crate and not its file, at line 1.
pub fn out_of_order(workspace: &Workspace) -> Vec<Finding> {
    workspace.packages.iter().flat_map(of_package).collect()
}

fn of_package(package: &Package) -> Vec<Finding> {
    let finding = |text: String| Finding::new(format!("Cargo.toml of {}", package.name), 1, text);
    let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
        return vec![finding(
            "has no place in the order of the crates: give it one in tests/src/tidy/layers.rs"
                .into(),
        )];
    };
    let mut found = Vec::new();
    for needed in package
        .dependencies
        .iter()
        .filter(|needed| needed.kind.as_deref() != Some("dev"))
    {
        let name = needed.name.as_str();
        if name.starts_with("ax-") && !layer.uses.contains(&name) {
            found.push(finding(format!(
                "uses {name}, and may use only [{}]",
                layer.uses.join(", ")
            )));
        }
        if layer.never.contains(&name) {
            found.push(finding(format!(
                "uses {name}, which has no business in this crate"
            )));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, needs: &[(&str, Option<&str>)]) -> usize {
        let needed = |(name, kind): &(&str, Option<&str>)| Dependency {
            name: (*name).into(),
            kind: kind.map(Into::into),
        };
        let package = Package {
            name: name.into(),
            dependencies: needs.iter().map(needed).collect(),
        };
        out_of_order(&Workspace {
            packages: vec![package],
        })
        .len()
    }

    #[test]
    fn a_dependency_upwards_is_found() {
        assert_eq!(check("ax-core", &[("ax-engine", None)]), 1);
        assert_eq!(check("ax-engine", &[("ax-sdk", Some("build"))]), 1);
        assert_eq!(
            check("ax-engine", &[("ax-core", None), ("ax-sdk", Some("dev"))]),
            0
        );
    }

    #[test]
    fn a_library_that_a_crate_must_do_without_is_found() {
        assert_eq!(check("ax-core", &[("tokio", None), ("serde", None)]), 1);
        assert_eq!(check("ax-sdk", &[("clap", None), ("tokio", None)]), 1);
    }

    #[test]
    fn a_crate_without_a_place_is_found() {
        assert_eq!(check("ax-new", &[]), 1);
    }
}
